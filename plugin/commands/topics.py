"""`airflow interlock topics`: make and check the topics of a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from airflow.cli.cli_config import GroupCommand

    from ...engine.config import BusConfig


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg, GroupCommand, lazy_load_command

    from ...engine.config import DEFAULT_PARTITIONS

    bus = (
        Arg(("--conn-id",), default="kafka_default", help="Airflow connection of type kafka (kafka_default)"),
        Arg(("--bus",), help="name of the bus, the prefix of its topics (default: as configured)"),
        ARG_OUTPUT,
    )
    return GroupCommand(
        name="topics",
        help="Make and check the topics of a bus",
        subcommands=(
            ActionCommand(
                name="create",
                help="Create the topics that are missing",
                func=lazy_load_command("interlock.plugin.commands.topics.create"),
                args=(
                    *bus,
                    Arg(("--partitions",), type=int, help=f"partitions of each topic ({DEFAULT_PARTITIONS})"),
                    Arg(
                        ("--replication-factor",),
                        type=int,
                        default=-1,
                        help="replicas of each partition; -1 takes the broker's default",
                    ),
                ),
            ),
            ActionCommand(
                name="check",
                help="Tell which topics are missing or made differently",
                func=lazy_load_command("interlock.plugin.commands.topics.check"),
                args=bus,
            ),
        ),
    )


def create(args: Namespace) -> None:
    """Create what is missing and show all; exit 1 with the reason when the cluster refuses."""
    from ...engine.config import DEFAULT_PARTITIONS
    from ...engine.errors import TopicsError
    from ...engine.kafka import topics

    def work() -> None:
        config = _config(args)
        created, _ = topics.create(
            config,
            partitions=args.partitions or DEFAULT_PARTITIONS,
            replication_factor=args.replication_factor,
        )
        counts = topics.check(config)
        _show(
            args,
            [
                _row(name, count, "created" if name in created else "was there")
                for name, count in counts.items()
            ],
        )
        others = {n for name, n in counts.items() if name != config.topic("subscription")} - {args.partitions}
        if args.partitions is not None and others:
            problem = (
                f"Topics that were there have {', '.join(map(str, sorted(others)))} partitions, not "
                f"{args.partitions}: a bus keeps the number it was made with."
            )
            raise TopicsError((problem,))

    _or_exit(work)


def check(args: Namespace) -> None:
    """Show the topics when all is well; else exit 1 with a sentence for each that is not."""
    from ...engine.kafka import topics

    def work() -> None:
        _show(args, [_row(name, count, "ok") for name, count in topics.check(_config(args)).items()])

    _or_exit(work)


def _config(args: Namespace) -> BusConfig:
    # As `airflow connections get` reads it: the task SDK's way finds no connection of the database here.
    from airflow.models.connection import Connection

    from ...triggers.settings import bus_config

    return bus_config(Connection.get_connection_from_secrets(args.conn_id), bus=args.bus)


def _row(name: str, partitions: int, state: str) -> dict[str, Any]:
    return {"topic": name, "partitions": partitions, "state": state}


def _show(args: Namespace, rows: list[dict[str, Any]]) -> None:
    from airflow.cli.simple_table import AirflowConsole

    AirflowConsole().print_as(data=rows, output=args.output)


def _or_exit(work: Callable[[], None]) -> None:
    from airflow.exceptions import AirflowNotFoundException

    from ...events.errors import InterlockError

    try:
        work()
    except (InterlockError, AirflowNotFoundException) as e:
        raise SystemExit(f"airflow interlock topics: {e}") from None
