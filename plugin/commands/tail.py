"""`airflow interlock tail`: prints the events of a bus as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import action, answering_bus, moment, or_exit, printable, say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from airflow.cli.cli_config import ActionCommand

    from ...conditions import Matcher
    from ...engine.bus import Record
    from ...events import Event

MOST_CHARS = 2000  # of data shown on a line


def command() -> ActionCommand:
    from airflow.cli.cli_config import Arg

    return action(
        "tail",
        "Print the events of a bus as they arrive, until Ctrl-C",
        run,
        Arg(
            ("matcher",),
            metavar="MATCHER",
            nargs="?",
            help="which events: a type, or a matcher written as in a DAG, such as "
            '\'event("com.shop.orders.done", where="data.rows > 0")\' (default: all)',
        ),
        Arg(("--since",), metavar="DURATION", help='also events not older than this, such as "1h"'),
        Arg(("--limit",), type=int, help="stop after this many events"),
        Arg(("--data",), action="store_true", help="show the data as well"),
        description=(
            "Prints one line for each event of the event topic and of the listed topics that the matcher "
            "accepts; with --output json one JSON object on each line. Reads the partitions that exist at "
            "the start. Events from before the start (--since) are sorted by time. Records that are not "
            "valid CloudEvents are reported on stderr."
        ),
    )


@or_exit("tail")
def run(args: Namespace) -> None:
    """Prints until a signal or the limit, or until the reader of stdout ends."""
    import os
    import signal
    import sys
    import threading

    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda *_: stop.set())
    try:
        _run(args, stop.is_set)
    except BrokenPipeError:
        # The reader has ended. The interpreter would report that when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(args: Namespace, stopped: Callable[[], bool]) -> None:
    import sys
    import time

    from ...conditions.nodes.duration import duration_ms
    from ...engine.kafka.topics import read_registry
    from ...engine.reading.sources import event_of, follow
    from ...events import EventError

    if args.limit is not None and args.limit < 1:
        raise SystemExit("--limit: give 1 or more.")
    matcher = _matcher(args.matcher)
    since_ms = None
    if args.since is not None:
        since_ms = int(time.time() * 1000) - duration_ms("--since", args.since)
    config = answering_bus(args)
    shown = 0
    for record in follow(config, read_registry(config), since_ms, stopped):
        try:
            event = event_of(config, record)
        except EventError as error:
            say(f"{record} is not a valid CloudEvent: {error}")
            continue
        if matcher is not None and not matcher.accepts(event):
            continue
        print(_line(args, matcher, record, event), flush=True)
        shown += 1
        if shown == args.limit:
            break
    sys.stdout.flush()


def _matcher(text: str | None) -> Matcher | None:
    from ...conditions import Matcher, event, parse

    if text is None:
        return None
    found = parse(text) if "(" in text else event(type=text)
    if not isinstance(found, Matcher):
        raise SystemExit(
            "MATCHER: give one event(...). To try a condition, rehearse it: docs/use/presets.md."
        )
    return found


def _line(args: Namespace, matcher: Matcher | None, record: Record, event: Event) -> str:
    import json

    key = None if matcher is None else matcher.key_of(event)
    if args.output in ("json", "yaml"):
        whole: dict[str, Any] = {
            "topic": record.source.topic,
            "partition": record.source.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
        }
        if key is not None:
            whole["key"] = key
        whole["event"] = event.to_json_dict() if args.data else dict(event.attributes)
        if args.output == "yaml":
            from airflow.utils import yaml

            return "---\n" + str(yaml.dump(whole, sort_keys=False)).rstrip()
        return json.dumps(whole)
    words = [moment(record.timestamp_ms), str(record), event.type, event.source, event.id]
    if event.subject is not None:
        words.append(f"subject={event.subject}")
    if key is not None:
        words.append(f"key={key}")
    if args.data and event.data is not None:
        data = event.data.decode("utf-8", "replace")
        words.append(
            data if len(data) <= MOST_CHARS else f"{data[:MOST_CHARS]} ... ({len(event.data)} bytes)"
        )
    return printable(" ".join(words))
