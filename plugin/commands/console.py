"""Shared by the commands: arguments for the bus, printing, and exit on errors."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from airflow.cli.cli_config import ActionCommand, Arg

    from ...engine.config import BusConfig

_LOOK_S = 0.2  # how soon `bus_until` sees that it has to stop


def bus_arguments(*, listeners: bool = False) -> tuple[Arg, ...]:
    """Returns --conn-id, --bus and --output. listeners: --conn-id defaults to the listener's connection."""
    from airflow.cli.cli_config import ARG_OUTPUT, Arg

    default = "listener_conn_id in section interlock" if listeners else "kafka_default"
    return (
        Arg(
            ("--conn-id",),
            default=None if listeners else default,
            help=f"Airflow connection of type kafka ({default})",
        ),
        Arg(("--bus",), help="name of the bus, the prefix of its topics (default: bus in section interlock)"),
        ARG_OUTPUT,
    )


def action(
    name: str, help_text: str, run: Callable[[Namespace], None], *args: Arg, description: str | None = None
) -> ActionCommand:
    """Returns a command with these arguments and those of the bus."""
    from airflow.cli.cli_config import ActionCommand

    return ActionCommand(name, help_text, run, (*args, *bus_arguments()), description)


def bus_of(args: Namespace) -> BusConfig:
    """Returns the bus of --conn-id and --bus; of the listener's connection if `--conn-id` is None.

    Raises ConfigError if the connection is not usable, and Airflow's AirflowNotFoundException without it.
    """
    # The task SDK finds no connections of the database in this process; `airflow connections get` reads them
    # this way too.
    from airflow.models.connection import Connection

    from ...engine.errors import ConfigError
    from ...triggers.settings import bus_config, listener_settings

    conn_id = listener_settings().connection if args.conn_id is None else args.conn_id
    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except PermissionError as e:  # of Airflow, if a secrets backend refuses it
        raise ConfigError(
            f"This process may not read connection {conn_id!r}: {e}. Allow it in the secrets backend."
        ) from None
    return bus_config(found, bus=args.bus)


def bus_until(args: Namespace, stop: threading.Event) -> BusConfig | None:
    """Returns `bus_of(args)`, or None if `stop` is set first: a secrets backend may hang."""
    from concurrent.futures import wait

    from ...engine.sending.threads import DaemonThreads

    threads = DaemonThreads(1, "interlock-connection")
    reading = threads.submit(bus_of, args)
    threads.shutdown()
    while not stop.is_set():
        if wait([reading], _LOOK_S).done:
            return reading.result()
    return None


def answering_bus(args: Namespace, timeout_s: float | None = None) -> BusConfig:
    """Returns `bus_of(args)` once its cluster answers.

    Raises UnreachableError after 10 s, or after `timeout_s` if that is less.
    """
    from ...engine.kafka.clients import ANSWER_TIMEOUT_S
    from ...engine.kafka.reachability import require_answer

    config = bus_of(args)
    with progress(f"Waiting for {config.describe()} to answer"):
        require_answer(config, ANSWER_TIMEOUT_S if timeout_s is None else min(timeout_s, ANSWER_TIMEOUT_S))
    return config


def print_whole(output: str, whole: object) -> None:
    """Prints a value as JSON or YAML. Numbers stay numbers; Airflow's `print_as` would write them as text."""
    from airflow.cli.simple_table import AirflowConsole

    console: Any = AirflowConsole()  # its type hints allow only dicts
    (console.print_as_json if output == "json" else console.print_as_yaml)(whole)


def moment(ms: int | None) -> str:
    """Returns a time as ISO 8601 text in UTC; "" for None; outside the years 1 to 9999 in milliseconds."""
    from datetime import UTC, datetime, timedelta

    if ms is None:
        return ""
    try:  # a producer may stamp a record with any number
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat(timespec="seconds")
    except OverflowError:
        return f"{ms} ms"


def show(args: Namespace, rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows in the format of --output. None is null in JSON and YAML, and empty in a table.

    In a table, names and keys are on one line, however narrow the terminal is (see `table`).
    """
    from .table import print_plain, print_table

    if args.output in ("json", "yaml"):
        print_whole(args.output, list(rows))
        return
    # Anyone may have written the records' content: it must not control the terminal.
    texts = [{name: "" if value is None else printable(value) for name, value in row.items()} for row in rows]
    (print_table if args.output == "table" else print_plain)(texts)


def counted(number: int, one: str) -> str:
    """Returns "1 event", "2 events"."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def printable(value: object) -> str:
    """Returns the value's text in one line, as `visible` in events."""
    from ...events.visible import visible  # when a command runs: Airflow loads this module for each command

    return visible(value)


def print_lines(text: str, file: TextIO | None = None) -> None:
    """Prints a text of several lines, each of them as `printable` returns it."""
    from ...events.visible import visible_lines

    print(visible_lines(text), file=file)


def quoted(text: str) -> str:
    """Returns the text, printable; in quotes if it is empty, or begins or ends with a space."""
    safe = printable(text)
    return safe if safe and safe == safe.strip() else f'"{safe}"'


def say(text: str) -> None:
    """Prints a sentence to stderr; stdout is for the rows."""
    print(printable(text), file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Shows on stderr, if it is a terminal, what the command does, and removes the line at the end.

    Yields a function that replaces the text. The block must print nothing.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text  # in a plain text rich would take "[::1]" for a style

    with Console(stderr=True).status(Text(f"{printable(what)} ...")) as status:
        yield lambda now: status.update(Text(f"{printable(now)} ..."))


def confirmed(args: Namespace, question: str) -> bool:
    """Returns whether --yes was given or the user answers the question with y. False if stdin is closed."""
    if args.yes:
        return True
    try:
        print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _without_reader() -> bool:
    """Returns whether the reader of stdout has ended; then what is printed from now on goes nowhere.

    The interpreter would report it when it flushes stdout at exit.
    """
    import os
    import select

    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file
        return False
    poll = select.poll()
    poll.register(number, 0)
    if not any(found & select.POLLERR for _, found in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return True


@contextmanager
def or_exit(command: str) -> Iterator[None]:
    """Around a command: what a user can correct ends it with exit code 1 and the reason.

    That is an InterlockError, a missing connection, or an argument that is not text. If the reader of stdout
    has ended, such as `head`, the rest is not printed.
    """
    from airflow.exceptions import AirflowNotFoundException

    from ...events.errors import InterlockError

    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        if not _without_reader():
            raise
    except (InterlockError, AirflowNotFoundException) as e:
        raise SystemExit(f"airflow interlock {command}: {printable(e)}") from None
    except UnicodeEncodeError as e:  # Python keeps the bytes of such an argument as surrogates
        if e.reason != "surrogates not allowed":
            raise
        raise SystemExit(
            f"airflow interlock {command}: an argument is not text in UTF-8: write it in UTF-8, and set the "
            "terminal's encoding to UTF-8."
        ) from None
