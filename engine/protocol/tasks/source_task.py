"""The event hop of one source partition: match events against registrations, live and in scans. No I/O.

The cases, see docs/understand/engine/look-back.md:
- A registration below R that is in no scan sees events at the live position.
- A registration in a scan sees events at the scan's position, never live ones.
- When the scan reaches the live position, its registrations become live.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from ....conditions import Hit, MatcherIndex
from ....conditions.nodes.written import written_by
from ....events.errors import EventError
from ....events.event import Event
from ....events.kafka import decode
from ....events.listed import event_of_listed
from ...bus import Committed, Record
from ...log import at, log
from ...records import (
    MatchRecord,
    MatchTarget,
    OffsetMetadata,
    encode_json,
    encode_msgpack,
    partition_of,
)
from ...records.event_form import by_reference, check_attributes
from ...registry.registry import Registered, Registry
from ..context import EngineContext
from ..outputs import MAX_PASS_BYTES, Outputs
from .claims import Claims
from .scans import ScanGroup
from .start import TaskStart

# A match contains the event, with at most 64 KiB of data and 256 KiB of attributes, and its targets: of about
# 600 bytes at most, or 3 KB where the event writes the key differently.
MAX_TARGETS = 1000
# A target may also have a value of at most 512 bytes for each of its matchers. This many values take 4 MiB,
# and fit into a record with everything else.
MAX_VALUES = 8192
NO_TIMESTAMP = (
    "the record has no timestamp, so it is before each since and counts for no wait; redrive it to give it"
    " the time of the redrive, and let its producer set one, or the brokers"
    " (message.timestamp.type=LogAppendTime)"
)
# Each target may fire with the whole event, and one transaction holds all firings of a match. So a match of a
# large event has fewer targets, but at least this many, or the event would be repeated in too many records.
LEAST_TARGETS = 100


class SourceTask:
    """The event hop of one source partition.

    `position`: the next live offset. `applied`: R, the registry is applied here up to this position. `last`:
    committer and number of the last commit. `commit_into` adds the changes of `match`, `scan`, `at_end` and
    `apply` to a transaction; then `committed` keeps them, or `rollback` undoes them.
    """

    # An event that raises one of these goes to the dead-letter topic; other errors end the engine.
    caught: ClassVar[type[Exception]] = Exception

    def __init__(self, start: TaskStart, context: EngineContext) -> None:
        metadata, committed = start.metadata(), start.committed
        self.tp, self.topic_id = start.tp, start.topic_id or metadata.topic_id
        self.last = self._next = (metadata.committer, metadata.transaction)
        self.suspects, self.claims = context.parts.suspects(metadata), Claims(metadata)
        self._index, self._partitions, self._stats = context.index, start.partitions, context.stats
        self._listed, self._resumed, self._registry = start.listed, start.resumed, context.registry
        self._new_scans, self._proof = context.parts.scans, context.config.proof
        self.position, self.applied = committed.offset, metadata.applied
        self.scans = self._new_scans(metadata.scans)
        self._last_commit = (committed.offset, metadata.applied, metadata.scans)
        self._uncommitted = not committed.metadata

    # -- registrations

    def needs_apply(self, registry: Registry) -> bool:
        return self.applied < registry.position and not self.scans.full

    def apply(self, until: int, first_offset: int | None) -> None:
        """Apply registrations in [applied, until).

        first_offset: of the first record at or after the earliest `since`; None if there is none. If it is
        below the live position, all these registrations join one scan, because the metadata have no room to
        say which of them could be live at once. Otherwise they are live.
        """
        if first_offset is not None and first_offset < self.position:
            self.scans.add(self.applied, until, first_offset)
        self.applied = until

    # -- events

    def match(self, record: Record, outputs: Outputs, now_ms: int) -> bool:
        """Match the record at the live position. False for an event without a match."""
        self.position = record.offset + 1
        try:
            event = self._read(record)
            hits = self._index.lookup(event)
            if hits:  # of most events there are none
                _refuse_without_timestamp(record)
            targets = self.targets(record, hits, None)
        except self.caught as e:  # one bad event must not stop anything else
            self._dead_letter_event(record, e, outputs, now_ms)
            return True
        if targets:
            self._write(record, event, targets, outputs)
        return bool(targets)

    def dead_letter(self, record: Record, reason: str, outputs: Outputs, now_ms: int, attempts: int) -> None:
        """Move past a record without decoding it, and send it to the dead-letter topic."""
        self.position = record.offset + 1
        self._stats.dead_lettered += 1
        outputs.dead_letter(record, "event", reason, now_ms, attempts=attempts)

    def refuse(self, record: Record, reason: str, position: int, outputs: Outputs, now_ms: int) -> None:
        """Move to `position`, and send a record that is not at its offset to the dead-letter topic."""
        if record.offset >= position:
            self.claims.add(record.offset, position - 1)
        self.position = position
        self._dead_letter_event(record, EventError(reason), outputs, now_ms)

    def at_end(self, offset: int) -> None:
        """Note that all records below `offset` were read: control records may follow the last one."""
        self.position = max(self.position, offset)
        self.suspects.at_end()

    def scan(self, record: Record, index: MatcherIndex[Registered], outputs: Outputs, now_ms: int) -> None:
        """Match the next record of a scan, for the groups that have not seen it."""
        if record.offset >= self.position:  # the scan has ended: this record is read live
            self.scans.advance(self.position, 0)
            return
        groups = self.scans.front(record.offset)
        self.scans.advance(record.offset + 1)
        try:
            event = self._read(record)
            hits = index.lookup(event)
            if hits:
                _refuse_without_timestamp(record)
            targets = self.targets(record, hits, groups)
        except EventError as e:  # its dead letter was written when it was read live, if it was wanted then
            with at(*record.source, record.offset):
                log.debug("A scan skips %s: %s", record, e)
            return
        except self.caught as e:  # registrations that were live then may have matched it
            self._dead_letter_event(record, e, outputs, now_ms, "A look-back could not match it: ")
            return
        if targets:
            self._write(record, event, targets, outputs)

    def scanned_to_end(self, offset: int) -> None:
        """Note that the scan has read all records below `offset`."""
        self.scans.advance(min(offset, self.position), 0)

    def _read(self, record: Record) -> Event:
        """The event in a record. Raises EventError if it holds none, or one that is too large."""
        if record.fault:
            raise EventError(record.fault)
        headers, value = record.headers, record.value
        if self._listed:
            event = event_of_listed(
                *record.source,
                record.offset,
                record.timestamp_ms,
                record.key,
                value,
                headers,
                cloudevents=self._registry.holds_cloudevents(self.tp.topic),
            )
        else:
            event = decode(record.key, value, headers)
            if self._proof is not None:
                self._proof.check(event, record.timestamp_ms)
        check_attributes(event)
        return event

    def targets(
        self, record: Record, hits: list[Hit[Registered]], groups: list[ScanGroup] | None
    ) -> list[tuple[Registered, MatchTarget]]:
        """The matches of an event: among these groups of scans, or (None) among live registrations."""
        targets = []
        timestamp_ms, applied, scans = record.timestamp_ms, self.applied, self.scans
        for hit in hits:
            registered = hit.handle
            offset, matchers = registered.offset, hit.matchers
            registration = registered.registration
            if registration.since_ms > timestamp_ms:
                continue
            if registration.fresh and timestamp_ms < registered.timestamp_ms:
                matchers = tuple(number for number in matchers if number not in registration.fresh)
                if not matchers:
                    continue
            if groups is None:
                if offset >= applied or (scans.groups and scans.covers(offset)):
                    continue
            elif not any(group.covers(offset) for group in groups):
                continue
            target = MatchTarget(offset, registered.incarnation, matchers, hit.key, hit.values)
            targets.append((registered, target))
        return targets

    def _dead_letter_event(
        self, record: Record, error: Exception, outputs: Outputs, now_ms: int, prefix: str = ""
    ) -> None:
        reason = prefix + (str(error) or repr(error))
        with at(*record.source, record.offset):
            if not isinstance(error, EventError):
                log.error("%s: matching it failed", record, exc_info=error)
            log.warning("%s goes to the dead-letter topic: %.500s", record, reason)
        self._stats.dead_lettered += 1
        outputs.dead_letter(record, "event", reason, now_ms)

    def _write(
        self, record: Record, event: Event, targets: list[tuple[Registered, MatchTarget]], outputs: Outputs
    ) -> None:
        """Write one match record for each trigger partition, with all targets there.

        Targets that do not fit go into further records; those of one registration stay together.
        """
        self._stats.matched += len(targets)
        topic, partition = record.source
        small = by_reference(event, topic, partition, record.offset)
        if small is not event:
            targets = [
                (registered, _with_written(registered, target, event)) for registered, target in targets
            ]
            event = small
        head = (outputs.version, topic, partition, record.offset, record.timestamp_ms, event)
        if len(targets) == 1:
            registered, target = targets[0]
            number = self.trigger_partition(registered, target.key)
            value = encode_msgpack(MatchRecord(*head, [target], self.topic_id, self._resumed))
            outputs.write("trigger", number, None, value)
            return
        size = len(event.data or b"") + sum(map(len, event.attributes.values()))
        most = min(MAX_TARGETS, max(LEAST_TARGETS, MAX_PASS_BYTES // max(1, size)))
        by_partition: dict[int, list[MatchTarget]] = {}
        for registered, target in targets:
            by_partition.setdefault(self.trigger_partition(registered, target.key), []).append(target)
        for number, together in by_partition.items():
            for some in _slices(together, most):
                value = encode_msgpack(MatchRecord(*head, some, self.topic_id, self._resumed))
                outputs.write("trigger", number, None, value)

    def trigger_partition(self, registered: Registered, key: str) -> int:
        """The number of the trigger partition that steps this key."""
        registration = registered.registration
        return partition_of(registration.kind, registration.subscription, key, self._partitions)

    # -- the commit

    @property
    def changed(self) -> bool:
        """Whether there is more to commit than a registry position (for which see `behind`)."""
        return self._uncommitted or self.suspects.changed or self.worked

    @property
    def worked(self) -> bool:
        """Whether records were read, live or in scans, since the last commit."""
        position, _, groups = self._last_commit
        return position != self.position or (
            bool(groups or self.scans.groups) and groups != self.scans.metadata()
        )

    @property
    def behind(self) -> bool:
        """Whether a new registry position is applied but not committed."""
        return self._last_commit[1] != self.applied

    def commit_into(self, outputs: Outputs, committer: str, number: int) -> None:
        """Add this partition's offset and metadata to the transaction."""
        metadata = OffsetMetadata(
            v=outputs.version,
            applied=self.applied,
            scans=self.scans.metadata(),
            committer=committer,
            transaction=number,
            topic_id=self.topic_id,
            **self.suspects.metadata(),
            **self.claims.metadata(),
        )
        outputs.offsets[self.tp] = Committed(self.position, encode_json(metadata).decode())
        self._next = (committer, number)

    def committed(self) -> None:
        """The transaction of `commit_into` is committed."""
        self._last_commit = (self.position, self.applied, self.scans.metadata())
        self.last = self._next
        self._uncommitted = False
        self.suspects.committed()
        self.claims.committed()

    def rollback(self) -> None:
        """Return to what is committed."""
        self.position, self.applied, groups = self._last_commit
        self.scans = self._new_scans(groups)
        self.suspects.rollback()
        self.claims.rollback()


