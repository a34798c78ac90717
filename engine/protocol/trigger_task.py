"""The trigger hop on one trigger partition: step the state of what events met, and write firings. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from ...conditions import EMPTY, ConditionError, Match, State, firing_id, step
from ...conditions import Firing as ConditionFiring
from ...events.kafka import encode
from ..bus import Committed, Record, TopicPartition
from ..errors import RecordError
from ..firing import fit, json_form
from ..log import log
from ..records import (
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
from ..sizes import MAX_VALUE_BYTES
from .outputs import Outputs
from .registry import Registered, Registry


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
        # Incarnation and key (None: its meta record) to write with the next commit; null if not kept by then.
        self._dirty: set[tuple[str, str | None]] = set()

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
            try:
                state = State.decode(record.value)
            except ConditionError as e:
                raise RecordError(f"{record} holds no valid State: {e}.") from e
            self._kept.setdefault(incarnation, Kept(-1)).keys[key] = state

    def recovered(self) -> None:
        """All of the state partition is loaded, and the registry is read: drop what is registered no more."""
        gone = []
        for incarnation, kept in self._kept.items():
            registered = self._registry.get(incarnation)
            place = None if registered is None else registered.offset
            if place != kept.registry_offset < self._registry.position:
                gone.append(incarnation)
        self.forget(gone)

    # -- the registry

    def forget(self, incarnations: Iterable[str]) -> None:
        """These incarnations are gone: their state is nulled with the next commit."""
        for incarnation in incarnations:
            kept = self._kept.pop(incarnation, None)
            if kept is not None:
                self._dirty.update((incarnation, key) for key in (None, *kept.keys))

    # -- matches

    def needs_registry(self, match: MatchRecord) -> int:
        """The registry position that must be reached before `process` may judge this match."""
        return max((target.registry_offset for target in match.targets), default=-1) + 1

    @staticmethod
    def decode(record: Record) -> MatchRecord:
        """The match in a record of the trigger topic; RecordError for anything else, UnknownVersion where
        another version of Interlock wrote it."""
        return decode_msgpack(MatchRecord, record.value or b"", str(record))

    def set_aside(self, record: Record, reason: str, outputs: Outputs, now: float) -> None:
        """Move past a record that holds no match, by way of the dead-letter topic."""
        self.position = record.offset + 1
        outputs.dead_letter(record, "trigger", reason, now)

    def process(self, record: Record, match: MatchRecord, outputs: Outputs, now: float) -> None:
        """Step every target of the next record."""
        self.position = record.offset + 1
        source = f"{match.topic}/{match.partition}"
        together: dict[str, list[Target]] = {}  # an event may reach one registration under several keys
        for target in match.targets:
            together.setdefault(target.incarnation, []).append(target)
        for incarnation, targets in together.items():
            registered = self._registry.get(incarnation)
            # Gone or replaced by then: nobody waits for it any more. Registered again, at another place: what
            # it met is matched anew from its `since`.
            if registered is None or registered.offset != targets[0].registry_offset:
                continue
            kept = self._kept_for(registered)
            if match.offset <= kept.marks.get(source, -1):
                continue
            for target in targets:
                if kept.closed:
                    break
                kept.marks[source] = match.offset
                self._dirty.add((incarnation, None))
                self._step(registered, kept, target, record, match, outputs, now)

    def _kept_for(self, registered: Registered) -> Kept:
        kept = self._kept.get(registered.incarnation)
        if kept is not None and kept.registry_offset != registered.offset:
            self.forget([registered.incarnation])
            kept = None
        if kept is None:
            kept = self._kept[registered.incarnation] = Kept(registered.offset)
        return kept

    def _step(
        self,
        registered: Registered,
        kept: Kept,
        target: Target,
        record: Record,
        match: MatchRecord,
        outputs: Outputs,
        now: float,
    ) -> None:
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
        self._dirty.add((registered.incarnation, target.key))

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
            events.setdefault(part.label, []).append(json_form(match.event))
            origins.setdefault(part.label, []).append(
                {"topic": match.topic, "partition": match.partition, "offset": match.offset}
            )
        firing = Firing(
            id=firing_id(registered.incarnation, key, fired.outcome, fired.taking_part),
            outcome="met",
            key=key or None,
            fired_at=datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
            events=events,
            origins=origins,
        )
        action = ActionRecord(
            subscription=registration.subscription,
            incarnation=registered.incarnation,
            state="fired",
            firing=firing,
        )
        value = encode_json(action)
        if len(value) > MAX_VALUE_BYTES:
            value = encode_json(msgspec.structs.replace(action, firing=fit(firing, MAX_VALUE_BYTES // 2)))
        outputs.write("action", self.tp.partition, registration.subscription.encode(), value)
        kept.closed = True
        for pending in kept.keys:
            self._dirty.add((registered.incarnation, pending))
        kept.keys.clear()

    # -- the commit

    @property
    def changed(self) -> bool:
        return bool(self._dirty)

    def commit_into(self, outputs: Outputs, committer: str) -> None:
        """Add the changed states, and this partition's offset, to the transaction."""
        for incarnation, key in self._dirty:
            kept = self._kept.get(incarnation)
            value: bytes | None = None
            if kept is not None and key is None:
                value = encode_msgpack(MetaRecord(VERSION, kept.registry_offset, kept.marks, kept.closed))
            elif kept is not None and key in kept.keys:
                value = kept.keys[key].encode()
            outputs.write("state", self.tp.partition, state_key(incarnation, key), value)
        self._dirty.clear()
        metadata = OffsetMetadata(R=self._registry.position, c=committer)
        outputs.offsets[self.tp] = Committed(self.position, encode_json(metadata).decode())


def _as_it_came(match: MatchRecord) -> Record:
    """The event of a match as a record of its source."""
    key, value, headers = encode(match.event)
    source = TopicPartition(match.topic, match.partition)
    return Record(source, match.offset, match.timestamp_ms, key, value, headers)
