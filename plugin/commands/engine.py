"""`airflow interlock engine`: runs an engine without a triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .console import bus_arguments, bus_until, or_exit, print_lines

if TYPE_CHECKING:
    import threading
    from argparse import Namespace

    from airflow.cli.cli_config import ActionCommand

    from ...engine.waiting.notices import Notice

READ_AGAIN_S = 15.0


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand

    return ActionCommand(
        name="engine",
        help="Run an engine without a triggerer, until Ctrl-C or SIGTERM",
        description=(
            "Runs in the foreground the same engine that a triggerer runs: one more member of the consumer "
            "group that shares the bus's partitions. Logs to stdout. Logs and retries requests that the "
            "cluster refuses or does not answer. Exits with 1 when a connection or setting cannot be used, "
            "and when its threads keep hanging; let a supervisor restart it."
        ),
        func=run,
        args=tuple(arg for arg in bus_arguments() if "--output" not in arg.flags),
    )


@or_exit("engine")
def run(args: Namespace) -> None:
    """Runs until a signal, then leaves the group. Exits with 1 if the configuration cannot be used."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _run(args, stop)


def _run(args: Namespace, stop: threading.Event) -> None:
    from structlog.contextvars import bind_contextvars

    from ...engine.errors import ConfigError
    from ...engine.kafka.reachability import require_usable
    from ...engine.log import log
    from ...engine.runtime.runtime import EngineProcess, Runtime
    from ...triggers.stats import initialised_stats

    config = bus_until(args, stop)
    if config is None:
        return
    require_usable(config)
    bind_contextvars(bus=config.name)
    log.info("Starting an engine for %s.", config.describe())
    runtime = Runtime(config, initialised_stats(), runs="engine", process=EngineProcess(end_process=_end))
    problem: list[str | None] = [None]

    def on_notice(notice: Notice) -> None:
        problem[0] = notice.text

    runtime.board.listen("command", on_notice)
    runtime.start()
    # While something is wrong, read the connection again: an administrator may have corrected it.
    while not stop.wait(READ_AGAIN_S):
        if problem[0] is not None:
            try:
                found = bus_until(args, stop)
                if found is not None:
                    runtime.use(found)
            except ConfigError as e:
                log.warning("%s The engine continues with the earlier connection.", e)
    runtime.stop()
    log.info("The engine for %s has left the group.", config.describe())


def _end(reason: str) -> None:
    """Ends the process at once: a clean exit could wait for locks of the hanging threads."""
    import os
    import sys

    print_lines(f"airflow interlock engine: {reason}", sys.stderr)
    os._exit(1)
