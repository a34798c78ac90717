"""Evaluates conditions, key by key: the new state, firings and the next wakeup."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from ....conditions import (
    EMPTY,
    Condition,
    Firing,
    Match,
    State,
    Tick,
    closes_at,
    firing_id,
    next_wakeup,
    step,
)
from ....conditions.evaluate.seen import SEEN_MS
from ....conditions.nodes.written import has_spellings, written_by
from ....events.event import Event
from ....events.kafka import encode
from ...bus import Record, TopicPartition
from ...log import at, log
from ...records import ActionRecord, FiringRecord, MatchRecord, MatchTarget, encode_json
from ...records.event_form import json_form, raw_form
from ...records.firing_fit import fit
from ...records.sizes import MAX_VALUE_BYTES
from ...registry.registry import Registered
from ..context import EngineContext
from ..outputs import Outputs
from .start import TaskStart
from .store import KeyStates, Store

# A wait without room is reported until a tenth of its keys have closed, so that the report is stable.
_ROOM_AGAIN: Final = 0.9
# The size limit of a mark in a meta record: the name of a source partition, and an offset.
_MARK_BYTES: Final = 300


class Evaluator:
    """Steps the keys of one trigger partition. A step that raises writes nothing and changes no state."""

    # The decision on one input, and the id of a firing; here so that tests can replace them.
    step = staticmethod(step)
    firing_id = staticmethod(firing_id)

    def __init__(self, start: TaskStart, store: Store, context: EngineContext) -> None:
        self._tp, self._partitions, self._store = start.tp, start.partitions, store
        self._stats, self._ttl_ms = context.stats, context.limits.ttl_ms
        self._limit_logged: set[str] = set()  # incarnations whose limit is logged
        # Waits without room for new keys: the text to report, by incarnation.
        self.full: dict[str, str] = {}

    def match(
        self,
        registered: Registered,
        states: KeyStates,
        target: MatchTarget,
        match: MatchRecord,
        outputs: Outputs,
        now_ms: int,
    ) -> None:
        """Step a key with an event. If a new key has no room, its event goes to the dead-letter topic."""
        if states.closed:  # by an earlier target of the same event
            return
        key = target.key
        entry = states.get(key)
        full = entry is None and self.is_at_limit(registered, states)
        idle = self._store.first_idle(states) if full else None
        if full and idle is None:
            self._report_limit(registered, states)
            if registered.registration.at_limit != "drop-oldest":
                self._refuse(registered, states, match, outputs, now_ms)
                return
        condition = registered.condition
        before = EMPTY if entry is None else State.decode(entry[1])
        state, decisions = self.step(
            condition,
            before,
            Match(
                match.event,
                target.matchers,
                match.topic,
                match.partition,
                match.offset,
                match.timestamp_ms,
                target.values,
                target.written,
            ),
        )
        if decisions and registered.one_shot:
            self.fire(registered, states, key, decisions, False, outputs, now_ms)
            return
        if state is before and not decisions:  # a repeat
            return
        data = state.encode()
        if len(data) + _MARK_BYTES * len(states.marks) > MAX_VALUE_BYTES:
            reason = (
                f"With this event the state of {registered.registration.subscription!r} would exceed "
                f"{MAX_VALUE_BYTES} bytes, so the event was not added. Send references instead of data."
            )
            with at(match.topic, match.partition, match.offset):
                log.error("%s[%d]@%d: %s", match.topic, match.partition, match.offset, reason)
            self._stats.dead_lettered += 1
            outputs.dead_letter(source_record(match), "trigger", reason, now_ms, self._tp)
            return
        at_ms = wakeup_ms(condition, state, None if entry is None else entry[0], self._ttl_ms)
        if decisions:
            self.fire(registered, states, key, decisions, False, outputs, now_ms)
        if at_ms is None:
            self._store.close(registered.incarnation, states, key)
            return
        if idle is not None:
            self._store.close(registered.incarnation, states, idle)
        elif full:
            self._stats.keys_dropped += 1
            self._store.close(registered.incarnation, states, next(iter(states.keys)))
        idle_now = states.idle is not None and state.is_idle
        self._store.put(registered.incarnation, states, key, at_ms, data, idle=idle_now)

    def has_room(self, registered: Registered | None, states: KeyStates | None) -> bool:
        """Whether a wait in `full` has room again."""
        if registered is None or states is None or states.closed:
            return True
        pending = len(states.keys) - len(states.idle or ())  # idle keys make room
        return pending <= self._most_keys(registered) * _ROOM_AGAIN

    def _most_keys(self, registered: Registered) -> int:
        """How many keys may be open here: for a durable subscription, this partition's share of its limit."""
        most = registered.registration.max_keys
        return most if registered.one_shot else -(-most // self._partitions)

    def is_at_limit(self, registered: Registered, states: KeyStates) -> bool:
        """Whether a registration has no room for another key here."""
        return len(states.keys) >= self._most_keys(registered)

    def _report_limit(self, registered: Registered, states: KeyStates) -> None:
        """Log once, and for a wait report, that there is no room for a new key."""
        registration = registered.registration
        if registered.one_shot:
            if registered.incarnation not in self.full:
                text = (
                    f"{registration.subscription!r} waits without a key and has {len(states.keys)} open "
                    "keys, the limit: events with new keys go to the dead-letter topic. Give the wait a key, "
                    "or let keys close (`within`)."
                )
                self.full[registered.incarnation] = text
                log.warning("%s", text)
            return
        if registered.incarnation not in self._limit_logged:
            self._limit_logged.add(registered.incarnation)
            beyond = (
                "each new key drops the one opened first"
                if registration.at_limit == "drop-oldest"
                else "events with new keys go to the dead-letter topic"
            )
            with at(*self._tp):
                log.warning(
                    "Durable subscription %r has %d open keys on %s, its share of max_keys=%d: %s.",
                    registration.subscription,
                    len(states.keys),
                    self._tp,
                    registration.max_keys,
                    beyond,
                )

    def _refuse(
        self, registered: Registered, states: KeyStates, match: MatchRecord, outputs: Outputs, now_ms: int
    ) -> None:
        """Send an event whose key has no room to the dead-letter topic."""
        registration = registered.registration
        limit = "the limit of a wait," if registered.one_shot else "its share of"
        reason = (
            f"{registration.subscription!r} has no room for another key: {len(states.keys)} are open on "
            f"{self._tp}, {limit} max_keys={registration.max_keys}."
        )
        self._stats.dead_lettered += 1
        outputs.dead_letter(source_record(match), "trigger", reason, now_ms, self._tp)

    def tick(
        self,
        registered: Registered,
        states: KeyStates,
        key: str,
        data: bytes,
        until_ms: int,
        incomplete: bool,
        outputs: Outputs,
        now_ms: int,
    ) -> None:
        """Step a key with its tick, or close it. data: its state. See `TriggerTask.tick`."""
        condition, incarnation, state = registered.condition, registered.incarnation, State.decode(data)
        decisions: tuple[Firing, ...] = ()
        next_ms: int | None = None
        if condition.needs_ticks:
            state, decisions = self.step(condition, state, Tick(until_ms))
            data = state.encode()
            next_ms = next_wakeup(condition, state)
        close_ms = closes_at(condition, state, self._ttl_ms)
        if decisions:
            self.fire(registered, states, key, decisions, incomplete, outputs, now_ms)
        if states.closed or close_ms is None or close_ms <= until_ms:
            self._store.close(incarnation, states, key)
        else:
            at_ms = close_ms if next_ms is None else min(next_ms, close_ms)
            self._store.put(incarnation, states, key, max(at_ms, until_ms + 1), data, idle=state.is_idle)

    def fire(
        self,
        registered: Registered,
        states: KeyStates,
        key: str,
        decisions: tuple[Firing, ...],
        incomplete: bool,
        outputs: Outputs,
        now_ms: int,
    ) -> None:
        """Write firings. A one-shot fires once, and is then closed until its registration is removed."""
        wanted = decisions[:1] if registered.one_shot else decisions
        actions = [
            action_of(registered, key, decision, now_ms, incomplete, outputs.version, make_id=self.firing_id)
            for decision in wanted
        ]
        for decision in wanted:
            self._count(decision, now_ms)
        for record_key, value in actions:
            outputs.write("action", self._tp.partition, record_key, value)
        if registered.one_shot:
            self._store.close_all(registered.incarnation, states)
            states.closed = True

    def _count(self, decision: Firing, now_ms: int) -> None:
        if decision.outcome == "met":
            self._stats.fired += 1
        else:
            self._stats.expired += 1
        if decision.timer_ms is not None:
            since = decision.timer_ms
        else:
            since = max([part.match.timestamp_ms for part in decision.taking_part], default=now_ms)
        self._stats.sample(self._stats.latency_s, (now_ms - since) / 1000 if now_ms > since else 0.0)


def wakeup_ms(condition: Condition, state: State, scheduled_ms: int | None, ttl_ms: int) -> int | None:
    """When a key must next be evaluated or closed; None for a state that holds nothing.

    If no timer can fire, that is when the key may close. An early estimate is enough then, without decoding
    the state: the evaluation finds the exact time.
    """
    last_ms = state.last_ms
    if condition.needs_ticks:
        next_ms = next_wakeup(condition, state)
        if next_ms is not None and last_ms is not None and next_ms <= last_ms + ttl_ms:
            return next_ms  # the key cannot close earlier
        close_ms = closes_at(condition, state, ttl_ms)
        return min((ms for ms in (next_ms, close_ms) if ms is not None), default=None)
    if last_ms is None:
        return None
    if not state.matches:
        close_ms = last_ms + SEEN_MS + 1
        return close_ms if scheduled_ms is None else min(close_ms, scheduled_ms)
    if scheduled_ms is not None:
        return scheduled_ms
    if condition.plan.releases_events:  # windows end before the ttl
        return closes_at(condition, state, ttl_ms)
    return last_ms + ttl_ms


def source_record(match: MatchRecord) -> Record:
    """The event of a match, as a record of its source partition: for a dead letter."""
    key, value, headers = encode(match.event)
    source = TopicPartition(match.topic, match.partition)
    return Record(source, match.offset, match.timestamp_ms, key, value, headers)


def action_of(
    registered: Registered,
    key: str,
    decision: Firing,
    now_ms: int,
    incomplete: bool,
    version: int,
    *,
    make_id: Callable[..., str] = firing_id,
) -> tuple[bytes, bytes]:
    """Key and value of a firing's action record, cut to the size limit of records (see `fit`)."""
    made_id = make_id(registered.incarnation, key, decision.outcome, decision.taking_part, decision.timer_ms)
    action = _action(registered, key, decision, made_id, now_ms, incomplete, version, raw_form)
    value = encode_json(action)
    if len(value) > MAX_VALUE_BYTES:
        action = _action(registered, key, decision, made_id, now_ms, incomplete, version, json_form)
        firing = fit(action.firing, MAX_VALUE_BYTES // 2)
        value = encode_json(msgspec.structs.replace(action, firing=firing))
    return action.key, value


def _action(
    registered: Registered,
    key: str,
    decision: Firing,
    made_id: str,
    now_ms: int,
    incomplete: bool,
    version: int,
    form: Callable[[Event], dict[str, Any]],
) -> ActionRecord:
    events: dict[str, list[dict[str, Any]]] = {}
    origins: dict[str, list[dict[str, Any]]] = {}
    for part in decision.taking_part:
        label, match = part.label, part.match
        event = form(match.event)
        origin = {
            "topic": match.topic,
            "partition": match.partition,
            "offset": match.offset,
            "timestamp_ms": match.timestamp_ms,
        }
        if label in events:
            events[label].append(event)
            origins[label].append(origin)
        else:
            events[label], origins[label] = [event], [origin]
    firing = FiringRecord(
        id=made_id,
        outcome=decision.outcome,
        key=key or None,
        fired_at=_iso(now_ms),
        events=events,
        origins=origins,
        missing=list(decision.missing),
        timer_ms=decision.timer_ms,
        incomplete=incomplete,
        written=_written(registered, key, decision),
    )
    return ActionRecord(
        v=version,
        subscription=registered.registration.subscription,
        kind=registered.registration.kind,
        incarnation=registered.incarnation,
        state="fired",
        firing=firing,
    )


def _written(registered: Registered, key: str, decision: Firing) -> str | None:
    """How the first event with the key writes it. None if all write it alike, or a wait has a given key."""
    if registered.registration.key is not None or not has_spellings(key):
        return None
    for part in decision.taking_part:
        match = part.match
        if match.written is not None:
            return match.written
        if any(registered.condition.matchers[number].by is not None for number in match.matchers):
            return written_by(registered.condition, match.matchers, key, match.event)
    return None


@lru_cache(1)  # all firings of a pass have the same time
def _iso(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
