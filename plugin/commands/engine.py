"""`airflow interlock engine`: runs an engine without a triggerer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .console import bus_arguments, bus_until, or_exit
from .foreground import check_probe_port, end_process, probe_arguments, probes, run_until, stop_signal

if TYPE_CHECKING:
    import threading
    from argparse import Namespace

    from airflow.cli.cli_config import ActionCommand


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
        args=(*probe_arguments(), *(arg for arg in bus_arguments() if "--output" not in arg.flags)),
    )


@or_exit("engine")
def run(args: Namespace) -> None:
    """Runs until a signal, then leaves the group. Exits with 1 if the configuration cannot be used."""
    check_probe_port(args)
    _run(args, stop_signal())


def _run(args: Namespace, stop: threading.Event) -> None:
    from structlog.contextvars import bind_contextvars

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
    process = EngineProcess(end_process=partial(end_process, "engine"))
    runtime = Runtime(config, initialised_stats(), runs="engine", process=process)
    with probes(args, runtime):
        run_until(stop, args, runtime, "The engine continues")
        runtime.stop()
    log.info("The engine for %s has left the group.", config.describe())
