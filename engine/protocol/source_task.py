"""The event hop on one source partition: match its events against registrations, live and back. No I/O.

Cases, in the order of docs/engine.md "Registrations, live and back":
  live   a registration below R that is in no scan sees events at the live position
  back   a registration in a scan sees events at the scan's position, never live ones
  meet   the scan reaches the live position: its registrations are live from there on
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...conditions import MatcherIndex
from ...events.errors import EventError
from ...events.event import Event
from ...events.kafka import decode
from ..bus import Committed, Record, TopicPartition
from ..log import log
from ..records import (
    MatchRecord,
    OffsetMetadata,
    Target,
    decode_json,
    encode_json,
    encode_msgpack,
    partition_of,
)
from .outputs import Outputs
from .registry import Registered, Registry

# Offset metadata holds 4,096 bytes; a scan takes at most 40 of them.
MAX_SCANS = 64
# A match holds the event and its targets, each of at most about 600 bytes, in one internal record.
MAX_READ_BYTES = 6 * 1024 * 1024
MAX_TARGETS = 2000
VERSION = 1


@dataclass
class Scan:
    """Registrations with a place in [start, end) have seen the partition up to `position` only."""

    start: int
    end: int
    position: int

    def covers(self, registry_offset: int) -> bool:
        return self.start <= registry_offset < self.end


class SourceTask:
    """Owner of one source partition.

    `position`: the next live offset. `applied`: R, registrations below it are applied here. What `match`,
    `scan` and `apply` change is durable when `commit_into`'s offsets are committed; after an aborted
    transaction the task must be made anew from the committed offset.
    """

    def __init__(
        self,
        tp: TopicPartition,
        committed: Committed,
        index: MatcherIndex[Registered],
        trigger_partitions: int,
    ) -> None:
        self.tp = tp
        self.position = committed.offset
        self.scans: list[Scan] = []
        self.applied = 0
        self._index = index
        self._trigger_partitions = trigger_partitions
        if committed.metadata:
            metadata = decode_json(OffsetMetadata, committed.metadata, f"The committed offset of {tp}")
            self.applied = metadata.R
            self.scans = [Scan(*group) for group in metadata.g]
        self.committed_applied = self.applied

    # -- registrations

    def needs_apply(self, registry: Registry) -> bool:
        return self.applied < registry.position and len(self.scans) < MAX_SCANS

    def apply(self, until: int, first_offset: int | None) -> None:
        """Apply registrations in [applied, until), whose earliest `since` is at `first_offset`.

        They are live at once where nothing at or after `since` lies below the live position; else one scan
        takes all of them (an interval with some live and some not could not be told from its metadata).
        """
        if first_offset is not None and first_offset < self.position:
            self.scans.append(Scan(self.applied, until, first_offset))
        self.applied = until

    # -- events

    def match(self, record: Record, outputs: Outputs, now: float) -> None:
        """Live: the next record at the live position."""
        self.position = record.offset + 1
        try:
            event = _read(record)
        except EventError as e:
            log.warning("%s went to the dead-letter topic: %.500s", record, e)
            outputs.dead_letter(record, "event", str(e), now)
            return
        self._write(record, event, self._live(record, event), outputs)

    def scan(self, scan: Scan, records: Iterable[Record], end: int | None, outputs: Outputs) -> bool:
        """Back: the next records at the scan's position; `end`: the reader has read all below it.

        True when the scan met the live position and is done.
        """
        for record in records:
            if record.offset < scan.position:
                continue
            if record.offset >= self.position:
                scan.position = self.position
                break
            scan.position = record.offset + 1
            try:
                event = _read(record)
            except EventError:
                continue  # set aside when it was read live
            self._write(record, event, self._back(scan, record, event), outputs)
        if end is not None and end >= self.position:
            scan.position = self.position
        if scan.position < self.position:
            return False
        self.scans.remove(scan)
        return True

    def _live(self, record: Record, event: Event) -> list[tuple[Registered, Target]]:
        targets = []
        for hit in self._index.lookup(event):
            registered = hit.handle
            place = registered.offset
            if place >= self.applied or registered.registration.since_ms > record.timestamp_ms:
                continue
            if any(scan.covers(place) for scan in self.scans):
                continue
            targets.append((registered, Target(place, registered.incarnation, hit.matchers, hit.key)))
        return targets

    def _back(self, scan: Scan, record: Record, event: Event) -> list[tuple[Registered, Target]]:
        return [
            (hit.handle, Target(hit.handle.offset, hit.handle.incarnation, hit.matchers, hit.key))
            for hit in self._index.lookup(event)
            if scan.covers(hit.handle.offset) and hit.handle.registration.since_ms <= record.timestamp_ms
        ]

    def _write(
        self, record: Record, event: Event, targets: list[tuple[Registered, Target]], outputs: Outputs
    ) -> None:
        """One match record per trigger partition, however many registrations the event met there.

        Several, where there are more than a record holds; the targets of one registration stay together.
        """
        if not targets:
            return
        by_partition: dict[int, list[Target]] = {}
        for registered, target in targets:
            partition = partition_of(registered.registration.subscription, self._trigger_partitions)
            by_partition.setdefault(partition, []).append(target)
        for partition, all_together in by_partition.items():
            for together in _slices(all_together):
                match = MatchRecord(
                    VERSION,
                    record.source.topic,
                    record.source.partition,
                    record.offset,
                    record.timestamp_ms,
                    event,
                    together,
                )
                outputs.write("trigger", partition, None, encode_msgpack(match))

    # -- the commit

    def commit_into(self, outputs: Outputs, committer: str) -> None:
        """Add this partition's offset and metadata to the transaction."""
        metadata = OffsetMetadata(
            R=self.applied, g=[(s.start, s.end, s.position) for s in self.scans], c=committer
        )
        outputs.offsets[self.tp] = Committed(self.position, encode_json(metadata).decode())

    def committed(self) -> None:
        """The transaction of `commit_into` is committed."""
        self.committed_applied = self.applied


def _read(record: Record) -> Event:
    """The event in a record; EventError for none, and for one that no internal record has room for."""
    size = len(record.value or b"") + sum(len(name) + len(raw or b"") for name, raw in record.headers or ())
    if size > MAX_READ_BYTES:
        raise EventError(
            f"the record has {size} bytes, and the engine takes at most {MAX_READ_BYTES}: send a reference"
        )
    return decode(record.key, record.value, record.headers)


def _slices(targets: list[Target]) -> Iterator[list[Target]]:
    if len(targets) <= MAX_TARGETS:
        yield targets
        return
    targets = sorted(targets, key=lambda target: target.registry_offset)
    start = 0
    for n in range(1, len(targets)):
        if n - start >= MAX_TARGETS and targets[n].registry_offset != targets[n - 1].registry_offset:
            yield targets[start:n]
            start = n
    yield targets[start:]
