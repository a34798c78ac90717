"""The open firings of durable subscriptions: references to their records, and reading them.

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
from ..errors import RecordError, UnknownVersion
from ..kafka.reader import drain
from ..kafka.wait_clients import KafkaClients
from ..log import at, log
from ..records import ActionRecord, decode_json, encode_json
from ..records.codec import UNREADABLE
from ..records.firing_fit import fit_action
from .latest_firings import FiringRef, fetch, unknown_version

MOST_HELD: Final = 10_000  # references in memory per subscription, of 250 bytes each
FEW: Final = 2_000  # when only this many are left, more are read from the topic
STALL_S: Final = 10.0


class _Head(msgspec.Struct):
    state: str


class OpenFirings:
    """References to the first open firings of each durable subscription, at most MOST_HELD each.

    Once a firing does not fit, later ones of its partition are not added either, which keeps the order of
    each key. `take_left_out` then returns where to read that partition again.
    """

    def __init__(self) -> None:
        self._refs: dict[str, dict[str, FiringRef]] = {}  # by subscription and the firing's id
        self._beyond: dict[str, dict[TopicPartition, int]] = {}  # first offset that did not fit

    def follow(self, record: Record) -> str | None:
        """Process the next record of the action topic. Returns the subscription if it has a new firing."""
        subscription, durable, firing = (record.key or b"").decode("utf-8", "replace").partition("\0")
        if not durable or record.fault:  # `LatestFirings` logs the fault
            return None
        try:
            fired = (
                record.value is not None and msgspec.json.decode(record.value, type=_Head).state == "fired"
            )
        except UNREADABLE as e:
            later = unknown_version(record)
            with at(*record.source, record.offset):
                log.error(
                    "%s",
                    later or f"{record} holds no valid ActionRecord and is not delivered: {e}",
                )
            if later is None:
                return None
            fired = True  # `read` raises for it, so nothing overtakes it
        if not fired:
            refs = self._refs.get(subscription, {})
            refs.pop(firing, None)
            if not refs:
                self._refs.pop(subscription, None)
            return None
        refs = self._refs.setdefault(subscription, {})
        beyond = self._beyond.get(subscription, {})
        if firing not in refs and (record.source in beyond or len(refs) >= MOST_HELD):
            beyond.setdefault(record.source, record.offset)
            self._beyond[subscription] = beyond
            return None
        refs.pop(firing, None)  # each partition's references stay in the order of their offsets
        refs[firing] = FiringRef("", record.source, record.offset, record.timestamp_ms)
        return subscription

    def oldest(self, subscription: str, most: int, without: Collection[tuple[int, int]]) -> list[FiringRef]:
        """The first `most` references, in order per key. without: (partition, offset) pairs to leave out.

        Partitions are merged by time. Where a partition's clock went back, its latest time counts: offsets
        give the order there.
        """
        latest: dict[TopicPartition, int] = {}
        found = []
        for ref in self._refs.get(subscription, {}).values():
            if (ref.source.partition, ref.offset) not in without:
                time_ms = max(ref.timestamp_ms, latest.get(ref.source, ref.timestamp_ms))
                latest[ref.source] = time_ms
                found.append((time_ms, ref.source.partition, ref.offset, ref))
        return [ref for *_, ref in heapq.nsmallest(most, found)]

    def count(self, subscription: str) -> int:
        """How many references of the subscription are in memory, at most MOST_HELD."""
        return len(self._refs.get(subscription, ()))

    def forget(self, subscription: str, gone: Collection[tuple[int, int]]) -> None:
        """Drop the references to these (partition, offset) pairs, whose records are gone."""
        refs = self._refs.get(subscription, {})
        for firing, ref in list(refs.items()):
            if (ref.source.partition, ref.offset) in gone:
                del refs[firing]

    def take_left_out(self, subscription: str) -> Mapping[TopicPartition, int]:
        """{partition: offset} from which to read firings that did not fit; empty while over FEW are left.

        Forgets these offsets: the caller reads the partitions from there, and calls `follow` for each record.
        """
        if len(self._refs.get(subscription, ())) > FEW:
            return {}
        return self._beyond.pop(subscription, {})


def read(config: BusConfig, places: Iterable[tuple[int, int]]) -> Iterator[ActionRecord | None]:
    """Yields the firings at these (partition, offset) pairs of the action topic, in this order.

    Each is cut to MAX_FIRING_BYTES, as tasks get it (see `fit_action`). None: the record is gone, because the
    firing was acknowledged or retention removed it; or it is damaged, which is logged. Ends before a firing
    that another version wrote, so that none overtakes it: if that is the first one, raises UnknownVersion.
    Raises UnreachableError if the cluster returns nothing.
    """
    topic = config.topic("action")
    wanted = [FiringRef("", TopicPartition(topic, partition), offset, 0) for partition, offset in places]
    small = {ref: _small(ref, value) for ref, value in fetch(KafkaClients(config), wanted)}
    for ref in wanted:
        text = small.pop(ref)
        if isinstance(text, UnknownVersion):
            if ref is wanted[0]:
                raise text
            return
        yield None if text is None else decode_json(ActionRecord, text, str(ref.source))


def _small(ref: FiringRef, value: bytes | None) -> bytes | UnknownVersion | None:
    """The record, cut and encoded: decoded it would need many times the memory."""
    if value is None:
        return None
    try:
        return encode_json(fit_action(decode_json(ActionRecord, value, ref.place)))
    except UnknownVersion as e:
        return e
    except RecordError as e:
        with at(*ref.source, ref.offset):
            log.error("%s", e)
        return None


def read_from(clients: Clients, starts: Mapping[TopicPartition, int]) -> Iterator[Record]:
    """Yields the records from these offsets to the ends. Raises UnreachableError if it stalls for STALL_S."""
    with closing(clients.reader()) as reader:
        yield from drain(reader, starts, stall_s=STALL_S)
