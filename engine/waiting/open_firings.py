"""The open firings of durable subscriptions: where they stand in the action topic, and reading them.

A firing is open from when it is written to the action topic until it is acknowledged there.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Final

import msgspec

from ..bus import Clients, Record, TopicPartition
from ..config import BusConfig
from ..errors import RecordError
from ..kafka.reader import drain
from ..kafka.wait_clients import KafkaClients
from ..log import at, log
from ..records import ActionRecord, decode_json, encode_json
from ..records.firing import fitted
from .latest_firings import Place, fetch

MOST_HELD: Final = 10_000  # places in memory of one subscription; 250 bytes each
FEW: Final = 2_000  # with so many left, those beyond are read from the topic again
STALL_S: Final = 10.0


class _Head(msgspec.Struct):
    state: str


class OpenFirings:
    """Where the open firings of each durable subscription stand: at most MOST_HELD of each, the first ones.

    Of a partition from which one did not fit none is taken any more, so that the order of a key holds, until
    `again` says from where to read it once more.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, Place]] = {}  # by subscription and id of the firing
        self._beyond: dict[str, dict[TopicPartition, int]] = {}  # first offset that did not fit

    def follow(self, record: Record) -> str | None:
        """Take the next record of the action topic; the subscription, if it has a firing more."""
        subscription, durable, firing = (record.key or b"").decode("utf-8", "replace").partition("\0")
        if not durable:
            return None
        try:
            fired = (
                record.value is not None and msgspec.json.decode(record.value, type=_Head).state == "fired"
            )
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
            with at(*record.source, record.offset):
                log.error("%s holds no valid ActionRecord, nobody is told of it: %s", record, e)
            return None
        if not fired:
            places = self._places.get(subscription, {})
            places.pop(firing, None)
            if not places:
                self._places.pop(subscription, None)
            return None
        places = self._places.setdefault(subscription, {})
        beyond = self._beyond.get(subscription, {})
        if firing not in places and (record.source in beyond or len(places) >= MOST_HELD):
            beyond.setdefault(record.source, record.offset)
            self._beyond[subscription] = beyond
            return None
        places[firing] = Place("", record.source, record.offset, record.timestamp_ms)
        return subscription

    def oldest(self, subscription: str, most: int, without: Collection[tuple[int, int]]) -> list[Place]:
        """The first `most`, those of one key in their order; `without`: partitions and offsets left out."""
        found = (
            place
            for place in self._places.get(subscription, {}).values()
            if (place.source.partition, place.offset) not in without
        )
        return heapq.nsmallest(most, found, key=lambda p: (p.timestamp_ms, p.source.partition, p.offset))

    def count(self, subscription: str) -> int:
        """How many of it are held here, MOST_HELD at most."""
        return len(self._places.get(subscription, ()))

    def forget(self, subscription: str, gone: Collection[tuple[int, int]]) -> None:
        """The topic has nothing at these partitions and offsets any more."""
        places = self._places.get(subscription, {})
        for firing, place in list(places.items()):
            if (place.source.partition, place.offset) in gone:
                del places[firing]

    def again(self, subscription: str) -> Mapping[TopicPartition, int]:
        """From where to read again for what did not fit, once only FEW are left. Empty: not now."""
        if len(self._places.get(subscription, ())) > FEW:
            return {}
        return self._beyond.pop(subscription, {})


def read(config: BusConfig, places: Iterable[tuple[int, int]]) -> Iterator[ActionRecord | None]:
    """The firings at these partitions and offsets of the action topic, in this order, as tasks get them.

    However large they were written, what is held of each is MAX_HANDED_BYTES at most (see `fitted`).
    None: nothing is there any more, since it was acknowledged or is older than the topic keeps; or what is
    there cannot be read, which is logged. UnreachableError when the cluster gives nothing.
    """
    topic = config.topic("action")
    wanted = [Place("", TopicPartition(topic, partition), offset, 0) for partition, offset in places]
    small = {place: _small(place, value) for place, value in fetch(KafkaClients(config), wanted)}
    for place in wanted:
        text = small.pop(place)
        yield None if text is None else decode_json(ActionRecord, text, str(place.source))


def _small(place: Place, value: bytes | None) -> bytes | None:
    """The fitted record, packed again: taken apart it would need many times the room."""
    if value is None:
        return None
    try:
        return encode_json(fitted(decode_json(ActionRecord, value, f"{place.source}@{place.offset}")))
    except RecordError as e:
        with at(*place.source, place.offset):
            log.error("%s", e)
        return None


def read_from(clients: Clients, starts: Mapping[TopicPartition, int]) -> Iterator[Record]:
    """What there is from these offsets on, to the ends; UnreachableError when nothing comes for STALL_S."""
    with closing(clients.reader()) as reader:
        yield from drain(reader, starts, stall_s=STALL_S)
