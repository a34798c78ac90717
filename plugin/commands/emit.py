"""`airflow interlock emit`: emits one event from a terminal or a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import action, answering_bus, or_exit, printable, show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from airflow.cli.cli_config import ActionCommand


MOST_TIMEOUT_S = 2_000_000  # as `Emitter.emit` takes


def command() -> ActionCommand:
    from airflow.cli.cli_config import Arg

    return action(
        "emit",
        "Emit one event",
        run,
        Arg(("type",), metavar="TYPE", help="type of the event, such as com.shop.orders.done"),
        Arg(("--source",), help="source of the event (default: /DEPLOYMENT/cli)"),
        Arg(("--subject",), help="subject of the event"),
        Arg(("--id",), help="id of the event: events with equal source and id count once (default: random)"),
        Arg(("--time",), help="when the event happened, RFC 3339 (default: when the broker receives it)"),
        Arg(
            ("--data",),
            metavar="JSON",
            help='data of the event, such as \'{"date": "2026-11-20"}\'; - reads stdin',
        ),
        Arg(("--key",), help="partitionkey of the event: events of one key keep their order"),
        Arg(
            ("--extension",),
            metavar="NAME=TEXT",
            action="append",
            help="an extension attribute; repeatable",
        ),
        Arg(("--timeout",), type=float, default=30.0, help="seconds for the broker to acknowledge (30)"),
        description=(
            "Emits one CloudEvent to the bus, and prints its topic, partition and offset when all in-sync "
            "replicas have it. Exits with 1 if the broker does not acknowledge it: run the command again "
            "with the same --id then."
        ),
    )


@or_exit("emit")
def run(args: Namespace) -> None:
    """Emits the event, and shows its identity and its offset."""
    from ...events import Emitter, Event
    from ...triggers.settings import settings

    extensions = _extensions(args.extension or ())
    if args.key is not None:
        extensions["partitionkey"] = args.key
    if not 0 < args.timeout <= MOST_TIMEOUT_S:  # also refuses NaN
        raise SystemExit(f"--timeout: give a number of seconds above 0, at most {MOST_TIMEOUT_S}.")
    data = _data(args.data)
    event = Event.of(
        args.type,
        args.source or f"/{settings().deployment}/cli",
        id=args.id,
        subject=args.subject,
        time=args.time,
        data=data,
        datacontenttype=None if data is None else "application/json",
        **extensions,
    )
    config = answering_bus(args, args.timeout)
    with Emitter(config.client, config.topic("event")) as emitter:
        delivery = emitter.emit(event, timeout_s=args.timeout)
    show(args, [{"source": event.source, "id": event.id, **delivery._asdict()}])


def _data(text: str | None) -> bytes | None:
    """Returns the JSON as it is written: Python's numbers would change those with many digits."""
    import sys

    from ...events.content import parse_json
    from ...events.errors import EventError
    from ...events.strict_json import refuse_repeated

    if text is None:
        return None
    invalid = SystemExit("--data is not valid JSON; write a text with its own quotes: '\"done\"'.")
    try:
        found = sys.stdin.read() if text == "-" else text
    except ValueError:  # stdin is not UTF-8
        raise invalid from None
    data = found.strip().encode()
    try:
        parse_json(data)
    except EventError:
        raise invalid from None
    try:
        refuse_repeated(data)
    except EventError as e:
        raise SystemExit(f"--data: {printable(e)}: write it once.") from None
    return data


def _extensions(given: Iterable[str]) -> dict[str, Any]:
    own = ("id", "source", "specversion", "type", "subject", "time", "data", "datacontenttype", "dataschema")
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise SystemExit(f"--extension {pair!r}: write NAME=TEXT.")
        if name in own:
            raise SystemExit(f"--extension {name}: this is not an extension attribute.")
        found[name] = text
    return found
