"""The firings of waits in the action topic: where the newest of each stands, and reading them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import msgspec

from ..bus import Clients, Record, TopicPartition
from ..errors import UnreachableError
from ..log import at, log

TAKE = 500
TAKE_TIMEOUT_S = 0.5
STALL_S = 10.0
# A place that lies further on than this is gone to: that takes as long as reading about so many records.
MOST_BETWEEN = 2000
KEPT_MS = 30 * 24 * 3600 * 1000  # as long as the topic keeps them (`kafka.topics`)


class Place(NamedTuple):
    """Where the newest firing of a subscription stands."""

    incarnation: str
    source: TopicPartition
    offset: int
    timestamp_ms: int


class _Head(msgspec.Struct):
    """The part of an action record that tells whose it is."""

    incarnation: str


class Actions:
    """Where the newest firing of each one-shot subscription stands; the firings have no room in memory.

    As the topic, it forgets what is older than KEPT_MS.
    """

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}  # the oldest first, nearly: partitions are read side by side

    def follow(self, record: Record) -> Place | None:
        """Take the next record of the topic; its place, if it holds a firing that a task may wait for."""
        subscription = (record.key or b"").decode("utf-8", "replace")
        if record.value is None:
            self._places.pop(subscription, None)
            return None
        if "\0" in subscription:
            return None  # a firing of a durable subscription, which no task waits for
        try:
            head = msgspec.json.decode(record.value, type=_Head)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
            with at(*record.source, record.offset):
                log.error("%s holds no valid ActionRecord, nobody is told of it: %s", record, e)
            return None
        self._places.pop(subscription, None)
        place = Place(head.incarnation, record.source, record.offset, record.timestamp_ms)
        self._places[subscription] = place
        while next(iter(self._places.values())).timestamp_ms < record.timestamp_ms - KEPT_MS:
            del self._places[next(iter(self._places))]
        return place

    def newest(self, subscription: str) -> Place | None:
        """Where its newest firing stands, of whichever incarnation; None when there is none."""
        return self._places.get(subscription)

    def forget(self, subscription: str, place: Place) -> None:
        """The topic has nothing there any more: whoever waits for it registers anew."""
        if self._places.get(subscription) == place:
            del self._places[subscription]


def fetch(
    clients: Clients, places: Collection[Place], monotonic: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Place, bytes | None]]:
    """The firings at these places, in any order. What lies between two of them is read, unless it is much.

    None for one that is not there any more: a later record of its key took its place. UnreachableError when
    the cluster gives nothing for STALL_S.
    """
    wanted: dict[TopicPartition, list[Place]] = {}
    for place in sorted(places, key=lambda place: place.offset, reverse=True):
        wanted.setdefault(place.source, []).append(place)
    reader = clients.reader()
    try:
        while wanted:
            reader.read({tp: of_partition[-1].offset for tp, of_partition in wanted.items()})
            reading = set(wanted)  # until the next place of each is far off
            deadline = monotonic() + STALL_S
            while reading:
                items = reader.take(TAKE, TAKE_TIMEOUT_S)
                if items:
                    deadline = monotonic() + STALL_S
                elif monotonic() > deadline:
                    raise UnreachableError(f"The firings at {sorted(map(str, reading))} could not be read.")
                for item in items:
                    of_partition = wanted.get(item.source, [])
                    while of_partition and of_partition[-1].offset <= item.offset:
                        place = of_partition.pop()
                        if isinstance(item, Record) and item.offset == place.offset:
                            yield place, item.value
                        else:
                            yield place, None
                    if not of_partition:
                        wanted.pop(item.source, None)
                    if not of_partition or of_partition[-1].offset > item.offset + MOST_BETWEEN:
                        reading.discard(item.source)
    finally:
        reader.close()
