"""The events of a bus as an onlooker reads them: the last ones, or those that come. Commits nothing."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from heapq import heappop, heappush
from typing import Final

from ...conditions import Seen
from ...events.errors import EventError
from ...events.event import Event
from ...events.kafka import decode
from ...events.plain import event_of_record, is_plain
from ..bus import End, Reader, Record, TopicPartition
from ..config import BusConfig
from ..errors import TopicsError
from ..kafka.admin import Admin
from ..kafka.clients import ClientErrors
from ..kafka.reader import KafkaReader, drain
from ..log import log
from ..protocol.partitions.listed_topics import not_read, why_not
from ..registry.registry import Registry

MAX_BYTES: Final = 64 * 1024 * 1024  # of records held at once; beyond it those read first are let go
_TAKE: Final = 500
_TAKE_S: Final = 0.2
STALL_S: Final = 5.0


def event_of(config: BusConfig, record: Record) -> Event:
    """The event in a record of a source, as the engine reads it; EventError for none."""
    if record.fault:
        raise EventError(record.fault)
    if record.source.topic != config.topic("event") and is_plain(record.headers):
        return event_of_record(
            *record.source, record.offset, record.timestamp_ms, record.key, record.value, record.headers
        )
    return decode(record.key, record.value, record.headers)


def last_events(config: BusConfig, registry: Registry, count: int) -> tuple[list[Seen], int]:
    """About the last `count` events of all that the bus reads, the latest first, and what was no event.

    Each partition gives an equal share. UnreachableError when they cannot be read.
    """
    with closing(Admin(config, ClientErrors())) as admin:
        partitions = source_partitions(admin, config, registry)
        lows, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    share = -(-count // max(1, len(partitions)))
    held: deque[Record] = deque()
    size = 0
    starts = {tp: max(lows[tp], ends[tp] - share) for tp in partitions}
    for record in read_between(config, starts, ends, sparing=True):
        held.append(record)
        size += _size(record)
        while size > MAX_BYTES and len(held) > 1:
            size -= _size(held.popleft())
    events, unreadable = [], 0
    for record in sorted(held, key=lambda record: record.timestamp_ms, reverse=True):
        try:
            event = event_of(config, record)
        except EventError:
            unreadable += 1
        else:
            events.append(Seen(event, *record.source, record.offset, record.timestamp_ms))
    return events, unreadable


def follow(
    config: BusConfig, registry: Registry, since_ms: int | None, stop: Callable[[], bool]
) -> Iterator[Record]:
    """Records of all that the bus reads as they come, until `stop`.

    since_ms: from the first ones stamped then or later; None: from now on. Those that are there at the start
    come by their stamps (see `_by_time`); after them it holds what one fetch gives. UnreachableError when the
    client is of no use any more; a broker that is away is waited for.
    """
    errors = ClientErrors()
    with closing(Admin(config, errors)) as admin:
        partitions = source_partitions(admin, config, registry)
        positions = ends = admin.end_offsets(partitions)
        if since_ms is not None:
            first = admin.offsets_since(partitions, since_ms)
            positions = {tp: end if (at := first[tp]) is None else at for tp, end in ends.items()}
    with closing(KafkaReader(config, errors)) as reader:
        reader.read(positions)
        yield from _by_time(reader, {tp: end for tp, end in ends.items() if positions[tp] < end}, stop)
        while not stop():
            for item in reader.take(_TAKE, _TAKE_S):
                if stop():
                    return
                if isinstance(item, Record):
                    yield item


def _by_time(
    reader: Reader,
    ends: Mapping[TopicPartition, int],
    stop: Callable[[], bool],
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[Record]:
    """Records by their stamps, until all partitions of `ends` are read up to there.

    One is given when each partition that is not at its end has one held that is not earlier. Beyond
    MAX_BYTES the earliest that is held is given all the same, and partitions that are waited for and give
    nothing for STALL_S are waited for no more. Records of one partition may be stamped out of order: one that
    comes after a later one is given as soon as it comes.
    """
    left = dict(ends)
    waited_for = set(left)  # of which nothing is held
    held: list[tuple[int, TopicPartition, int, Record]] = []
    count: Counter[TopicPartition] = Counter()
    size, idle_s = 0, 0.0
    while left and not stop():
        began = monotonic()
        items = reader.take(_TAKE, _TAKE_S)
        if any(item.source in left and item.source in waited_for for item in items):
            idle_s = 0.0
        for item in items:
            if isinstance(item, Record):
                heappush(held, (item.timestamp_ms, item.source, item.offset, item))
                count[item.source] += 1
                size += _size(item)
                waited_for.discard(item.source)
            if isinstance(item, End) or item.offset >= left.get(item.source, 0) - 1:
                left.pop(item.source, None)
        idle_s += monotonic() - began  # what others do with what is given is not among it
        if idle_s > STALL_S:
            idle_s = 0.0
            for tp in waited_for & left.keys():
                del left[tp]
        while held and (not left or size > MAX_BYTES or not waited_for & left.keys()) and not stop():
            record = heappop(held)[-1]
            size -= _size(record)
            count[record.source] -= 1
            if not count[record.source]:
                waited_for.add(record.source)
            yield record


def source_partitions(admin: Admin, config: BusConfig, registry: Registry) -> list[TopicPartition]:
    """The partitions of the event topic and of the topics that the bus lists; TopicsError without any.

    A listed topic that cannot be read is left out, and the log says why.
    """
    listed = () if registry.bus is None else registry.bus.topics
    found = admin.topics((config.topic("event"), *listed), others=listed)
    for name in listed:
        reason = why_not(config, name, found[name])
        if reason is not None:
            found[name] = None
            log.warning("%s", not_read(name, reason))
    partitions = [
        TopicPartition(name, number)
        for name, topic in found.items()
        if topic is not None
        for number in range(topic.partitions)
    ]
    if not partitions:
        raise TopicsError(
            (
                f"Topic {config.topic('event')!r} is missing.",
                f"Is that the name of the bus? Then run: {config.command('topics create')}",
            )
        )
    return partitions


def read_between(
    config: BusConfig,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    sparing: bool = False,
) -> Iterator[Record]:
    """The committed records of partitions from `starts` up to `ends`; UnreachableError as of `drain`.

    sparing: of any size, with little fetched ahead (see `KafkaReader`).
    """
    with closing(KafkaReader(config, ClientErrors(), sparing=sparing)) as reader:
        yield from drain(reader, starts, ends)


def _size(record: Record) -> int:
    """About what it takes in memory."""
    size = 500 + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers or ():
        size += 150 + len(name) + len(value or b"")
    return size
