"""The trigger hop of one trigger partition: step states with matches and ticks, and write firings. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import ClassVar, Final

import msgspec

from ....conditions import Condition, opened
from ...bus import Committed, Record, TopicPartition
from ...errors import RecordError
from ...log import at, log
from ...records import (
    MatchRecord,
    MatchTarget,
    OffsetMetadata,
    ResumeRecord,
    decode_msgpack,
    encode_json,
    partition_of,
)
from ...records.versions import is_read
from ...registry.registry import Registered
from ..context import EngineContext
from ..outputs import Outputs
from .evaluator import source_record, wakeup_ms
from .start import TaskStart
from .store import KeyStates
from .wakeups import Wakeup

# A key whose tick raised is tried again after an hour.
_RETRY_MS: Final = 3_600_000

_NO_RESUME: Final = (-1, ResumeRecord(topic_id="", offset=0))

_match_decoder: Final = msgspec.msgpack.Decoder(MatchRecord)


class TriggerTask:
    """The trigger hop of one trigger partition, and of the state partition of the same number.

    `load` takes the state partition's records, then `recovered` ends the recovery. Other changes are part of
    a pass: `commit_into` adds them to a transaction; then `committed` keeps them, or `rollback` undoes them.
    """

    # A step that raises one of these affects only its target or key; other errors end the engine.
    caught: ClassVar[type[Exception]] = Exception

    def __init__(self, start: TaskStart, context: EngineContext) -> None:
        metadata = start.metadata()
        self.tp, self.topic_id = start.tp, start.topic_id or metadata.topic_id
        self.position = self.committed_position = self.deleted_below = start.committed.offset
        self.applied = self.committed_applied = metadata.applied
        self.last = (metadata.committer, metadata.transaction)
        self.suspects = context.parts.suspects(metadata)
        self.registry, self._stats = context.registry, context.stats
        self._partitions, self._ttl_ms = start.partitions, context.limits.ttl_ms
        self.store = context.parts.store()
        self._evaluator = context.parts.evaluator(start, self.store, context)
        self._next = self.last
        self._forgotten: set[str] = set()  # since the last commit
        self._unreadable_records: dict[bytes, tuple[Record, RecordError]] = {}  # by record key
        self.unreadable_states: dict[str, str] = {}  # see `recovered`
        self._counted = (0, 0)  # records and bytes of states that this pass has counted in its outputs

    # -- recovery

    def load(self, record: Record) -> None:
        """Load the next record of the state partition. `recovered` looks at those that cannot be read."""
        try:
            self.store.load(record)
        except RecordError as e:
            if record.value is not None:
                self._unreadable_records[record.key or b""] = record, e
                return
        if self._unreadable_records:
            self._unreadable_records.pop(record.key or b"", None)  # the last record of a key counts

    @property
    def has_unreadable(self) -> bool:
        """Whether `recovered` must decide which registrations need a record that cannot be read."""
        return bool(self._unreadable_records)

    def recovered(self, removed: Collection[str] = ()) -> None:
        """End the recovery, after the registry was read: drop states without a registration in force.

        `unreadable_states` then has {subscription: why} of registrations in force that need a state which
        cannot be read. Do not process the partition while it has any. Other unreadable records are removed.
        removed: subscriptions whose registration was removed; their states are dropped even if they have
        registered again since. Read the registry to its end first if `has_unreadable`.
        """
        self._look_at_unreadable(removed)
        for incarnation in self.store:
            registered = self.registry.get(incarnation)
            states = self.store.get(incarnation)
            if registered is not None and states is not None:
                self._resolve(registered, states)
        self.store.loaded()
        self.forget(list(self.store))

    def _look_at_unreadable(self, removed: Collection[str]) -> None:
        self.unreadable_states = {}
        for key, (record, error) in self._unreadable_records.items():
            reason = str(error) if str(record) in str(error) else f"{record}: {error}"
            registered = self.registry.get(key.decode("utf-8", "replace").partition("/")[0])
            name = None if registered is None else registered.registration.subscription
            if name is not None and name not in removed:
                self.unreadable_states.setdefault(name, reason)
                continue
            with at(*self.tp):
                log.warning("%s No registration in force needs it: the record is removed.", reason)
            self.store.discard(key)
        self._unreadable_records.clear()

    # -- the registry

    @property
    def needs_apply(self) -> bool:
        """Whether the registry was read further than it is applied to this partition."""
        return self.applied < self.registry.position

    def apply(self) -> None:
        """Apply the registry up to its position: start the timers of new registrations, each once.

        `recovered` and `forget` handle removed registrations. Lowers marks beyond the ends of partitions that
        were resumed: such offsets belong to records that no longer exist, and later ones would be taken for
        repeats.
        """
        for tp, (offset, resume) in self.registry.resumes.items():
            if self.applied <= offset < self.registry.position and resume.end >= 0:
                self._lower_marks(f"{resume.topic_id}/{tp.partition}", resume.end)
        for registered in self.registry.between(self.applied, self.registry.position):
            if not runs_from_registration(registered.condition):
                continue
            key, registration = single_key(registered), registered.registration
            if key is not None and self.tp.partition == partition_of(
                registration.kind, registration.subscription, key, self._partitions
            ):
                self.states_of(registered)
        self.applied = self.registry.position

    def _lower_marks(self, source: str, end: int) -> None:
        for incarnation in self.store:
            states = self.store.get(incarnation)
            if states is not None and states.marks.get(source, -1) >= end:
                self.store.touch(incarnation)
                states.marks[source] = end - 1

    def _next_mark(self, match: MatchRecord, mark: int) -> int:
        """The mark after a match. An event that was lost with its partition's end raises no mark beyond it.

        The match of such an event may still be unread when the resumption is applied.
        """
        resumed, resume = self.registry.resumes.get(TopicPartition(match.topic, match.partition), _NO_RESUME)
        if match.resumed <= resumed and match.topic_id == resume.topic_id and 0 <= resume.end <= match.offset:
            return max(mark, resume.end - 1)
        return match.offset

    def forget(self, incarnations: Iterable[str]) -> None:
        """Drop the states of incarnations that the registry no longer has at the same offset."""
        for incarnation in incarnations:
            states = self.store.get(incarnation)
            # A registration beyond the registry's position is not read yet: that is no removal.
            if states is None or states.registry_offset >= self.registry.position:
                continue
            registered = self.registry.get(incarnation)
            if registered is not None and registered.offset == states.registry_offset:
                continue
            count = self.store.drop(incarnation)
            if count:
                self._log_dropped(incarnation, count)
            self._forgotten.add(incarnation)

    def _log_dropped(self, incarnation: str, count: int) -> None:
        successor = self.registry.successor(incarnation)
        if successor is not None and successor.incarnation != incarnation and not successor.one_shot:
            self._stats.keys_dropped += count  # a rollback undid the earlier count
            if incarnation in self._forgotten:
                return
            with at(*self.tp):
                log.warning(
                    "Durable subscription %r was changed: the states of %d open keys on %s are dropped.",
                    successor.registration.subscription,
                    count,
                    self.tp,
                )

    # -- matches

    def needs_registry(self, match: MatchRecord) -> int:
        """The registry position that must be reached before `process` may evaluate this match."""
        targets = match.targets
        if len(targets) == 1 and not match.resumed:
            return targets[0].registry_offset + 1
        return max(match.resumed, *(target.registry_offset + 1 for target in targets), 0)

    @staticmethod
    def decode(record: Record) -> MatchRecord:
        """The match in a record of the trigger topic. Raises UnknownVersion for a version that is not read,
        and RecordError for anything else."""
        try:
            match = _match_decoder.decode(record.value or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if record.fault:
                raise RecordError(f"{record} cannot be read: {record.fault}.") from None
            return decode_msgpack(MatchRecord, record.value or b"", str(record))
        return match if is_read(match.v) else decode_msgpack(MatchRecord, record.value or b"", str(record))

    def dead_letter(
        self, record: Record, reason: str, outputs: Outputs, now_ms: int, attempts: int = 1
    ) -> None:
        """Move past a record without evaluating it, and send it to the dead-letter topic."""
        self.position = record.offset + 1
        self._stats.dead_lettered += 1
        outputs.dead_letter(record, "trigger", reason, now_ms, attempts=attempts)

    def at_end(self, offset: int) -> None:
        """Note that all records below `offset` were read: control records may follow the last one."""
        self.position = max(self.position, offset)
        self.suspects.at_end()

    def process(self, record: Record, match: MatchRecord, outputs: Outputs, now_ms: int) -> None:
        """Step every target of the next record. If one raises, its event becomes a dead letter."""
        if match.resumed > self.applied:
            self.apply()
        self.position = record.offset + 1
        source = match.source
        if len(match.targets) == 1:
            self.step_targets(source, match.targets, match, outputs, now_ms)
            self._count_states(outputs)
            return
        # An event may match one registration for several keys. Group by registry offset, not by incarnation:
        # a removed registration and the same one registered again may both have targets.
        together: dict[int, list[MatchTarget]] = {}
        for target in match.targets:
            together.setdefault(target.registry_offset, []).append(target)
        for targets in together.values():
            self.step_targets(source, targets, match, outputs, now_ms)
        self._count_states(outputs)

    def step_targets(
        self, source: str, targets: list[MatchTarget], match: MatchRecord, outputs: Outputs, now_ms: int
    ) -> None:
        """Step the targets of one registration, unless this origin was stepped before."""
        incarnation = targets[0].incarnation
        registered = self.registry.get(incarnation)
        # If it was removed or replaced, nobody waits for it. If it was registered again, at another offset,
        # its events are matched again from its `since`.
        if registered is None or registered.offset != targets[0].registry_offset:
            return
        states = self.store.get(incarnation)
        if states is None or not states.resolved or states.registry_offset != registered.offset:
            states = self.states_of(registered)
        mark = states.marks.get(source, -1)
        if states.closed or match.offset <= mark:
            return
        self.store.touch(incarnation)
        states.marks[source] = self._next_mark(match, mark) if self.registry.resumes else match.offset
        self._stats.stepped += len(targets)
        for target in targets:
            try:
                self._evaluator.match(registered, states, target, match, outputs, now_ms)
            except self.caught as e:  # it concerns this target alone
                name = registered.registration.subscription
                with at(match.topic, match.partition, match.offset):
                    log.exception(
                        "%s[%d]@%d could not be evaluated for %r; it goes to the dead-letter topic.",
                        match.topic,
                        match.partition,
                        match.offset,
                        name,
                    )
                reason = f"It could not be evaluated for {name!r}: {type(e).__name__}: {e}"
                self._stats.dead_lettered += 1
                outputs.dead_letter(source_record(match), "trigger", reason, now_ms, self.tp)

    def states_of(self, registered: Registered) -> KeyStates:
        """The states of a registration. The first call makes them, and starts their timers."""
        incarnation = registered.incarnation
        states = self.store.get(incarnation)
        if states is not None and states.registry_offset != registered.offset:
            self.forget([incarnation])
            states = None
        if states is None:
            states = KeyStates(registered.offset)
            self._resolve(registered, states)
            self.store.add(incarnation, states)
            key = states.single
            if key is not None and runs_from_registration(registered.condition):
                states.opened = True
                state = opened(registered.condition, registered.timestamp_ms)
                at_ms = wakeup_ms(registered.condition, state, None, self._ttl_ms)
                self.store.put(incarnation, states, key, at_ms, state.encode())
        elif not states.resolved:
            self._resolve(registered, states)
        return states

    def _resolve(self, registered: Registered, states: KeyStates) -> None:
        self.store.resolve(states, single_key(registered), registered.condition.needs_ticks)

    # -- timers, and keys that close

    def due_at(self) -> int | None:
        """When the first key is due, in ms since the epoch; None if there is none."""
        return self.store.next_wakeup

    def has_timer_due(self, until_ms: int) -> bool:
        """Whether a tick at this time may make a key fire; otherwise it only closes keys."""
        return self.store.timer_due(until_ms)

    def tick(
        self,
        until_ms: int,
        outputs: Outputs,
        now_ms: int,
        ready: Callable[[int], bool],
        incomplete: bool,
    ) -> bool:
        """Step all due keys with a tick. False if the pass is full before all are stepped.

        ready: whether the registration at a registry offset has seen all events before the tick; keys of
        others stay due. incomplete: some of those events may be missing (docs/use/conditions.md W2), and the
        firings say so.
        """
        postponed: list[tuple[KeyStates, Wakeup]] = []
        try:
            return self._tick(until_ms, outputs, now_ms, ready, incomplete, postponed)
        finally:
            for states, due in postponed:
                self.store.put_back(states, due)

    def _tick(
        self,
        until_ms: int,
        outputs: Outputs,
        now_ms: int,
        ready: Callable[[int], bool],
        incomplete: bool,
        postponed: list[tuple[KeyStates, Wakeup]],
    ) -> bool:
        for due in self.store.due(until_ms):
            self._count_states(outputs)
            if outputs.full:
                return False
            states, registered = self.store.get(due.incarnation), self.registry.get(due.incarnation)
            entry = None if states is None else states.get(due.key)
            if states is None or entry is None:
                continue
            if registered is None or registered.offset != states.registry_offset:
                self.forget([due.incarnation])
                if self.store.get(due.incarnation) is not None:  # its registration is not read yet
                    self.store.postpone(due)
                    postponed.append((states, due))
                continue
            if not ready(registered.offset):
                self.store.postpone(due)
                postponed.append((states, due))
                continue
            states = self.states_of(registered)
            key = due.key if states.single is None else states.single
            self._stats.ticks += 1
            try:
                self._evaluator.tick(registered, states, key, entry[1], until_ms, incomplete, outputs, now_ms)
            except self.caught:  # it concerns this key alone
                with at(*self.tp):
                    log.exception(
                        "The tick of key %r of %r failed; it is tried again in an hour.",
                        key,
                        registered.registration.subscription,
                    )
                self.store.put(due.incarnation, states, key, until_ms + _RETRY_MS, entry[1])
        return True

    # -- the commit

    @property
    def changed(self) -> bool:
        """Whether there is more to commit than a registry position (for which see `behind`)."""
        return self.suspects.changed or self.worked

    @property
    def worked(self) -> bool:
        """Whether records were read, or states changed, since the last commit."""
        return self.store.pending > 0 or self.position != self.committed_position

    @property
    def writes(self) -> bool:
        """Whether the commit must write states."""
        return self.store.pending > 0

    @property
    def behind(self) -> bool:
        """Whether a new registry position is applied but not committed."""
        return self.applied != self.committed_applied

    @property
    def open_keys(self) -> int:
        """The number of keys with a state."""
        return self.store.open_keys

    def full_waits(self) -> list[str]:
        """A message for each wait that has no room for new keys."""
        full = self._evaluator.full
        for incarnation in list(full):
            if self._evaluator.has_room(self.registry.get(incarnation), self.store.get(incarnation)):
                del full[incarnation]
        return list(full.values())

    def _count_states(self, outputs: Outputs) -> None:
        """Count the states of this pass in its outputs: the commit writes them, so they take room."""
        records, size = self.store.pending, self.store.pending_bytes
        outputs.expect(records - self._counted[0], size - self._counted[1])
        self._counted = (records, size)

    def commit_into(self, outputs: Outputs, committer: str, number: int) -> None:
        """Add the changed states, and this partition's offset, to the transaction."""
        self.store.write(outputs, self.tp.partition)
        self._next = (committer, number)
        metadata = OffsetMetadata(
            v=outputs.version,
            applied=self.applied,
            committer=committer,
            transaction=number,
            topic_id=self.topic_id,
            **self.suspects.metadata(),
        )
        outputs.offsets[self.tp] = Committed(self.position, encode_json(metadata).decode())

    def committed(self) -> None:
        """The transaction of `commit_into` is committed."""
        self.store.committed()
        self._counted = (0, 0)
        self._forgotten.clear()
        self.last = self._next
        self.committed_position, self.committed_applied = self.position, self.applied
        self.suspects.committed()

    def rollback(self) -> None:
        """Return to what is committed. Registrations that were removed stay removed."""
        self.store.rollback()
        self._counted = (0, 0)
        self.position, self.applied = self.committed_position, self.committed_applied
        self.suspects.rollback()
        self.forget(list(self._forgotten))


def single_key(registered: Registered) -> str | None:
    """The key of a subscription with a single key; None if its keys come from events."""
    if registered.registration.key is not None:
        return registered.registration.key
    return None if registered.condition.keyed else ""


def runs_from_registration(condition: Condition) -> bool:
    """Whether timers start at registration if the key is known then (docs/use/conditions.md B2, X2)."""
    plan = condition.plan
    return plan.watches_from_the_start or (plan.expires and not plan.expires_by_event)
