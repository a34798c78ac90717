"""What the commands on a bus share: its arguments, how rows are printed, and how errors end a command."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from airflow.cli.cli_config import Arg

    from ...engine.config import BusConfig

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def bus_arguments(*, listeners: bool = False) -> tuple[Arg, ...]:
    """Which bus, and how to print. listeners: without --conn-id it is the listener's connection."""
    from airflow.cli.cli_config import ARG_OUTPUT, Arg

    default = "[interlock] listener_conn_id" if listeners else "kafka_default"
    return (
        Arg(
            ("--conn-id",),
            default=None if listeners else default,
            help=f"Airflow connection of type kafka ({default})",
        ),
        Arg(("--bus",), help="name of the bus, the prefix of its topics (default: as configured)"),
        ARG_OUTPUT,
    )


def bus_of(args: Namespace) -> BusConfig:
    """The bus that the arguments name, through a connection of Airflow's."""
    # As `airflow connections get` reads it: the task SDK's way finds no connection of the database here.
    from airflow.models.connection import Connection

    from ...triggers.settings import bus_config, listener_settings

    conn_id = listener_settings().connection if args.conn_id is None else args.conn_id
    return bus_config(Connection.get_connection_from_secrets(conn_id), bus=args.bus)


def answering_bus(args: Namespace, most_s: float | None = None) -> BusConfig:
    """As `bus_of`, once its cluster answers; UnreachableError after 10 s, or `most_s` if that is less."""
    from ...engine.kafka.clients import ANSWER_TIMEOUT_S
    from ...engine.kafka.reachability import require_answer

    config = bus_of(args)
    require_answer(config, ANSWER_TIMEOUT_S if most_s is None else min(most_s, ANSWER_TIMEOUT_S))
    return config


def print_whole(output: str, whole: object) -> None:
    """As JSON or YAML, numbers as numbers: Airflow's `print_as` makes texts of them."""
    from airflow.cli.simple_table import AirflowConsole

    console: Any = AirflowConsole()  # declared for dicts only
    (console.print_as_json if output == "json" else console.print_as_yaml)(whole)


def moment(ms: int | None) -> str:
    """A time as the tables show it; "" for none."""
    from datetime import UTC, datetime

    return "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def show(args: Namespace, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows in the form asked for; None is null, and nothing in a table."""
    from airflow.cli.simple_table import AirflowConsole
    from rich.markup import escape

    if args.output in ("json", "yaml"):
        print_whole(args.output, list(rows))
        return
    # Records hold what others wrote: nothing of it may command the terminal, or rich.
    rows = [
        {name: "" if value is None else printable(str(value)) for name, value in row.items()} for row in rows
    ]
    if args.output == "table":
        rows = [{name: escape(value) for name, value in row.items()} for row in rows]
    AirflowConsole().print_as(data=rows, output=args.output)


def counted(number: int, one: str) -> str:
    """ "1 end", "2 ends"."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def printable(text: str) -> str:
    """The text with control characters as escapes."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def say(text: str) -> None:
    """A sentence for whoever sits there; stdout has the rows alone."""
    print(printable(text), file=sys.stderr)


def confirmed(args: Namespace, question: str) -> bool:
    """Whether --yes was given, or the question is answered with y. Without a terminal, no."""
    if args.yes:
        return True
    try:
        print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def or_exit(command: str, work: Callable[[], None]) -> None:
    """Run a command; what it cannot do ends it with exit code 1 and the reason."""
    from airflow.exceptions import AirflowNotFoundException

    from ...events.errors import InterlockError

    try:
        work()
    except (InterlockError, AirflowNotFoundException) as e:
        raise SystemExit(f"airflow interlock {command}: {printable(str(e))}") from None
