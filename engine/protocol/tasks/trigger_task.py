"""The trigger hop on one trigger partition: step the state of what events met, and write firings. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

import msgspec

from ....conditions import Condition, opened
from ...bus import Committed, Record
from ...log import at, log
from ...records import (
    MatchRecord,
    OffsetMetadata,
    Target,
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
from .store import Kept
from .wakeups import Wakeup

# A key whose tick raised is tried again after an hour.
_RETRY_MS: Final = 3_600_000

_match_decoder: Final = msgspec.msgpack.Decoder(MatchRecord)


class TriggerTask:
    """The trigger hop of one trigger partition, and of the state partition of the same number.

    `load` takes the state partition's records, then `recovered` ends the recovery. All other methods that
    change something are part of a pass: `commit_into` adds the changes to a transaction, then `committed`
    keeps them, or `rollback` undoes them.

    """

    # What the step of one registration may raise without an end of the engine.
    caught: ClassVar[type[Exception]] = Exception

    def __init__(self, start: TaskStart, context: EngineContext) -> None:
        metadata = start.metadata()
        self.tp, self.topic_id = start.tp, start.topic_id or metadata.t
        self.position = self.committed_position = self.deleted_below = start.committed.offset
        self.applied = self.committed_applied = metadata.R  # the registry position applied to this partition
        self.last = (metadata.c, metadata.n)  # committer and number of the last commit that carried it
        self.suspects = context.parts.suspects(metadata)
        self.registry, self._stats = context.registry, context.stats
        self._partitions, self._ttl_ms = start.partitions, context.limits.ttl_ms
        self.store = context.parts.store()
        self._evaluator = context.parts.evaluator(start, self.store, context)
        self._next = self.last
        self._forgotten: set[str] = set()  # since the last commit
        self._counted = (0, 0)  # records and bytes of this pass's states that its outputs know of

    # -- recovery

    def load(self, record: Record) -> None:
        """Take one record of the state partition, in offset order."""
        self.store.load(record)

    def recovered(self) -> None:
        """End the recovery, after the registry was read: drop states without a registration."""
        for incarnation in self.store:
            registered = self.registry.get(incarnation)
            kept = self.store.get(incarnation)
            if registered is not None and kept is not None:
                self._resolve(registered, kept)
        self.store.loaded()
        self.forget(list(self.store))

    # -- the registry

    @property
    def needs_apply(self) -> bool:
        """Whether the registry was read further than it is applied here."""
        return self.applied < self.registry.position

    def apply(self) -> None:
        """Apply the registry up to its position: open the timers of new registrations, each once.

        `recovered` and `forget` handle removed registrations.
        """
        for registered in self.registry.between(self.applied, self.registry.position):
            if not runs_from_registration(registered.condition):
                continue
            key, registration = single_key(registered), registered.registration
            if key is not None and self.tp.partition == partition_of(
                registration.kind, registration.subscription, key, self._partitions
            ):
                self.kept_for(registered)
        self.applied = self.registry.position

    def forget(self, incarnations: Iterable[str]) -> None:
        """Drop the states of these, unless the registry still has them at the same offset."""
        for incarnation in incarnations:
            kept = self.store.get(incarnation)
            # A registration beyond the registry's position is not read yet, so it was not removed.
            if kept is None or kept.registry_offset >= self.registry.position:
                continue
            registered = self.registry.get(incarnation)
            if registered is not None and registered.offset == kept.registry_offset:
                continue
            count = self.store.drop(incarnation)
            if count:
                self._log_dropped(incarnation, count)
            self._forgotten.add(incarnation)

    def _log_dropped(self, incarnation: str, count: int) -> None:
        successor = self.registry.successor(incarnation)
        if successor is not None and successor.incarnation != incarnation and not successor.one_shot:
            self._stats.keys_dropped += count  # an abort has taken that back
            if incarnation in self._forgotten:
                return
            with at(*self.tp):
                log.warning(
                    "Durable subscription %r was changed: what %d keys had half met on %s is dropped.",
                    successor.registration.subscription,
                    count,
                    self.tp,
                )

    # -- matches

    def needs_registry(self, match: MatchRecord) -> int:
        """The registry position that must be reached before `process` may judge this match."""
        targets = match.targets
        if len(targets) == 1:
            return targets[0].registry_offset + 1
        return max((target.registry_offset for target in targets), default=-1) + 1

    @staticmethod
    def decode(record: Record) -> MatchRecord:
        """The match in a record of the trigger topic; RecordError for anything else, UnknownVersion where
        another version of Interlock wrote it."""
        try:
            match = _match_decoder.decode(record.value or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return decode_msgpack(MatchRecord, record.value or b"", str(record))
        return match if is_read(match.v) else decode_msgpack(MatchRecord, record.value or b"", str(record))

    def dead_letter(
        self, record: Record, reason: str, outputs: Outputs, now_ms: int, attempts: int = 1
    ) -> None:
        """Move past a record that is not to be judged, by way of the dead-letter topic."""
        self.position = record.offset + 1
        self._stats.dead_lettered += 1
        outputs.dead_letter(record, "trigger", reason, now_ms, attempts=attempts)

    def at_end(self, offset: int) -> None:
        """Only control records lie before this offset."""
        self.position = max(self.position, offset)
        self.suspects.at_end()

    def process(self, record: Record, match: MatchRecord, outputs: Outputs, now_ms: int) -> None:
        """Step every target of the next record. For one that raises, the event becomes a dead letter."""
        self.position = record.offset + 1
        source = match.source
        if len(match.targets) == 1:
            self.reach(source, match.targets, match, outputs, now_ms)
            self._count_states(outputs)
            return
        # An event may reach one registration under several keys; by its place: beside what it met of a
        # registration that was removed may stand what it met of the same one, registered again.
        together: dict[int, list[Target]] = {}
        for target in match.targets:
            together.setdefault(target.registry_offset, []).append(target)
        for targets in together.values():
            self.reach(source, targets, match, outputs, now_ms)
        self._count_states(outputs)

    def reach(
        self, source: str, targets: list[Target], match: MatchRecord, outputs: Outputs, now_ms: int
    ) -> None:
        """Step the targets of one registration, once for each origin."""
        incarnation = targets[0].incarnation
        registered = self.registry.get(incarnation)
        # Removed or replaced since: nobody waits for it any more. Registered again, at another offset: its
        # events are matched again, from its `since`.
        if registered is None or registered.offset != targets[0].registry_offset:
            return
        kept = self.store.get(incarnation)
        if kept is None or not kept.resolved or kept.registry_offset != registered.offset:
            kept = self.kept_for(registered)
        if kept.closed or match.offset <= kept.marks.get(source, -1):
            return
        self.store.touch(incarnation)
        kept.marks[source] = match.offset
        self._stats.stepped += len(targets)
        for target in targets:
            try:
                self._evaluator.match(registered, kept, target, match, outputs, now_ms)
            except self.caught as e:  # it concerns this target alone
                name = registered.registration.subscription
                with at(match.topic, match.partition, match.offset):
                    log.exception(
                        "%s[%d]@%d could not be judged for %r; it went to the dead letters.",
                        match.topic,
                        match.partition,
                        match.offset,
                        name,
                    )
                reason = f"It could not be judged for {name!r}: {type(e).__name__}: {e}"
                self._stats.dead_lettered += 1
                outputs.dead_letter(source_record(match), "trigger", reason, now_ms, self.tp)

    def kept_for(self, registered: Registered) -> Kept:
        """The states of a registration; on first use they are made, and their timers opened."""
        incarnation = registered.incarnation
        kept = self.store.get(incarnation)
        if kept is not None and kept.registry_offset != registered.offset:
            self.forget([incarnation])
            kept = None
        if kept is None:
            kept = Kept(registered.offset)
            self._resolve(registered, kept)
            self.store.add(incarnation, kept)
            key = kept.single
            if key is not None and runs_from_registration(registered.condition):
                kept.opened = True
                state = opened(registered.condition, registered.timestamp_ms)
                at_ms = wakeup_ms(registered.condition, state, None, self._ttl_ms)
                self.store.put(incarnation, kept, key, at_ms, state.encode())
        elif not kept.resolved:
            self._resolve(registered, kept)
        return kept

    def _resolve(self, registered: Registered, kept: Kept) -> None:
        self.store.resolve(kept, single_key(registered), registered.condition.needs_ticks)

    # -- timers, and keys that close

    def due_at(self) -> int | None:
        """When the first key must be looked at, ms since the epoch; None if there is none."""
        return self.store.next_wakeup

    def has_timer_due(self, until_ms: int) -> bool:
        """Whether a tick may make something fire by then; otherwise it only closes keys."""
        return self.store.timer_due(until_ms)

    def tick(
        self,
        until_ms: int,
        outputs: Outputs,
        now_ms: int,
        ready: Callable[[int], bool],
        incomplete: bool,
    ) -> bool:
        """Step all due keys with a tick; True when none is left, False when the pass is full.

        ready: whether the registration at a registry offset has seen all events before the tick; keys of
        others stay due. incomplete: not all of those events were seen (docs/use/conditions.md W2); firings
        say so.
        """
        set_back: list[tuple[Kept, Wakeup]] = []
        try:
            return self._tick(until_ms, outputs, now_ms, ready, incomplete, set_back)
        finally:
            for kept, due in set_back:
                self.store.put_back(kept, due)

    def _tick(
        self,
        until_ms: int,
        outputs: Outputs,
        now_ms: int,
        ready: Callable[[int], bool],
        incomplete: bool,
        set_back: list[tuple[Kept, Wakeup]],
    ) -> bool:
        for due in self.store.due(until_ms):
            self._count_states(outputs)
            if outputs.full:
                return False
            kept, registered = self.store.get(due.incarnation), self.registry.get(due.incarnation)
            entry = None if kept is None else kept.get(due.key)
            if kept is None or entry is None:
                continue
            if registered is None or registered.offset != kept.registry_offset:
                self.forget([due.incarnation])
                if self.store.get(due.incarnation) is not None:  # its registration is not read yet
                    self.store.set_back(kept)
                    set_back.append((kept, due))
                continue
            if not ready(registered.offset):
                self.store.set_back(kept)
                set_back.append((kept, due))
                continue
            kept = self.kept_for(registered)
            key = due.key if kept.single is None else kept.single
            self._stats.ticks += 1
            try:
                self._evaluator.tick(registered, kept, key, entry[1], until_ms, incomplete, outputs, now_ms)
            except self.caught:  # it concerns this key alone
                with at(*self.tp):
                    log.exception(
                        "Key %r of %r could not be given its tick; it is tried again in an hour.",
                        key,
                        registered.registration.subscription,
                    )
                self.store.put(due.incarnation, kept, key, until_ms + _RETRY_MS, entry[1])
        return True

    # -- the commit

    @property
    def changed(self) -> bool:
        """Whether there is something to commit beside a registry position (see `behind`)."""
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
        """Whether the registry is applied further than the last commit says."""
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
        """Count the states of this pass in its outputs: the commit writes them, and they can fill it."""
        records, size = self.store.pending, self.store.pending_bytes
        outputs.expect(records - self._counted[0], size - self._counted[1])
        self._counted = (records, size)

    def commit_into(self, outputs: Outputs, committer: str, number: int) -> None:
        """Add the changed states, and this partition's offset, to the transaction."""
        self.store.write(outputs, self.tp.partition)
        self._next = (committer, number)
        metadata = OffsetMetadata(
            v=outputs.version,
            R=self.applied,
            c=committer,
            n=number,
            t=self.topic_id,
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
    """The key of a subscription that has only one; None where events bring the keys."""
    if registered.registration.key is not None:
        return registered.registration.key
    return None if registered.condition.keyed else ""


def runs_from_registration(condition: Condition) -> bool:
    """Whether its timers run from the registration where the key is known (docs/use/conditions.md B2, X2)."""
    plan = condition.plan
    return plan.watches_from_the_start or (plan.expires and not plan.expires_by_event)