def _with_written(registered: Registered, target: MatchTarget, event: Event) -> MatchTarget:
    """The target with the key as the event writes it, because the match leaves out the event's data."""
    if registered.registration.key is not None:
        return target
    written = written_by(registered.condition, target.matchers, target.key, event)
    return target if written is None else msgspec.structs.replace(target, written=written)


def _refuse_without_timestamp(record: Record) -> None:
    """Raises EventError if a record that somebody wants has no timestamp: Kafka has -1 then.

    The time of its reading cannot replace it: a scan would find another one. Events that nobody wants are no
    dead letters: a listed topic may be full of them.
    """
    if record.timestamp_ms < 0:
        raise EventError(NO_TIMESTAMP)


def _slices(targets: list[MatchTarget], most: int) -> Iterator[list[MatchTarget]]:
    if len(targets) <= most and sum(len(target.values) for target in targets if target.values) <= MAX_VALUES:
        yield targets
        return
    targets = sorted(targets, key=lambda target: target.registry_offset)
    start = values = 0
    for n, target in enumerate(targets):
        more = len(target.values or ())
        is_full = n - start >= most or values + more > MAX_VALUES
        if is_full and n > start and target.registry_offset != targets[n - 1].registry_offset:
            yield targets[start:n]
            start, values = n, 0
        values += more
    yield targets[start:]
