"""Reads the events of a bus outside the consumer group: the last ones, or new ones as they arrive."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ...conditions import Seen
from ...events.errors import EventError
from ...events.event import Event
from ...events.kafka import decode
from ...events.listed import event_of_listed
from ..bus import End, Reader, Record, TopicPartition
from ..config import BusConfig
from ..errors import TopicsError
from ..kafka.admin import Admin
from ..kafka.clients import ClientErrors
from ..kafka.reader import KafkaReader, drain
from ..log import log
from ..protocol.partitions.listed_topics import topic_not_read, why_unreadable
from ..registry.facts import BusFacts
from .hints import Hints

MAX_BYTES: Final = 64 * 1024 * 1024  # of records in memory; beyond it the ones read first are dropped
_TAKE: Final = 500
_TAKE_S: Final = 0.2
STALL_S: Final = 5.0


def event_of(config: BusConfig, cloudevents: Collection[str], record: Record) -> Event:
    """The event in a record of a source partition, as the engine reads it. Raises EventError if it has none.

    cloudevents: the listed topics that hold CloudEvents (BusRecord).
    """
    if record.fault:
        raise EventError(record.fault)
    if record.source.topic != config.topic("event"):
        return event_of_listed(
            *record.source,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
            cloudevents=record.source.topic in cloudevents,
        )
    event = decode(record.key, record.value, record.headers)
    if config.proof is not None:
        config.proof.check(event, record.timestamp_ms)
    return event


class LastEvents(NamedTuple):
    """What `last_events` found. unreadable: how many records hold no event. hints: see `Hints.sentences`."""

    events: list[Seen]
    unreadable: int
    hints: list[str]


def last_events(
    config: BusConfig, registry: BusFacts, count: int, most_bytes: int | None = None
) -> LastEvents:
    """About the last `count` events of all sources, latest first; fewer if they take more than `most_bytes`.

    most_bytes: MAX_BYTES if it is None.

    Reads the same number of records from the end of each partition. Raises UnreachableError if one cannot be
    read to its end.
    """
    with closing(Admin(config)) as admin:
        partitions = source_partitions(admin, config, registry)
        lows, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    share = -(-count // max(1, len(partitions)))
    held: deque[Record] = deque()
    size = 0
    starts = {tp: max(lows[tp], ends[tp] - share) for tp in partitions}
    for record in read_between(config, starts, ends, sparing=True):
        held.append(record)
        size += _size(record)
        while size > (MAX_BYTES if most_bytes is None else most_bytes) and len(held) > 1:
            size -= _size(held.popleft())
    events, unreadable = [], 0
    cloudevents = () if registry.bus is None else registry.bus.cloudevents
    hints = Hints(config, cloudevents)
    for record in sorted(held, key=lambda record: (record.timestamp_ms, record.offset), reverse=True):
        try:
            event = event_of(config, cloudevents, record)
        except EventError as error:
            unreadable += 1
            hints.unreadable(record, error)
        else:
            hints.read(record, event)
            events.append(Seen(event, *record.source, record.offset, record.timestamp_ms))
    return LastEvents(events, unreadable, hints.sentences())


def follow(
    config: BusConfig,
    registry: BusFacts,
    since_ms: int | None,
    stop: Callable[[], bool],
    reached: Callable[[], None] = lambda: None,
) -> Iterator[Record]:
    """Yields the records of all sources as they arrive, until `stop`.

    since_ms: of the records that exist, those of this timestamp or later; None: begin now. They come in the
    order of their timestamps (see `_by_time`); `reached` is called after the last of them. Waits for brokers
    that are away; raises UnreachableError if the client becomes unusable.
    """
    errors = ClientErrors()
    with closing(Admin(config, errors)) as admin:
        partitions = source_partitions(admin, config, registry)
        positions = ends = admin.end_offsets(partitions)
        if since_ms is not None:
            positions = _first(admin, ends, since_ms)
    with closing(KafkaReader(config, errors)) as reader:
        reader.read(positions)
        for record in _by_time(reader, {tp: end for tp, end in ends.items() if positions[tp] < end}, stop):
            if record.offset >= ends[record.source] or not _is_before(record, since_ms):
                yield record
        if not stop():
            reached()
        while not stop():
            for item in reader.take(_TAKE, _TAKE_S):
                if stop():
                    return
                if isinstance(item, Record):
                    yield item


def existing(
    config: BusConfig,
    registry: BusFacts,
    since_ms: int | None,
    stop: Callable[[], bool],
    unread: Callable[[TopicPartition], None],
) -> Iterator[Record]:
    """Yields the committed records that exist at the start, ordered by timestamp (see `_by_time`).

    since_ms: those of this timestamp or later; None: all. Each partition that is not read to its end, because
    it returned nothing for STALL_S, is passed to `unread`.
    """
    errors = ClientErrors()
    with closing(Admin(config, errors)) as admin:
        partitions = source_partitions(admin, config, registry)
        # Behind a stable offset are records of open transactions, which no reader gets yet.
        ends = admin.stable_offsets(partitions)
        positions = admin.start_offsets(partitions) if since_ms is None else _first(admin, ends, since_ms)
    left = {tp: end for tp, end in ends.items() if positions[tp] < end}
    with closing(KafkaReader(config, errors)) as reader:
        reader.read({tp: positions[tp] for tp in left})
        for record in _by_time(reader, left, stop, unread=unread):
            if record.offset < ends[record.source] and not _is_before(record, since_ms):
                yield record


def _first(admin: Admin, ends: Mapping[TopicPartition, int], since_ms: int) -> dict[TopicPartition, int]:
    """The offset of the first record of each partition at or after `since_ms`; its end if there is none."""
    first = admin.offsets_since(ends, since_ms)
    return {tp: end if (at := first[tp]) is None else at for tp, end in ends.items()}


def _is_before(record: Record, since_ms: int | None) -> bool:
    """Whether the record is stamped earlier: producers may give later records earlier timestamps."""
    return since_ms is not None and record.timestamp_ms < since_ms


def _by_time(
    reader: Reader,
    ends: Mapping[TopicPartition, int],
    stop: Callable[[], bool],
    monotonic: Callable[[], float] = time.monotonic,
    unread: Callable[[TopicPartition], None] = lambda _: None,
) -> Iterator[Record]:
    """Yields records in the order of their timestamps, until all partitions are read up to `ends`.

    A record is yielded once each partition that is not at its end has a buffered record. Exceptions: beyond
    MAX_BYTES the earliest buffered record is yielded anyway, and a partition that returns nothing for STALL_S
    is no longer waited for and is passed to `unread`. A record with an earlier timestamp than its predecessor
    in the partition is yielded as soon as it arrives.
    """
    left = dict(ends)
    waited_for = set(left)  # partitions without a buffered record
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
        idle_s += monotonic() - began  # not the time in which the caller processes a record
        if idle_s > STALL_S:
            idle_s = 0.0
            for tp in sorted(waited_for & left.keys()):
                del left[tp]
                unread(tp)
        while held and (not left or size > MAX_BYTES or not waited_for & left.keys()) and not stop():
            record = heappop(held)[-1]
            size -= _size(record)
            count[record.source] -= 1
            if not count[record.source]:
                waited_for.add(record.source)
            yield record


def source_partitions(admin: Admin, config: BusConfig, registry: BusFacts) -> list[TopicPartition]:
    """The partitions of the event topic and of the listed topics. Raises TopicsError without an event topic.

    Leaves out listed topics that cannot be read, and logs why.
    """
    listed = () if registry.bus is None else registry.bus.topics
    own = config.topic("event")
    found = admin.topics((own, *listed), others=listed)
    if found[own] is None:  # listed topics alone would look like a bus on which nobody emits
        raise TopicsError(
            f"Topic {own!r} is missing.",
            f"If {config.name!r} is the right bus, run: {config.command('topics create')}",
        )
    for name in listed:
        reason = why_unreadable(config, name, found[name])
        if reason is not None:
            found[name] = None
            log.warning("%s", topic_not_read(name, reason))
    return [
        TopicPartition(name, number)
        for name, topic in found.items()
        if topic is not None
        for number in range(topic.partitions)
    ]


def read_between(
    config: BusConfig,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    sparing: bool = False,
) -> Iterator[Record]:
    """Yields the committed records of partitions from `starts` up to `ends`. Raises like `drain`.

    sparing: prefetch little, for records of any size (see `KafkaReader`).
    """
    with closing(KafkaReader(config, sparing=sparing)) as reader:
        yield from drain(reader, starts, ends)


def read_to_end(
    config: BusConfig, partitions: Collection[TopicPartition], most: int | None = None
) -> Iterator[Record]:
    """The committed records of partitions up to their current ends, at most the last `most` of each."""
    with closing(Admin(config)) as admin:
        lows, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    if most is not None:
        lows = {tp: max(low, ends[tp] - most) for tp, low in lows.items()}
    yield from read_between(config, lows, ends)


def _size(record: Record) -> int:
    """About how much memory a record takes."""
    size = 500 + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers or ():
        size += 150 + len(name) + len(value or b"")
    return size
