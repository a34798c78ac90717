"""`airflow interlock dead-letters`: lists, shows and re-sends records that could not be processed."""

from __future__ import annotations

from contextlib import closing
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from .console import (
    action,
    answering_bus,
    confirmed,
    counted,
    moment,
    or_exit,
    printable,
    progress,
    say,
    show,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from airflow.cli.cli_config import GroupCommand

    from ...engine.admin.dead_letters import DeadLetter, DeadLetters, Selection
    from ...engine.bus import Record
    from ...engine.config import BusConfig

MOST_CHARS = 16 * 1024  # of a key or value that `show` prints
_REASON_CHARS = 300
_MORE = " ... (all of it: dead-letters show)"


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_YES, Arg, GroupCommand

    filters = (
        Arg(("--since",), metavar="DURATION", help='only those not older than this, such as "1h" or "2d"'),
        Arg(
            ("--stage",),
            choices=("event", "trigger", "delivery"),
            help="only those that failed at this stage",
        ),
        Arg(("--reason",), metavar="TEXT", help="only those whose reason contains TEXT"),
    )
    places = "the place that list shows, such as interlock-dead-letter[0]@17, or just 0@17"
    return GroupCommand(
        name="dead-letters",
        help="Records that could not be processed",
        subcommands=(
            action(
                "list",
                "List dead letters, the newest first",
                list_,
                *filters,
                Arg(("--limit",), type=int, default=100, help="show at most this many (100)"),
            ),
            action(
                "show",
                "Show one dead letter with key, value and headers",
                show_one,
                Arg(("place",), metavar="PLACE", help=places),
            ),
            action(
                "redrive",
                "Send dead letters to their original partition again",
                redrive,
                Arg(("places",), metavar="PLACE", nargs="*", help=places),
                Arg(("--all",), action="store_true", help="all dead letters that match the filters"),
                *filters,
                Arg(
                    ("--to-event-topic",),
                    action="store_true",
                    help="send records that one subscription could not process (stage trigger) to the event "
                    "topic, where all subscriptions see them again",
                ),
                Arg(("--again",), action="store_true", help="also those that were already sent again"),
                Arg(("--dry-run",), action="store_true", help="show what would be sent; send nothing"),
                ARG_YES,
                description=(
                    "Sends records unchanged to their original partition again: events to all subscriptions, "
                    "a firing (stage delivery) to its own sink alone. A dead letter that was already sent "
                    "again, or must not be sent, is skipped with --all and refused if named."
                ),
            ),
        ),
    )


@or_exit("dead-letters list")
def list_(args: Namespace) -> None:
    """Shows the dead letters that match the filters."""
    from ...engine.admin.dead_letters import DeadLetters

    if args.limit < 1:
        raise SystemExit("--limit: give 1 or more.")
    with closing(DeadLetters(answering_bus(args))) as dead_letters:
        with progress("Reading dead letters"):
            found = dead_letters.find(_wanted(args), args.limit)
            sinks = dead_letters.sinks_of(found)
        show(args, _rows(args, found, sinks))


@or_exit("dead-letters show")
def show_one(args: Namespace) -> None:
    """Shows one dead letter with key, value and headers."""
    from ...engine.admin.dead_letters import DeadLetters

    with closing(DeadLetters(answering_bus(args))) as dead_letters:
        [(dead_letter, record)] = dead_letters.records(dead_letters.at([args.place]))
        sinks = dead_letters.sinks_of([dead_letter])
    found = _whole(dead_letter, record, sinks)
    if args.output in ("table", "plain"):
        if not dead_letter.subscription:
            del found["subscription"], found["sink"]
        headers = found.pop("headers")
        rows = {**found, **{f"header {name}": text for name, text in headers.items()}}
        show(args, [{"field": name, "value": value} for name, value in rows.items()])
    else:
        show(args, [found])


@or_exit("dead-letters redrive")
def redrive(args: Namespace) -> None:
    """Sends the chosen dead letters again; reports how many were sent, even when it is interrupted."""
    from ...engine.admin.dead_letters import DeadLetters

    if bool(args.places) == args.all:
        raise SystemExit("Give the places of dead letters, or --all.")
    if args.places and (args.since or args.stage or args.reason):
        raise SystemExit("--since, --stage and --reason need --all; leave them out if you give places.")
    config = answering_bus(args)
    with closing(DeadLetters(config)) as dead_letters:
        with progress("Reading dead letters"):
            chosen = dead_letters.at(args.places) if args.places else dead_letters.find(_wanted(args))
            sinks = dead_letters.sinks_of(chosen)
        chosen.reverse()  # the oldest first
        sendable = _sendable(args, config, dead_letters, chosen)
        if args.dry_run or not sendable:
            show(args, _rows(args, sendable, sinks))
            say(f"{len(sendable)} would be sent again." if args.dry_run else "Nothing to send.")
        elif confirmed(args, f"Send {len(sendable)} of {counted(len(chosen), 'dead letter')} again?"):
            _send(args, config, dead_letters, sendable, sinks)
        else:
            raise SystemExit("Nothing was sent.")


def _sendable(
    args: Namespace, config: BusConfig, dead_letters: DeadLetters, chosen: list[DeadLetter]
) -> list[DeadLetter]:
    readers = dead_letters.readers()
    refused: dict[str, list[str]] = {}
    sendable = []
    for dead_letter in chosen:
        reason = dead_letter.refusal(config, readers, to_event_topic=args.to_event_topic, again=args.again)
        if reason:
            refused.setdefault(reason, []).append(dead_letter.place)
        else:
            sendable.append(dead_letter)
    for reason, places in refused.items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        say(f"{', '.join(places[:3])}{more}: {reason}.")
    if refused and args.places:
        raise SystemExit("Nothing was sent.")
    return sendable


def _send(
    args: Namespace,
    config: BusConfig,
    dead_letters: DeadLetters,
    sendable: list[DeadLetter],
    sinks: Mapping[str, str],
) -> None:
    from ...engine.admin.redrive import redrive as send_again
    from ...events.errors import InterlockError

    sent: list[DeadLetter] = []
    problem = ""
    try:
        for batch in send_again(config, dead_letters.records(sendable)):
            sent += batch
    except (InterlockError, KeyboardInterrupt) as e:
        problem = printable(e) or "Interrupted."
    show(args, _rows(args, sent, sinks))
    say(f"Sent again: {len(sent)} of {counted(len(sendable), 'dead letter')}.")
    if problem:
        raise SystemExit(
            f"airflow interlock dead-letters redrive: {problem} The dead letters shown were sent. Up to 100 "
            "of the others may have been sent too: `dead-letters list` shows which (redriven). Run the same "
            "command again to send the rest."
        )
    if len(sent) < len(sendable):
        raise SystemExit("airflow interlock dead-letters redrive: retention removed the others first.")


def _wanted(args: Namespace) -> Selection:
    import time

    from ...conditions.nodes.duration import duration_ms
    from ...engine.admin.dead_letters import Selection

    since_ms = None
    if args.since is not None:
        since_ms = int(time.time() * 1000) - duration_ms("--since", args.since)
    return Selection(since_ms, args.stage, args.reason)


def _rows(
    args: Namespace, dead_letters: Sequence[DeadLetter], sinks: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Returns a row for each dead letter. Tables have a shortened reason, JSON and YAML the whole one.

    Tables have the columns of sinks only if one of the dead letters is a firing of a sink.
    """
    whole = args.output in ("json", "yaml")
    rows = [_row(dead_letter, sinks, whole=whole) for dead_letter in dead_letters]
    if not whole and not any(dead_letter.subscription for dead_letter in dead_letters):
        for row in rows:
            del row["subscription"], row["sink"]
    return rows


def _row(dead_letter: DeadLetter, sinks: Mapping[str, str], *, whole: bool = True) -> dict[str, Any]:
    reason = dead_letter.reason
    return {
        "place": dead_letter.place,
        "time": moment(dead_letter.time_ms),
        "stage": dead_letter.stage,
        "subscription": dead_letter.subscription or None,
        "sink": sinks.get(dead_letter.subscription),
        "origin": dead_letter.origin_place,
        "attempts": dead_letter.attempts,
        "type": dead_letter.event_type,
        "id": dead_letter.event_id,
        "redriven": moment(dead_letter.redriven_ms),
        "reason": reason if whole else shorten(reason, _REASON_CHARS, placeholder=_MORE),
    }


def _whole(dead_letter: DeadLetter, record: Record, sinks: Mapping[str, str]) -> dict[str, Any]:
    from ...engine.admin.sinks import answered
    from ...engine.delivery.acknowledgements import ERROR_DATA

    headers = {
        name: answered(raw)[:MOST_CHARS] if name == ERROR_DATA else _text(raw)
        for name, raw in record.headers or ()
    }
    return {
        **_row(dead_letter, sinks),
        "headers": headers,
        "key": _text(record.key),
        "value": _text(record.value),
        "value_bytes": len(record.value or b""),
    }


def _text(raw: bytes | None) -> str:
    """Returns UTF-8 text as it is and other bytes in hexadecimal, cut to MOST_CHARS."""
    if raw is None:
        return "null"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = f"hex {raw[:MOST_CHARS].hex()}"
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} ... ({len(raw)} bytes)"
