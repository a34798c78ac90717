"""`airflow interlock deliver`: sends firings to HTTP services, without a triggerer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .console import bus_arguments, bus_until, or_exit
from .foreground import check_probe_port, end_process, probe_arguments, probes, run_until, stop_signal

if TYPE_CHECKING:
    import threading
    from argparse import Namespace
    from collections.abc import Callable

    from airflow.cli.cli_config import ActionCommand

    from ...engine.config import BusConfig
    from ...engine.sending.posts import HttpPosts

MOST_SLOTS = 10_000
MOST_DRAIN_S = 600


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg

    return ActionCommand(
        name="deliver",
        help="Send firings to HTTP services, until Ctrl-C or SIGTERM",
        description=(
            "Runs a deliverer in the foreground. It sends the firings of deliver_dag to their services, as "
            "one more member of the consumer group that shares the firings of this deployment. At the end it "
            "waits for the deliveries in flight and acknowledges them. Logs to stdout. Logs and retries "
            "requests that the cluster refuses or does not answer. Exits with 1 when the Kafka connection or "
            "a setting cannot be used, and when its threads keep hanging; let a supervisor restart it. "
            "docs/use/deliver.md"
        ),
        func=run,
        args=(
            Arg(("--slots",), type=int, default=256, help="deliveries at a time that all sinks share (256)"),
            Arg(
                ("--drain",),
                type=int,
                default=15,
                metavar="SECONDS",
                help="how long deliveries in flight may take at the end (15)",
            ),
            *probe_arguments(),
            *(arg for arg in bus_arguments() if "--output" not in arg.flags),
        ),
    )


@or_exit("deliver")
def run(args: Namespace) -> None:
    """Runs until a signal, then ends what is in flight. Exits with 1 if the configuration cannot be used."""
    if not 1 <= args.slots <= MOST_SLOTS:
        raise SystemExit(f"--slots: give a number from 1 to {MOST_SLOTS}.")
    if not 0 <= args.drain <= MOST_DRAIN_S:
        raise SystemExit(f"--drain: give seconds from 0 to {MOST_DRAIN_S}.")
    check_probe_port(args)
    _run(args, stop_signal())


def _run(args: Namespace, stop: threading.Event) -> None:
    from structlog.contextvars import bind_contextvars

    from ...engine.delivery.context import DeliveryLimits
    from ...engine.delivery.parts import DelivererParts
    from ...engine.kafka.reachability import require_usable
    from ...engine.log import log
    from ...engine.runtime.delivering import DelivererProcess, Delivering, collect_seldom
    from ...engine.sending.posts import HttpPosts, PostOptions
    from ...triggers.settings import delivery_settings
    from ...triggers.sink_connections import target_in_command
    from ...triggers.stats import initialised_stats

    networks = delivery_settings().networks
    config = bus_until(args, stop)
    if config is None:
        return
    require_usable(config)
    collect_seldom()
    bind_contextvars(bus=config.name)
    log.info("Delivering the firings of deployment %r of %s.", config.deployment, config.describe())
    if networks:
        log.info("Deliveries may also go to addresses in %s.", ", ".join(map(str, networks)))

    def make_posts(config: BusConfig, on_ended: Callable[[], None]) -> HttpPosts:
        return HttpPosts(config, target_in_command, on_ended, PostOptions(networks))

    parts = DelivererParts(limits=DeliveryLimits(slots=args.slots))
    ended = partial(end_process, "deliver")
    process = DelivererProcess(end_process=ended, parts=parts, drain_s=args.drain)
    delivering = Delivering(config, make_posts, process, initialised_stats())
    with probes(args, delivering):
        run_until(stop, args, delivering, "Deliveries continue")
        log.info("Deliveries in flight have %d s to end.", args.drain)
        delivering.stop()
    log.info("The deliverer for %s has left the group.", config.describe())
