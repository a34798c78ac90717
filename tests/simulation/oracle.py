"""What must be true when a world is at rest: judged from the final logs, not from what engines hold or say.

It uses only the engine's record forms, and the order of the matches in the trigger topic. It computes
which events count, for whom, and what fires: matcher by matcher, and with `step` folded over that topic.
The checks are named after the invariants of docs/understand/design.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from interlock.conditions import (
    Match,
)
from interlock.engine.bus import Committed, TopicPartition
from interlock.engine.protocol.poison.suspects import MOST_TRIES, WIDTHS, process_of
from interlock.engine.records import (
    ActionRecord,
    MatchRecord,
    MatchTarget,
    MetaRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    decode_json,
    decode_msgpack,
    is_leftover,
    parse_state_key,
    partition_of,
)
from interlock.engine.registry.leases import is_lease
from interlock.events.errors import EventError
from interlock.events.event import Event
from interlock.events.kafka import decode

from tests.kit.kafka import Entry, Log, Transaction
from tests.simulation.follower import Follower
from tests.simulation.instances import Instance, Place
from tests.simulation.subscriptions import PLAIN
from tests.simulation.topics import ACTION, DEAD_LETTER, EVENT, ORDERS, REGISTRY, STATE, TRIGGER
from tests.simulation.world import World

MOST_KILLED: Final = MOST_TRIES + 2 * len(WIDTHS) + 4  # a process that was paused may work on it again


class Violation(NamedTuple):
    """An invariant that does not hold, and where."""

    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"


def _had_seen(metadata: OffsetMetadata, instance: Instance, offset: int) -> bool:
    """Whether a partition with this committed metadata had evaluated the record for the registration.

    A record that retention removes before that does not count, and waiting tasks get a notice.
    """
    behind = any(start <= instance.offset < end and offset >= at for start, end, at in metadata.scans)
    return instance.offset < metadata.applied and not behind


class Oracle:
    """Judges one world at rest."""

    def __init__(self, world: World) -> None:
        self.world, self.cluster = world, world.cluster
        self.violations: list[Violation] = []
        self.instances = list(self._instances())
        # The matches of each trigger partition: offset, for whom, key.
        self.entered: dict[int, list[tuple[int, Instance, str, Match]]] = defaultdict(list)
        self.by_place = {instance.offset: instance for instance in self.instances}

    def judge(self) -> list[Violation]:
        self._i1_transactions()
        self._i2_offsets()
        self._i3_i4_matches()
        self._i6_firings()
        self._i8_dead_letters()
        self._attempts()
        self._i10_state()
        return self.violations

    def judge_aged(self) -> list[Violation]:
        """After a month in which nobody waited: all of the above, and nothing is kept (I10)."""
        for instance in self.instances:
            if instance.in_force and instance.registration.kind == "one-shot":
                self.wrong("I10", f"{instance} is still registered, although no lease names it")
        registry = {entry.key or b"": entry.value for _, entry in self._log(REGISTRY).history()}
        for name, lease in registry.items():
            if is_lease(name) and lease is not None:
                self.wrong("I10", f"{name!r} of a process that is gone is in the registry")
        for log in self.cluster.topics[STATE].logs:
            last = {entry.key: (offset, entry.value) for offset, entry in log.history()}
            for record_key, (offset, value) in last.items():
                if value is None or record_key == b"clock":
                    continue
                _, key = parse_state_key(record_key or b"")
                if key is not None or decode_msgpack(MetaRecord, value, "").only is not None:
                    self.wrong("I10", f"{log.tp}@{offset}: the state of {record_key!r} is kept for ever")
        return self.judge()

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
                if is_leftover(entry.headers):
                    continue
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
        names = (EVENT, ORDERS) if self.world.producers.listed else (EVENT,)
        return [log for name in names for log in self.cluster.topics[name].logs]

    def _sources_ever(self) -> Iterator[tuple[Log, str, bool]]:
        """(log, topic id, whether the topic exists): unread records of a deleted topic are lost."""
        there = {log.tp.topic for log in self._sources()}
        for topic in (*self.cluster.topics.values(), *self.cluster.deleted):
            if topic.name in (EVENT, ORDERS):
                is_there = topic.name in there and self.cluster.topics.get(topic.name) is topic
                for log in topic.logs:
                    yield log, topic.id, is_there

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
        """Each visible record was written in the transaction that committed its origin's offset."""
        for name in (TRIGGER, STATE, ACTION, DEAD_LETTER):
            for log in self.cluster.topics[name].logs:
                for offset, entry in log.history():
                    where = f"{log.tp}@{offset}"
                    if entry.key == b"clock":  # written for its timestamp, read by nobody
                        continue
                    if entry.transaction is None:
                        if (
                            name != ACTION
                            or decode_json(ActionRecord, entry.value or b"", where).state == "fired"
                        ):
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
        """Offsets never go back, and end at the logs' ends; all partitions have applied the registry."""
        registered = max((instance.offset for instance in self.instances), default=-1)
        for tp, commits in self.cluster.group.history.items():
            for number, ((_, before), (_, after)) in enumerate(pairwise(commits), 1):
                back = after.offset < before.offset and self.world.forgotten.get(tp) != number
                if back and _topic_id(before) == _topic_id(after):
                    self.wrong("I2", f"the offset of {tp} went from {before.offset} to {after.offset}")
                if '"g":[[' in before.metadata:
                    self._count_scans(before, after)
        for log in (*self._sources(), *self.cluster.topics[TRIGGER].logs):
            committed = self.cluster.group.offsets.get(log.tp)
            if committed is None:
                self.wrong("I2", f"{log.tp} has no committed offset")
                continue
            if committed.offset != log.end:
                self.wrong("I2", f"the committed offset of {log.tp} is {committed.offset} of {log.end}")
            metadata = decode_json(OffsetMetadata, committed.metadata, str(log.tp))
            if registered >= metadata.applied or metadata.scans:
                self.wrong("I2", f"{log.tp}: {committed.metadata}, with a registration at {registered}")

    def _count_scans(self, before: Committed, after: Committed) -> None:
        """Counts what happened to scans in progress, for the coverage of a run."""
        old, new = (decode_json(OffsetMetadata, each.metadata, "") for each in (before, after))
        seen = self.world.seen
        if new.scans and old.committer != new.committer:
            seen["scan that another owner continued"] += 1
        ends = {start: (end, position) for start, end, position in new.scans}
        for start, end, _ in old.scans:
            seen["scan shared by several"] += sum(start <= offset < end for offset in self.by_place) > 1
            if start in ends and ends[start][0] > end:
                seen["scan that another registration joined"] += 1
        seen["scans at several positions"] += len({position for _, _, position in old.scans}) > 1

    def _i3_i4_matches(self) -> None:
        """Each qualifying event once for each registration in force, in order; and no other."""
        needed: dict[Place, tuple[int, ...]] = {}
        allowed: dict[Place, tuple[int, ...]] = {}
        events: dict[tuple[TopicPartition, str, int], tuple[Event, int]] = {}
        for log, topic_id, is_there in self._sources_ever():
            for offset, entry in log.history():
                event = self._event(log, offset, entry)
                if event is None:
                    continue
                events[log.tp, topic_id, offset] = (event, entry.timestamp_ms)
                for instance in self.instances:
                    if entry.timestamp_ms < instance.registration.since_ms:
                        continue
                    removed = self.world.cleaning.removed_at.get((log.tp, offset))
                    for key, numbers in instance.targets(event, entry.timestamp_ms).items():
                        place = Place(instance, log.tp, topic_id, offset, key)
                        allowed[place] = numbers
                        if (
                            is_there
                            and instance.in_force
                            and (log.tp, offset) not in self.world.lethal.places
                            and (removed is None or _had_seen(removed, instance, offset))
                        ):
                            needed[place] = numbers
        matched: set[Place] = set()
        last: dict[tuple[Instance, str, TopicPartition, str], int] = {}
        for log in self.cluster.topics[TRIGGER].logs:
            for offset, entry in log.history():
                where = f"{log.tp}@{offset}"
                match = decode_msgpack(MatchRecord, entry.value or b"", where)
                source = TopicPartition(match.topic, match.partition)
                for target in match.targets:
                    found = self.by_place.get(target.registry_offset)
                    if found is None and self._was_read_late(target):
                        self.world.seen["match for an ended registration, read late"] += 1
                        continue
                    if found is None or found.registration.incarnation != target.incarnation:
                        self.wrong("I3", f"{where} names {target}, which nobody registered there")
                        continue
                    place = Place(found, source, match.topic_id, match.offset, target.key)
                    if place in matched and self.world.forgotten:  # the marks drop it
                        self.world.seen["match that was evaluated before"] += 1
                        continue
                    matched.add(place)
                    numbers = allowed.pop(place, None)
                    needed.pop(place, None)
                    registration = found.registration
                    expected = partition_of(
                        registration.kind, registration.subscription, target.key, self.world.triggers
                    )
                    if numbers is None:
                        self.wrong("I3", f"{where}: {place} has two matches, or does not qualify")
                        continue
                    if tuple(sorted(target.matchers)) != numbers:
                        self.wrong("I3", f"{where}: {place} has matchers {target.matchers}, not {numbers}")
                    if expected != log.tp.partition:
                        self.wrong("I3", f"{where}: {place} belongs into partition {expected}")
                    order = (found, target.key, source, match.topic_id)
                    if last.get(order, -1) >= match.offset:
                        self.wrong("I4", f"{where}: {place} comes after @{last[order]}")
                    last[order] = match.offset
                    event, stamp = events[source, match.topic_id, match.offset]
                    if stamp != match.timestamp_ms or match.event != event:
                        self.wrong("I3", f"{where}: {place} holds another event or time")
                    entered = Match(event, numbers, *source, match.offset, stamp)
                    if (log.tp, offset) in self.world.lethal.places:
                        continue  # it is not evaluated
                    self.entered[log.tp.partition].append((offset, found, target.key, entered))
        for place in needed:
            self.wrong("I3", f"{place} is missing")

    def _i6_firings(self) -> None:
        """Each transaction of a trigger partition holds what `step` gives for its matches and ticks (I5, I7).

        The states that it wrote are compared as well; from them comes the time of a tick.
        """
        states: dict[Transaction, list[tuple[int, Entry]]] = defaultdict(list)
        actions: dict[Transaction, list[tuple[int, ActionRecord]]] = defaultdict(list)
        for log in self.cluster.topics[STATE].logs:
            for _, entry in log.history():
                if entry.transaction is not None and entry.key != b"clock":
                    states[entry.transaction].append((log.tp.partition, entry))
        for log in self.cluster.topics[ACTION].logs:
            for offset, entry in log.history():
                if entry.transaction is not None:
                    action = decode_json(ActionRecord, entry.value or b"", f"{log.tp}@{offset}")
                    actions[entry.transaction].append((log.tp.partition, action))
        for partition in range(self.world.triggers):
            follower = Follower(self, partition)
            for transaction, committed in self.cluster.group.history.get(
                TopicPartition(TRIGGER, partition), ()
            ):
                follower.follow(
                    transaction,
                    committed.offset,
                    [entry for number, entry in states[transaction] if number == partition],
                    [action for number, action in actions[transaction] if number == partition],
                )
            follower.end()

    def _was_read_late(self, target: MatchTarget) -> bool:
        """Whether it names a repeated registration, the only record that compaction left for a late reader.

        The registration has ended: the null value after that record drops the match.
        """
        for offset, entry in self._log(REGISTRY).history():
            if offset == target.registry_offset:
                key = (entry.key or b"").decode().partition(":")[0]
                return key == target.incarnation and any(
                    each.registration.incarnation == key and not each.in_force and each.offset < offset
                    for each in self.instances
                )
        return False

    def _i8_dead_letters(self) -> None:
        """Each unreadable record is in the dead letters once, and nothing else is."""
        needed: Counter[str] = Counter()
        for log in self._sources():
            for offset, entry in log.history():
                if self._event(log, offset, entry) is None:
                    needed[f"{log.tp}@{offset}"] += 1
        lethal = set()
        for tp, at in self.world.lethal.places:
            if any(offset == at for offset, _ in self._log(tp).history()):
                lethal.add(f"{tp}@{at}")
                needed[f"{tp}@{at}"] = 1
        reported: set[str] = set()
        for log in self.cluster.topics[DEAD_LETTER].logs:
            for offset, entry in log.history():
                headers = dict(entry.headers or ())
                origin = (headers.get("interlock_origin") or b"").decode()
                if not needed[origin] and origin in reported and self.world.forgotten:
                    continue
                reported.add(origin)
                if not needed[origin]:
                    reason = (headers.get("interlock_reason") or b"").decode()
                    self.wrong("I8", f"{log.tp}@{offset} holds {origin}, which should not be there: {reason}")
                needed[origin] -= 1
                attempts, expected = headers.get("interlock_attempts"), MOST_TRIES if origin in lethal else 1
                if attempts != str(expected).encode():
                    self.wrong("I8", f"{log.tp}@{offset} holds {origin} with {attempts!r} attempts")
        for origin in +needed:
            self.wrong("I8", f"{origin} cannot be read, and is not in the dead letters")

    def _attempts(self) -> None:
        """No record is blamed for a process that stopped cleanly or continued; none kills too many."""
        troubled = self.world.troubled
        for tp, commits in self.cluster.group.history.items():
            for _, committed in commits:
                if not committed.metadata:
                    continue
                metadata = decode_json(OffsetMetadata, committed.metadata, str(tp))
                suspected, committer = metadata.suspects, process_of(metadata.committer)
                for name in suspected.ended if suspected else ():
                    self.world.seen["process end that was counted"] += 1
                    if process_of(name) == committer or process_of(name) not in troubled:
                        self.wrong("attempts", f"{tp}@{suspected.at} is blamed for {name}")
        unrelated = max(0, len(troubled) - self.world.lethal.killed.total())
        for (tp, offset), count in self.world.lethal.killed.items():
            # An end by anything else, also by a record of another partition, shifts the suspicion: all widths
            # may be tried once more (suspects.md).
            others = unrelated + sum(n for (other, _), n in self.world.lethal.killed.items() if other != tp)
            most = MOST_KILLED * (2 if self.world.forgotten else 1) + len(WIDTHS) * others
            self.world.seen[f"record that killed {count}"] += 1
            if count > most:
                self.wrong("attempts", f"{tp}@{offset} killed {count} processes")

    def _i10_state(self) -> None:
        """No state is kept for removed registrations and closed one-shots."""
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
                    self.wrong(
                        "I10", f"{log.tp}@{offset}: state of {key!r} of a closed {in_force[incarnation]}"
                    )


def _topic_id(committed: Committed) -> str:
    return decode_json(OffsetMetadata, committed.metadata, "").topic_id


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _origin(entry: Entry) -> TopicPartition:
    """The partition that a dead letter says it came from."""
    text = (dict(entry.headers or ()).get("interlock_origin") or b"").decode()
    topic, _, rest = text.rpartition("[")
    return TopicPartition(topic, int(rest.partition("]")[0]))
