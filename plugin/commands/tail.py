"""`airflow interlock tail`: prints the events of a bus as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import action, answering_bus, counted, moment, or_exit, printable, quoted, say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from airflow.cli.cli_config import ActionCommand

    from ...conditions import Matcher
    from ...engine.bus import Record, TopicPartition
    from ...engine.config import BusConfig
    from ...engine.registry.registry import Registry
    from ...events import Event

MOST_CHARS = 2000  # of data shown on a line


def command() -> ActionCommand:
    from airflow.cli.cli_config import Arg

    return action(
        "tail",
        "Print the events of a bus: those that exist, and new ones as they arrive, until Ctrl-C",
        run,
        Arg(
            ("matcher",),
            metavar="MATCHER",
            nargs="?",
            help="which events: a type, or a matcher written as in a DAG, such as "
            '\'event("com.shop.orders.done", where="data.rows > 0")\' (default: all)',
        ),
        Arg(("--since",), metavar="DURATION", help='also events not older than this, such as "1h"'),
        Arg(
            ("--no-follow",),
            action="store_true",
            help="print the events that exist (with --since: not older than that), and stop",
        ),
        Arg(("--limit",), type=int, help="stop after this many events"),
        Arg(("--data",), action="store_true", help="show the data as well"),
        description=(
            "Prints one line for each event in the event topic and the listed topics, if the matcher accepts "
            "it; with --output json one JSON object on each line. Reads the partitions that exist at the "
            "start. Events from before the start (--since, --no-follow) are sorted by time. A line on stderr "
            "says when they are printed and the command waits for new ones. Records that are not valid "
            "CloudEvents are reported on stderr too."
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

    from ...engine.kafka.topics import read_registry
    from ...engine.reading.sources import STALL_S, event_of
    from ...events import EventError

    if args.limit is not None and args.limit < 1:
        raise SystemExit("--limit: give 1 or more.")
    matcher = _matcher(args.matcher)
    since_ms = _since_ms(args.since)
    config = answering_bus(args)
    shown = 0

    def say_following() -> None:
        earlier = "" if args.since is None else f"{counted(shown, 'event')} since {moment(since_ms)}. "
        more = "" if args.limit is None else f" or {counted(args.limit - shown, 'more event')}"
        say(f"{earlier}Following: new events are printed as they arrive, until Ctrl-C{more}.")

    unread: list[TopicPartition] = []
    registry = read_registry(config)
    cloudevents = () if registry.bus is None else registry.bus.cloudevents
    for record in _records(args, config, registry, since_ms, stopped, say_following, unread):
        try:
            event = event_of(config, cloudevents, record)
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
    if shown == args.limit or not args.no_follow or stopped():
        return
    if unread:
        raise SystemExit(
            "airflow interlock tail: not read to the end, because the broker returned nothing for "
            f"{STALL_S:.0f} s: {', '.join(map(str, unread))}."
        )
    say(f"{counted(shown, 'event')}; there are no more.")


def _records(
    args: Namespace,
    config: BusConfig,
    registry: Registry,
    since_ms: int | None,
    stopped: Callable[[], bool],
    reached: Callable[[], None],
    unread: list[TopicPartition],
) -> Iterator[Record]:
    """Returns the records to look at.

    reached: called when all records that exist were returned, and new ones are waited for. unread: gets the
    partitions that --no-follow could not read to their end.
    """
    from ...engine.reading.sources import existing, follow

    if args.no_follow:
        return existing(config, registry, since_ms, stopped, unread.append)
    return follow(config, registry, since_ms, stopped, reached)


def _since_ms(text: str | None) -> int | None:
    import time

    from ...conditions.nodes.duration import duration_ms

    return None if text is None else int(time.time() * 1000) - duration_ms("--since", text)


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
    from ...events.misspelled import is_misspelled
    from ...events.plain import TYPE as PLAIN
    from ...events.plain import is_plain

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
        whole["event"] = event.to_json_dict(assume_json=True) if args.data else dict(event.attributes)
        try:
            return _written(args.output, whole)
        except RecursionError:  # nested data
            from base64 import b64encode

            encoded = b64encode(event.data or b"").decode()
            whole["event"] = {**event.attributes, "data_base64": encoded}
            return _written(args.output, whole)
    # Kafka gives -1 for a record whose producer, an old one, sent none.
    stamp = moment(record.timestamp_ms) if record.timestamp_ms >= 0 else "(no timestamp)"
    words = [stamp, str(record), *map(quoted, (event.type, event.source, event.id))]
    if event.subject is not None:
        words.append(f"subject={quoted(event.subject)}")
    if key is not None:
        words.append(f"key={quoted(key)}")
    if event.type == PLAIN and record.value is None:
        words.append("(a tombstone: no data)")
    if event.type == PLAIN and (not is_plain(record.headers) or is_misspelled(record.headers)):
        words.append("(its headers of a CloudEvent are not read: the topic is listed as plain)")
    if args.data and event.data is not None:
        data = event.data.decode("utf-8", "replace")
        words.append(
            data if len(data) <= MOST_CHARS else f"{data[:MOST_CHARS]} ... ({len(event.data)} bytes)"
        )
    return printable(" ".join(words))


def _written(output: str, whole: dict[str, Any]) -> str:
    """Raises RecursionError for data that is nested too deeply; an event may have such data."""
    if output == "yaml":
        from airflow.utils import yaml

        return "---\n" + str(yaml.dump(whole, sort_keys=False)).rstrip()
    import json

    return json.dumps(whole)
