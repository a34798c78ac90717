"""What one trigger partition must have fired and kept: `step` folded over it, beside what was committed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from interlock.conditions import EMPTY, Firing, Match, State, Tick, closes_at, firing_id, opened, step
from interlock.engine.records import (
    ActionRecord,
    FiringRecord,
    MetaRecord,
    StateRecord,
    decode_msgpack,
    parse_state_key,
    partition_of,
)

from tests.kit.kafka import Entry, Transaction
from tests.simulation.instances import Instance

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle

TTL_MS: Final = 30 * 24 * 3600 * 1000
SLACK_MS: Final = 3_000  # a cut takes several rounds


class Follower:
    """Folds `step` over one trigger partition, transaction by transaction, beside what was committed."""

    def __init__(self, oracle: Oracle, partition: int) -> None:
        self._oracle, self._partition = oracle, partition
        self._entered = oracle.entered[partition]
        self._at = 0  # the next position in `_entered`
        self._states: dict[tuple[Instance, str], State] = {}
        self._closed: set[Instance] = set()
        self._owners: dict[tuple[str, str], Instance] = {}  # whose state a key of the state topic holds
        self._decided: list[tuple[Instance, str, Firing]] = []
        self._incomplete: set[Instance] = set()
        for instance in oracle.instances:
            key, registration = instance.single_key, instance.registration
            if (
                key is not None
                and instance.runs_from_registration
                and partition_of(registration.kind, registration.subscription, key, oracle.world.triggers)
                == partition
            ):
                self._states[instance, key] = opened(instance.condition, instance.timestamp_ms)

    def follow(
        self, transaction: Transaction, position: int, states: list[Entry], actions: list[ActionRecord]
    ) -> None:
        """Checks a transaction. position: the offset it committed. states, actions: the records it wrote."""
        self._decided = []
        self._incomplete |= {
            instance
            for instance in self._oracle.instances
            for action in actions
            if action.firing.incomplete and action.incarnation == instance.registration.incarnation
        }
        while self._at < len(self._entered) and self._entered[self._at][0] < position:
            _, instance, key, match = self._entered[self._at]
            self._at += 1
            if instance in self._closed:
                self._oracle.world.seen["late match of a closed one-shot"] += 1
                continue
            self._step(instance, key, match)
        for entry in states:
            self._compare(transaction, entry)
        self._compare_firings(transaction, actions)

    def _step(self, instance: Instance, key: str, given: Match | Tick) -> State:
        before = self._states.get((instance, key), EMPTY)
        state, decisions = step(instance.condition, before, given)
        if decisions and instance.registration.kind == "one-shot":
            decisions = decisions[:1]
            self._closed.add(instance)
        self._decided += [(instance, key, decision) for decision in decisions]
        self._states[instance, key] = state
        return state

    def _compare(self, transaction: Transaction, entry: Entry) -> None:
        """Compares a state record with the fold; if its clock has moved, there was a tick."""
        where = f"{transaction}, b-state[{self._partition}] {entry.key!r}"
        incarnation, key = parse_state_key(entry.key or b"")
        stored: State | None = None
        if entry.value is None:
            owner = self._owners.get((incarnation, key or ""))
            if owner is None or key is None:
                return
            instance = owner
        elif key is None:
            meta = decode_msgpack(MetaRecord, entry.value, where)
            found = self._oracle.by_place.get(meta.registry_offset)
            if found is None:
                return  # I10 reports it
            instance = found
            if instance.single_key is None:
                return
            key = instance.single_key
            if meta.only is not None:
                stored = State.decode(meta.only[1])
            elif (instance, key) not in self._states:
                return
        else:
            record = decode_msgpack(StateRecord, entry.value, where)
            found = self._oracle.by_place.get(record.registry_offset)
            if found is None:
                return
            instance, stored = found, State.decode(record.state)
        self._owners[incarnation, key] = instance
        if instance in self._closed:
            return
        if stored is None:
            self._close(transaction, instance, key, where)
        else:
            self._keep(instance, key, stored, where)

    def _keep(self, instance: Instance, key: str, stored: State, where: str) -> None:
        state = self._states.get((instance, key), EMPTY)
        if stored.clock_ms is not None and stored.clock_ms != state.clock_ms:
            state = self._step(instance, key, Tick(stored.clock_ms))
            self._check_tick(instance, key, stored.clock_ms, where)
        if state != stored and instance.in_force:
            self._oracle.wrong(
                "I6", f"{where} of {instance} does not follow from its matches: {stored}, not {state}"
            )
        self._states[instance, key] = stored

    def _close(self, transaction: Transaction, instance: Instance, key: str, where: str) -> None:
        now_ms = transaction.started_ms
        decided = len(self._decided)
        if instance.condition.needs_ticks:
            self._step(instance, key, Tick(now_ms))
        for _, _, decision in self._decided[decided:]:
            if decision.timer_ms is not None:
                self._check_tick(instance, key, decision.timer_ms, where)
        closes = closes_at(instance.condition, self._states.get((instance, key), EMPTY), TTL_MS)
        if instance.in_force and instance not in self._closed and closes is not None and closes > now_ms:
            self._oracle.wrong(
                "I10", f"{where} of {instance} is closed at {now_ms}, and not before {closes} is due"
            )
        self._states.pop((instance, key), None)

    def _check_tick(self, instance: Instance, key: str, time_ms: int, where: str) -> None:
        """Checks that no match stamped before this tick comes after it."""
        self._oracle.world.seen["tick"] += 1
        if not instance.in_force or instance in self._incomplete:
            return
        for offset, whose, of_key, match in self._entered[self._at :]:
            if (whose, of_key) == (instance, key) and match.timestamp_ms < time_ms:
                self._oracle.wrong(
                    "timers",
                    f"{where}: tick {time_ms} overtook {match.topic}[{match.partition}]@{match.offset}, "
                    f"stamped {match.timestamp_ms}, at b-trigger[{self._partition}]@{offset}, of {instance}",
                )

    def _compare_firings(self, transaction: Transaction, actions: list[ActionRecord]) -> None:
        wrong, needed, allowed = self._oracle.wrong, Counter[str](), Counter[str]()
        texts: dict[str, str] = {}
        for instance, key, decision in self._decided:
            incarnation = instance.registration.incarnation
            name = firing_id(incarnation, key, decision.outcome, decision.taking_part, decision.timer_ms)
            texts[name] = f"{instance}: {_decided(key, decision)}"
            allowed[name] += 1
            needed[name] += instance.in_force
        actual = Counter(action.firing.id for action in actions)
        for action in actions:
            texts.setdefault(action.firing.id, f"{action.subscription}: {_shown(action.firing)}")
            seen = self._oracle.world.seen
            seen["firing of a timer"] += action.firing.timer_ms is not None
            seen["firing"] += 1
            seen["incomplete firing"] += action.firing.incomplete
        if self._incomplete:
            return
        for name in actual - allowed:
            wrong("I6", f"{transaction} fired {texts[name]}, which its matches and ticks do not explain")
        for name in needed - actual:
            wrong("I6", f"{transaction} did not fire {texts[name]}")

    def end(self) -> None:
        """Checks that all timers that were due some time ago have fired."""
        now_ms = self._oracle.cluster.now_ms - SLACK_MS
        for (instance, key), state in self._states.items():
            if not instance.in_force or instance in self._closed:
                continue
            _, decisions = step(instance.condition, state, Tick(now_ms))
            for decision in decisions:
                self._oracle.wrong("timers", f"{instance} did not fire {_decided(key, decision)}")


def _shown(firing: FiringRecord) -> str:
    ids = sorted({event["id"] for events in firing.events.values() for event in events})
    return f"{firing.outcome} key {firing.key!r} events {ids} timer {firing.timer_ms}"


def _decided(key: str, firing: Firing) -> str:
    ids = sorted({part.match.event.id for part in firing.taking_part})
    return f"{firing.outcome} key {key!r} events {ids} timer {firing.timer_ms}"
