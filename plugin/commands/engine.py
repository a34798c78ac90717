"""`airflow interlock engine`: an engine alone, without a triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .console import bus_arguments, bus_of, or_exit, say

if TYPE_CHECKING:
    import threading
    from argparse import Namespace

    from airflow.cli.cli_config import ActionCommand

    from ...engine.waiting.notices import Notice

READ_AGAIN_S = 15.0


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, lazy_load_command

    return ActionCommand(
        name="engine",
        help="Run an engine alone until Ctrl-C or SIGTERM",
        description=(
            "Runs the engine that a triggerer runs, in the foreground: one more member of the group that "
            "shares the bus's partitions. Logs to stdout. What a cluster refuses or does not answer is "
            "logged and tried again. It ends with 1 when a connection or setting cannot be used, and when "
            "its threads hang one after the other: its supervisor is to start it anew."
        ),
        func=lazy_load_command("interlock.plugin.commands.engine.run"),
        args=tuple(arg for arg in bus_arguments() if "--output" not in arg.flags),
    )


def run(args: Namespace) -> None:
    """Run until a signal, then leave the group; exit 1 for a configuration that cannot be used."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    or_exit("engine", lambda: _run(args, stop))


def _run(args: Namespace, stop: threading.Event) -> None:
    from structlog.contextvars import bind_contextvars

    from ...engine.errors import ConfigError
    from ...engine.kafka.reachability import require_usable
    from ...engine.log import log
    from ...engine.runtime.runtime import Runtime
    from ...triggers.stats import initialised_stats

    config = bus_of(args)
    require_usable(config)
    bind_contextvars(bus=config.name)
    log.info("An engine for %s begins.", config.describe())
    runtime = Runtime(config, initialised_stats(), with_waits=False, give_up=_end)
    wrong: list[str | None] = [None]

    def heard(notice: Notice) -> None:
        wrong[0] = notice.text

    runtime.board.listen("command", heard)
    runtime.start()
    # While something is wrong: what an administrator mends in the connection takes effect by itself.
    while not stop.wait(READ_AGAIN_S):
        if wrong[0] is not None:
            try:
                runtime.use(bus_of(args))
            except ConfigError as e:
                log.warning("%s The engine goes on with the connection as it was.", e)
    runtime.stop()
    log.info("The engine for %s has left the group.", config.describe())


def _end(reason: str) -> None:
    """End the process at once: an end in order may wait for what the threads that hang hold."""
    import os

    say(f"airflow interlock engine: {reason}")
    os._exit(1)
