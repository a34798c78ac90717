"""The trigger hop on one trigger partition: step the state of what events met, and write firings. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone

from ..conditions import EMPTY, Match, State, firing_id, step
from ..conditions import Firing as ConditionFiring
from ..events.kafka import encode
from .bus import Committed, Record, TopicPartition
from .clients import log
from .outputs import Outputs
from .records import (
    VERSION,
    ActionRecord,
    Firing,
    MatchRecord,
    MetaRecord,
    OffsetMetadata,
    Target,
    decode_json,
    decode_msgpack,
    encode_json,
    encode_msgpack,
    parse_state_key,
    state_key,
)
from .registry import Registered, Registry
from .topics import MAX_INTERNAL_BYTES

# Room for the record's key, headers and batch overhead below the topics' max.message.bytes.
MAX_VALUE_BYTES = MAX_INTERNAL_BYTES - 64 * 1024


@dataclass
class Kept:
    """What is kept for one incarnation: highest origins, whether it is closed, and the state of each key."""

    registry_offset: int
    marks: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    keys: dict[str, State] = field(default_factory=dict)


class TriggerTask:
    """Owner of one trigger partition, and of the state partition of the same number.

    `load` takes the state partition's records during recovery. What `process` and `forget` change is
    durable when the offsets of `commit_into` are committed; after an aborted transaction the task must be
    made anew, and recovered.
    """

    def __init__(self, tp: TopicPartition, committed: Committed, registry: Registry) -> None:
        self.tp = tp
        self.position = committed.offset
        self.deleted_below = committed.offset
        self.must_read_registry_to = 0
        if committed.metadata:
            metadata = decode_json(OffsetMetadata, committed.metadata, f"The committed offset of {tp}")
            self.must_read_registry_to = metadata.R
        self._registry = registry
        self._kept: dict[str, Kept] = {}
        self._dirty: set[tuple[str, str | None]] = set()
        self._gone: set[str] = set()

    # -- recovery

    def load(self, record: Record) -> None:
        """Take one record of the state partition, in offset order."""
        incarnation, key = parse_state_key(record.key or b"")
        if record.value is None:
            kept = self._kept.get(incarnation)
            if kept is not None and key is not None:
                kept.keys.pop(key, None)
            elif key is None:
                self._kept.pop(incarnation, None)
            return
        if key is None:
            meta = decode_msgpack(MetaRecord, record.value, str(record))
            kept = self._kept.setdefault(incarnation, Kept(meta.registry_offset))
            kept.registry_offset, kept.marks, kept.closed = (
                meta.registry_offset,
                dict(meta.marks),
                meta.closed,
            )
        else:
            # The meta record follows in the same transaction, or stands before it.
            self._kept.setdefault(incarnation, Kept(-1)).keys[key] = State.decode(record.value)

    def recovered(self) -> None:
        """All of the state partition is loaded, and the registry is read: drop what is registered no more."""
        self.forget(
            incarnation
            for incarnation, kept in self._kept.items()
            if self._registry.get(incarnation) is None and kept.registry_offset < self._registry.position
        )

    # -- the registry

    def forget(self, incarnations: Iterable[str]) -> None:
        """These incarnations are gone: their state is nulled with the next commit."""
        self._gone.update(incarnation for incarnation in incarnations if incarnation in self._kept)

    # -- matches

    def needs_registry(self, match: MatchRecord) -> int:
        """The registry position that must be reached before `process` may judge this match."""
        return max(target.registry_offset for target in match.targets) + 1

    @staticmethod
    def decode(record: Record) -> MatchRecord:
        """The match in a record of the trigger topic; RecordError for anything else."""
        return decode_msgpack(MatchRecord, record.value or b"", str(record))

    def process(self, record: Record, match: MatchRecord, outputs: Outputs, now: float) -> None:
        """Step every target of the next record."""
        self.position = record.offset + 1
        for target in match.targets:
            registered = self._registry.get(target.incarnation)
            # Gone or replaced by then: nobody waits for it any more.
            if registered is not None:
                self._step(registered, target, record, match, outputs, now)

    def _step(
        self,
        registered: Registered,
        target: Target,
        record: Record,
        match: MatchRecord,
        outputs: Outputs,
        now: float,
    ) -> None:
        incarnation = target.incarnation
        kept = self._kept.setdefault(incarnation, Kept(registered.offset))
        source = f"{match.topic}/{match.partition}"
        if kept.closed or match.offset <= kept.marks.get(source, -1):
            return
        kept.marks[source] = match.offset
        self._dirty.add((incarnation, None))
        state, firings = step(
            registered.condition,
            kept.keys.get(target.key, EMPTY),
            Match(
                match.event, target.matchers, match.topic, match.partition, match.offset, match.timestamp_ms
            ),
        )
        if firings:
            self._fire(registered, target.key, firings[0], kept, outputs, now)
            return
        if len(state.encode()) > MAX_VALUE_BYTES:
            reason = (
                f"With this event the state of {registered.registration.subscription!r} would take more than "
                f"{MAX_VALUE_BYTES} bytes; the event was left out of it. Send references instead of data."
            )
            log.error("%s: %s", record, reason)
            outputs.dead_letter(_as_it_came(match), "trigger", reason, now)
            return
        kept.keys[target.key] = state
        self._dirty.add((incarnation, target.key))

    def _fire(
        self,
        registered: Registered,
        key: str,
        fired: ConditionFiring,
        kept: Kept,
        outputs: Outputs,
        now: float,
    ) -> None:
        """One-shot: the first firing closes the incarnation until its registration is removed."""
        registration = registered.registration
        events: dict[str, list[dict[str, object]]] = {}
        origins: dict[str, list[dict[str, object]]] = {}
        for part in fired.taking_part:
            match = part.match
            events.setdefault(part.label, []).append(match.event.to_json_dict())
            origins.setdefault(part.label, []).append(
                {"topic": match.topic, "partition": match.partition, "offset": match.offset}
            )
        firing = Firing(
            id=firing_id(registered.incarnation, key, fired.outcome, fired.taking_part),
            outcome="met",
            key=key or None,
            fired_at=datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="milliseconds"),
            events=events,
            origins=origins,
        )
        action = ActionRecord(
            subscription=registration.subscription,
            incarnation=registered.incarnation,
            state="fired",
            firing=firing,
        )
        outputs.write("action", self.tp.partition, registration.subscription.encode(), encode_json(action))
        kept.closed = True
        for pending in kept.keys:
            self._dirty.add((registered.incarnation, pending))
        kept.keys.clear()

    # -- the commit

    @property
    def changed(self) -> bool:
        return bool(self._dirty or self._gone)

    def commit_into(self, outputs: Outputs, committer: str) -> None:
        """Add the changed states, and this partition's offset, to the transaction."""
        for incarnation, key in self._dirty:
            kept = self._kept.get(incarnation)
            if kept is None:
                continue
            if key is None:
                value: bytes | None = encode_msgpack(
                    MetaRecord(VERSION, kept.registry_offset, kept.marks, kept.closed)
                )
            else:
                state = kept.keys.get(key)
                value = None if state is None else state.encode()
            outputs.write("state", self.tp.partition, state_key(incarnation, key), value)
        # After the changes: what a firing of this very batch cleared is nulled as well.
        for incarnation in self._gone:
            kept = self._kept.pop(incarnation, None)
            for key in (*(kept.keys if kept else ()), None):
                outputs.write("state", self.tp.partition, state_key(incarnation, key), None)
        self._gone.clear()
        self._dirty.clear()
        metadata = OffsetMetadata(R=self._registry.position, c=committer)
        outputs.offsets[self.tp] = Committed(self.position, encode_json(metadata).decode())


def _as_it_came(match: MatchRecord) -> Record:
    """The event of a match as a record of its source."""
    key, value, headers = encode(match.event)
    source = TopicPartition(match.topic, match.partition)
    return Record(source, match.offset, match.timestamp_ms, key, value, headers)
