"""What must be true when a world is at rest: judged from the final logs, and nothing that engines hold or say.

Of the engine only its record forms are used here; which events count, for whom, and what fires is computed
anew: matcher by matcher, and with `step` folded over the trigger topic, whose merge alone is taken from it.
The checks are named after the invariants of docs/engine.md and the design.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from interlock.conditions import (
    EMPTY,
    Condition,
    Firing,
    Match,
    Tick,
    canonical_key,
    firing_id,
    opened,
    step,
)
from interlock.engine.bus import TopicPartition
from interlock.engine.records import (
    ActionRecord,
    MatchRecord,
    MetaRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    decode_json,
    decode_msgpack,
    parse_state_key,
    partition_of,
)
from interlock.engine.records import Firing as FiringRecord
from interlock.events.errors import EventError
from interlock.events.event import Event
from interlock.events.kafka import decode

from tests.simulation.kafka import Entry, Log
from tests.simulation.subscriptions import PLAIN
from tests.simulation.world import ACTION, DEAD_LETTER, EVENT, ORDERS, REGISTRY, STATE, TRIGGER, World


class Violation(NamedTuple):
    """An invariant that does not hold, and where."""

    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"


@dataclass(eq=False)
class Instance:
    """A registration from its first record to its removal; the same incarnation may be registered again."""

    registration: Registration
    condition: Condition
    offset: int
    timestamp_ms: int
    gone_at: int | None = None
    matches: dict[str, list[Match]] = field(default_factory=dict)  # by key, in the trigger topic's order

    @property
    def in_force(self) -> bool:
        return self.gone_at is None

    @property
    def single_key(self) -> str | None:
        if self.registration.key is not None:
            return canonical_key(self.registration.key)
        return None if self.condition.keyed else ""

    def targets(self, event: Event) -> dict[str, tuple[int, ...]]:
        """By key, the matchers that accept the event."""
        own = self.registration.key
        found: dict[str, tuple[int, ...]] = {}
        for number, matcher in enumerate(self.condition.matchers):
            if not matcher.accepts(event):
                continue
            if matcher.by is None:
                key = "" if own is None else canonical_key(own)
            else:
                read = matcher.key_of(event)
                if read is None or (own is not None and read != canonical_key(own)):
                    continue
                key = read
            found[key] = (*found.get(key, ()), number)
        return found

    def __str__(self) -> str:
        registration = self.registration
        return f"{registration.kind} {registration.subscription} {registration.incarnation[:6]}@{self.offset}"


class Place(NamedTuple):
    """Where a match must stand once: registration, event and key."""

    instance: Instance
    source: TopicPartition
    offset: int
    key: str

    def __str__(self) -> str:
        return f"{self.instance} and {self.source}@{self.offset}, key {self.key!r}"


class Oracle:
    """Judges one world at rest."""

    def __init__(self, world: World) -> None:
        self.world, self.cluster = world, world.cluster
        self.violations: list[Violation] = []
        self.instances = list(self._instances())
        self.by_place = {instance.offset: instance for instance in self.instances}

    def judge(self) -> list[Violation]:
        self._i1_transactions()
        self._i2_offsets()
        self._i3_i4_matches()
        self._i6_firings()
        self._i8_dead_letters()
        self._i10_state()
        return self.violations

    def wrong(self, check: str, text: str) -> None:
        self.violations.append(Violation(check, text))

    # -- what was registered and emitted

    def _instances(self) -> Iterator[Instance]:
        in_force: dict[str, Instance] = {}
        of_subscription: dict[str, Instance] = {}
        for offset, entry in self._log(REGISTRY).history():
            key = RegistrationKey.decode(entry.key or b"")
            if key is None or b"/" in (entry.key or b""):
                continue
            if entry.value is None:
                gone = in_force.pop(key.incarnation, None)
                if gone is not None:
                    gone.gone_at = offset
                continue
            registration = decode_json(Registration, entry.value, "registry")
            if registration.incarnation in in_force:
                continue
            earlier = of_subscription.get(registration.subscription)
            if earlier is not None and earlier.in_force:
                earlier.gone_at = offset
                in_force.pop(earlier.registration.incarnation, None)
            instance = Instance(registration, registration.build_condition(), offset, entry.timestamp_ms)
            in_force[registration.incarnation] = of_subscription[registration.subscription] = instance
            yield instance

    def _log(self, tp: TopicPartition) -> Log:
        log = self.cluster.log(tp)
        assert log is not None
        return log

    def _sources(self) -> list[Log]:
        names = (EVENT, ORDERS) if self.world.listed else (EVENT,)
        return [log for name in names for log in self.cluster.topics[name].logs]

    def _event(self, log: Log, offset: int, entry: Entry) -> Event | None:
        """None for one that cannot be read."""
        names = {name for name, _ in entry.headers or ()}
        if log.tp.topic != EVENT and not any(name.startswith("ce_") for name in names):
            return Event(
                {
                    "specversion": "1.0",
                    "id": f"{log.tp.partition}/{offset}",
                    "source": log.tp.topic,
                    "type": PLAIN,
                    "subject": (entry.key or b"").decode(),
                    "time": _moment(entry.timestamp_ms),
                    "datacontenttype": "application/json",
                },
                entry.value,
            )
        try:
            return decode(entry.key, entry.value, entry.headers)
        except EventError:
            return None

    # -- the checks

    def _i1_transactions(self) -> None:
        """What is visible was written in the transaction that moved past what brought it."""
        for name in (TRIGGER, STATE, ACTION, DEAD_LETTER):
            for log in self.cluster.topics[name].logs:
                for offset, entry in log.history():
                    where = f"{log.tp}@{offset}"
                    if entry.key == b"clock":  # written for its timestamp, read by nobody
                        continue
                    if entry.transaction is None:
                        if name != ACTION:
                            self.wrong("I1", f"{where} was written outside a transaction")
                        elif decode_json(ActionRecord, entry.value or b"", where).state == "fired":
                            self.wrong("I1", f"{where} was written outside a transaction")
                        continue
                    if name == TRIGGER:
                        match = decode_msgpack(MatchRecord, entry.value or b"", where)
                        origin = TopicPartition(match.topic, match.partition)
                    elif name == DEAD_LETTER:
                        origin = _origin(entry)
                    else:
                        origin = TopicPartition(TRIGGER, log.tp.partition)
                    if origin not in entry.transaction.offsets:
                        self.wrong("I1", f"{where}: {entry.transaction} committed no offset of {origin}")

    def _i2_offsets(self) -> None:
        """Offsets never go back, and end at the ends; the registry is applied everywhere."""
        registered = max((instance.offset for instance in self.instances), default=-1)
        for tp, commits in self.cluster.group.history.items():
            for before, after in zip(commits, commits[1:], strict=False):
                if after.offset < before.offset:
                    self.wrong("I2", f"the committed offset of {tp} went from {before.offset} to {after.offset}")
        for log in (*self._sources(), *self.cluster.topics[TRIGGER].logs):
            committed = self.cluster.group.offsets.get(log.tp)
            if committed is None:
                self.wrong("I2", f"{log.tp} has no committed offset")
                continue
            if committed.offset != log.end:
                self.wrong("I2", f"the committed offset of {log.tp} is {committed.offset} of {log.end}")
            metadata = decode_json(OffsetMetadata, committed.metadata, str(log.tp))
            if metadata.R <= registered or metadata.g:
                self.wrong("I2", f"{log.tp}: {committed.metadata}, with a registration at {registered}")

    def _i3_i4_matches(self) -> None:
        """Each qualifying event once for each registration in force, in order; and no other."""
        needed: dict[Place, tuple[int, ...]] = {}
        allowed: dict[Place, tuple[int, ...]] = {}
        events: dict[tuple[TopicPartition, int], tuple[Event, int]] = {}
        for log in self._sources():
            for offset, entry in log.history():
                event = self._event(log, offset, entry)
                if event is None:
                    continue
                events[log.tp, offset] = (event, entry.timestamp_ms)
                for instance in self.instances:
                    if entry.timestamp_ms < instance.registration.since_ms:
                        continue
                    removed = self.world.removed_at.get((log.tp, offset))
                    for key, numbers in instance.targets(event).items():
                        place = Place(instance, log.tp, offset, key)
                        allowed[place] = numbers
                        if instance.in_force and (removed is None or instance.offset < removed):
                            needed[place] = numbers
        last: dict[tuple[Instance, str, TopicPartition], int] = {}
        for log in self.cluster.topics[TRIGGER].logs:
            for offset, entry in log.history():
                where = f"{log.tp}@{offset}"
                match = decode_msgpack(MatchRecord, entry.value or b"", where)
                source = TopicPartition(match.topic, match.partition)
                for target in match.targets:
                    found = self.by_place.get(target.registry_offset)
                    if found is None or found.registration.incarnation != target.incarnation:
                        self.wrong("I3", f"{where} names {target}, which nobody registered there")
                        continue
                    place = Place(found, source, match.offset, target.key)
                    numbers = allowed.pop(place, None)
                    needed.pop(place, None)
                    registration = found.registration
                    expected = partition_of(
                        registration.kind, registration.subscription, target.key, self.world.triggers
                    )
                    if numbers is None:
                        self.wrong("I3", f"{where}: {place} stands there twice, or does not qualify")
                        continue
                    if tuple(sorted(target.matchers)) != numbers:
                        self.wrong("I3", f"{where}: {place} has matchers {target.matchers}, not {numbers}")
                    if expected != log.tp.partition:
                        self.wrong("I3", f"{where}: {place} belongs into partition {expected}")
                    order = (found, target.key, source)
                    if last.get(order, -1) >= match.offset:
                        self.wrong("I4", f"{where}: {place} comes after @{last[order]}")
                    last[order] = match.offset
                    event, stamp = events[source, match.offset]
                    if stamp != match.timestamp_ms or match.event != event:
                        self.wrong("I3", f"{where}: {place} holds another event or time")
                    found.matches.setdefault(target.key, []).append(
                        Match(event, numbers, *source, match.offset, stamp)
                    )
        for place in needed:
            self.wrong("I3", f"{place} is missing")

    def _fold(self, instance: Instance) -> list[tuple[str, Firing]]:
        """What must fire, by key: `step` over the trigger topic, and a tick beyond all timers."""
        condition, single = instance.condition, instance.single_key
        plan = condition.plan
        keys = dict.fromkeys(instance.matches)
        runs = single is not None and (bool(plan.armed) or (plan.expires and not plan.expires_by_event))
        if runs and single is not None:
            keys.setdefault(single)
        fired: list[tuple[str, Firing]] = []
        for key in keys:
            state = opened(condition, instance.timestamp_ms) if runs and key == single else EMPTY
            for at in (*instance.matches.get(key, ()), Tick(self.cluster.now_ms)):
                state, decisions = step(condition, state, at)
                fired.extend((key, decision) for decision in decisions)
        return fired[:1] if instance.registration.kind == "one-shot" else fired

    def _i6_firings(self) -> None:
        """The action topic holds what the fold gives, each firing once; its timers included (I5, I7)."""
        actual: dict[str, list[FiringRecord]] = defaultdict(list)
        for log in self.cluster.topics[ACTION].logs:
            for offset, entry in log.history():
                action = decode_json(ActionRecord, entry.value or b"", f"{log.tp}@{offset}")
                if action.state == "fired":
                    actual[action.incarnation].append(action.firing)
                    registered = [i for i in self.instances if i.registration.incarnation == action.incarnation]
                    if not registered:
                        self.wrong("I6", f"{log.tp}@{offset} fires {action.incarnation}, which nobody registered")
        by_incarnation: dict[str, list[Instance]] = defaultdict(list)
        for instance in self.instances:
            by_incarnation[instance.registration.incarnation].append(instance)
        for incarnation, instances in by_incarnation.items():
            fired = Counter(firing.id for firing in actual[incarnation])
            told = {firing.id: _told(firing) for firing in actual[incarnation]}
            at_most: Counter[str] = Counter()
            at_least: Counter[str] = Counter()
            for instance in instances:
                for key, firing in self._fold(instance):
                    name = firing_id(incarnation, key, firing.outcome, firing.taking_part, firing.timer_ms)
                    told[name] = _decided(key, firing)
                    at_most[name] += 1
                    at_least[name] += instance.in_force
            self.world.seen["late match of a closed one-shot"] += any(
                i.registration.kind == "one-shot" and self._late(i) for i in instances
            )
            if any(firing.incomplete for firing in actual[incarnation]):
                self.world.seen["incomplete firing"] += 1
                continue
            for name, count in (fired - at_most).items():
                self.wrong("I6", f"{instances[-1]} fired {count} times too often: {told[name]}")
            for name in at_least - fired:
                self.wrong("I6", f"{instances[-1]} did not fire: {told[name]}")

    def _late(self, instance: Instance) -> bool:
        """Whether a one-shot met something after it had fired."""
        state = EMPTY
        for matches in instance.matches.values():
            for n, match in enumerate(matches):
                state, decisions = step(instance.condition, state, match)
                if decisions:
                    return n + 1 < len(matches)
        return False

    def _i8_dead_letters(self) -> None:
        """Each unreadable record is in the dead letters once, and nothing else is."""
        needed: Counter[str] = Counter()
        for log in self._sources():
            for offset, entry in log.history():
                if self._event(log, offset, entry) is None:
                    needed[f"{log.tp}@{offset}"] += 1
        for log in self.cluster.topics[DEAD_LETTER].logs:
            for offset, entry in log.history():
                headers = dict(entry.headers or ())
                origin = (headers.get("interlock_origin") or b"").decode()
                if not needed[origin]:
                    reason = (headers.get("interlock_reason") or b"").decode()
                    self.wrong("I8", f"{log.tp}@{offset} holds {origin}, which is no such record: {reason}")
                needed[origin] -= 1
        for origin in +needed:
            self.wrong("I8", f"{origin} cannot be read, and is not in the dead letters")

    def _i10_state(self) -> None:
        """Nothing is kept for what is gone, nor a state for what is closed."""
        in_force = {i.registration.incarnation: i for i in self.instances if i.in_force}
        for log in self.cluster.topics[STATE].logs:
            last = {entry.key: (offset, entry.value) for offset, entry in log.history()}
            closed: set[str] = set()
            for record_key, (offset, value) in last.items():
                if value is None or record_key == b"clock":
                    continue
                where = f"{log.tp}@{offset}"
                incarnation, key = parse_state_key(record_key or b"")
                instance = in_force.get(incarnation)
                if instance is None:
                    self.wrong("I10", f"{where} keeps {record_key!r} of a registration that is gone")
                    continue
                if key is None:
                    meta = decode_msgpack(MetaRecord, value, where)
                    if meta.registry_offset != instance.offset:
                        self.wrong("I10", f"{where} is of @{meta.registry_offset}, not of {instance}")
                    if meta.closed:
                        closed.add(incarnation)
                        if meta.only is not None:
                            self.wrong("I10", f"{where} is closed, and has a state")
            for record_key, (offset, value) in last.items():
                if value is None or record_key == b"clock":
                    continue
                incarnation, key = parse_state_key(record_key or b"")
                if key is not None and incarnation in closed:
                    self.wrong("I10", f"{log.tp}@{offset}: state of {key!r} of a closed {in_force[incarnation]}")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _origin(entry: Entry) -> TopicPartition:
    """The partition that a dead letter says it came from."""
    text = (dict(entry.headers or ()).get("interlock_origin") or b"").decode()
    topic, _, rest = text.rpartition("[")
    return TopicPartition(topic, int(rest.partition("]")[0]))


def _told(firing: FiringRecord) -> str:
    ids = sorted({event["id"] for events in firing.events.values() for event in events})
    return f"{firing.outcome} key {firing.key!r} events {ids} timer {firing.timer_ms}"


def _decided(key: str, firing: Firing) -> str:
    ids = sorted({part.match.event.id for part in firing.taking_part})
    return f"{firing.outcome} key {key!r} events {ids} timer {firing.timer_ms}"
