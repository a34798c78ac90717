"""A world: brokers, engines, users and faults, all from one seed. It uses no clock, hash order or I/O.

The random phase makes actions by chance, or repeats a list of them; the drain phase has no faults, and ends
when nothing changes any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.protocol import outputs
from interlock.engine.protocol.housekeeping import SETTLED_S
from interlock.engine.protocol.parts import Parts
from interlock.engine.protocol.poison import suspects as attempts
from interlock.engine.protocol.poison.suspects import process_of
from interlock.engine.records import (
    BUS_KEY,
    ActionRecord,
    BusRecord,
    LeaseRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    decode_json,
    encode_json,
    registry_key,
)
from interlock.events.event import Event
from interlock.events.kafka import encode

from tests.kit.kafka import Log
from tests.kit.made_of import REAL, MadeOf
from tests.simulation.actors import CONFIG, Actor, Crash
from tests.simulation.subscriptions import (
    KEYS,
    TYPES,
    UNKEYED,
    WITH_TIMERS,
    WITHOUT_TIMERS,
    Wanted,
)
from tests.simulation.waiting import EVERY, TURN, Waiting

Action: TypeAlias = tuple[str | int, ...]

EVENT, TRIGGER, STATE, ACTION, REGISTRY_TOPIC, DEAD_LETTER = (
    CONFIG.topic(kind) for kind in ("event", "trigger", "state", "action", "subscription", "dead-letter")
)
REGISTRY: Final = TopicPartition(REGISTRY_TOPIC, 0)
ORDERS: Final = "orders"  # a topic that the bus may list; its producers may set its timestamps
PASS_RECORDS: Final = outputs.MAX_PASS_RECORDS
FEW: Final = 4
WIDTHS: Final = attempts.WIDTHS
AT_ONCE_ALONE: Final = ()
STEPS: Final = 120
STEP_MS: Final = 40
WAIT_STEPS: Final = 60
DRAIN_ROUNDS: Final = 400
ROUND_MS: Final = 600
QUIET_ROUNDS: Final = 4
BEYOND_TIMERS_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
LETHAL: Final = 0.15  # the share of worlds with records that kill each process which works on them

# What happens, and how often.
CHANCES: Final[tuple[tuple[str, int], ...]] = (
    ("run", 250),
    ("into", 190),
    ("emit", 170),
    ("mark", 170),
    ("register", 45),
    ("again", 8),
    ("change", 10),
    ("clear", 8),
    ("remove", 8),
    ("race", 8),
    ("acknowledge", 14),
    ("poison", 5),
    ("clock", 80),
    ("compact", 24),
    ("retain", 4),
    ("rebalance", 8),
    ("kick", 16),
    ("crash", 16),
    ("boot", 36),
    ("stop", 4),
    ("pause", 9),
    ("resume", 24),
    ("no answer", 6),
    ("late end", 20),
    ("time out", 10),
    ("partition", 3),
    ("list", 3),
)
_NAMES, WEIGHTS = [name for name, _ in CHANCES], [weight for _, weight in CHANCES]


class Stuck(AssertionError):
    """The drain phase does not end."""


class World:
    def __init__(self, seed: int | str, made_of: MadeOf = REAL) -> None:
        self.seed = seed
        self.rng = Random(f"world {seed}")
        self.chance = Random(f"chance {seed}")
        self.cluster = made_of.cluster()
        self.seen: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.done: list[Action] = []
        # What retention removed, with what its partition had applied by then, and the scans in progress.
        self.removed_at: dict[tuple[TopicPartition, int], OffsetMetadata] = {}
        rng = self.rng
        self.sources, self.triggers = rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 2, 2, 3))
        self.listed = rng.random() < 0.3
        cluster = self.cluster
        cluster.create(EVENT, self.sources)
        cluster.create(TRIGGER, self.triggers)
        cluster.create(STATE, self.triggers, compact=True)
        cluster.create(ACTION, self.triggers, compact=True)
        cluster.create(REGISTRY_TOPIC, 1, compact=True)
        cluster.create(DEAD_LETTER, 1)
        cluster.create(ORDERS, rng.choice((1, 2)), log_append_time=rng.random() < 0.5)
        self._events = self._nonces = 0
        self._write_bus_record((ORDERS,) if self.listed else ())
        self.wanted = self._wanted()
        self._variants: dict[str, int] = {}
        self._registered: dict[str, Registration] = {}  # in force, as the user sees it
        self._first: dict[tuple[str, int], Registration] = {}  # to register again without changes
        self._nonces_of: dict[str, list[bytes]] = {}
        self._left_over: dict[bytes, int] = {}  # {key: offset of the removal that left it}
        self.with_triggerers = True  # those that are down are started again in each round
        # {partition: number of its commits before its offset expired}; it was read again from its start
        self.forgotten: dict[TopicPartition, int] = {}
        self.lethal = self._lethal()
        # {(partition, offset) of a lethal record: how many processes it has killed}
        self.killed: Counter[tuple[TopicPartition, int]] = Counter()
        made_of = replace(made_of, parts=self._with_lethal_records(made_of.parts))
        self.actors = [
            Actor(n, self, rng.choice((0.0, 0.0, -90.0, 45.0)), made_of)
            for n in range(rng.choice((1, 2, 2, 3)))
        ]
        # if a pass holds few records, the rest of a batch waits in memory
        outputs.MAX_PASS_RECORDS = FEW if rng.random() < 0.2 else PASS_RECORDS
        for actor in self.actors:
            actor.boot()
        with_waits = isinstance(seed, int) and seed % EVERY == TURN
        self.waiting = Waiting(self, seed, made_of) if with_waits else None
        for _ in range(rng.choice((0, 0, 4, 12))):  # what a look-back finds
            self._do_emit(rng.randrange(16), rng.randrange(1 << 16))
            self.cluster.now_ms += 120
        if rng.random() < 0.7:
            self._warm_up()

    def _warm_up(self) -> None:
        """Let the engines share the partitions, so that the random phase need not."""
        for actor in self.actors:
            actor.by_chance = False
        for _ in range(6):
            self.go_round()
            if all(actor.engine is not None and actor.engine.is_open for actor in self.actors):
                break
            self.cluster.now_ms += 100
        for actor in self.actors:
            actor.by_chance = True

    def _lethal(self) -> frozenset[tuple[TopicPartition, int]]:
        """Offsets at which a record, if there is one, kills the process that works on it."""
        rng = Random(f"lethal {self.seed}")
        if rng.random() >= LETHAL:
            return frozenset()
        if rng.random() < 0.6:  # so that a suspect is tried alone after the first end of a process
            attempts.WIDTHS = AT_ONCE_ALONE
        choices = [(EVENT, self.sources), (TRIGGER, self.triggers)]
        return frozenset(
            (TopicPartition(name, rng.randrange(count)), rng.randrange(8))
            for name, count in rng.choices(choices, k=rng.choice((1, 1, 2)))
        )

    def _with_lethal_records(self, parts: Parts) -> Parts:
        source_task: Any = parts.source_task
        trigger_task: Any = parts.trigger_task
        die_of = self._die_of

        class Matches(source_task):  # type: ignore[misc]
            def match(self, record: Record, *rest: Any) -> bool:
                die_of(record)
                return bool(super().match(record, *rest))

        class Processes(trigger_task):  # type: ignore[misc]
            def process(self, record: Record, *rest: Any) -> None:
                die_of(record)
                super().process(record, *rest)

        return replace(parts, source_task=Matches, trigger_task=Processes)

    def _die_of(self, record: Record) -> None:
        place = record.source, record.offset
        if place in self.lethal:
            self.killed[place] += 1
            self.say(f"{record} kills the process that works on it")
            self.seen["record that kills"] += 1
            raise Crash

    @property
    def troubled(self) -> set[str]:
        """Processes whose end, or absence, may count for a record."""
        return {process for actor in self.actors for process in actor.troubled}

    def _wanted(self) -> list[Wanted]:
        rng, wanted = self.rng, []
        # timers and windows promise nothing without LogAppendTime (docs/use/conditions.md T2, W6)
        for n in range(rng.choice((1, 2, 2, 3, 4))):
            durable = rng.random() < 0.5
            timed = rng.random() < 0.5
            pool = WITH_TIMERS if timed else WITHOUT_TIMERS
            key: str | None = None
            if not durable:
                key = rng.choice(KEYS)
            if rng.random() < 0.3:
                pool, key = UNKEYED, None
            variants = tuple(rng.choice(pool) for _ in range(3 if durable else 1))
            back = rng.choice((-3_000, 0, 150, 800, 2_000, 5_000, HOUR_MS, HOUR_MS))
            wanted.append(Wanted(f"s{n}", "durable" if durable else "one-shot", variants, key, back))
        return wanted

    def say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{len(self.trace) + 1:4} {self._clock_text()} {what}")

    def _clock_text(self) -> str:
        return f"{(self.cluster.now_ms - 1_000_000_000_000) / 1000:9.3f}"

    # -- the phases

    def play(self, steps: int = STEPS) -> None:
        """The random phase."""
        rng = self.rng
        for n in range(steps):
            if self.waiting is not None and n % 2:
                self._act(("waits", *self.waiting.choose()))
            name = rng.choices(_NAMES, WEIGHTS)[0]
            self._act((name, *self._arguments(name)))
        if self.waiting is not None:
            self._play_waits(self.waiting)

    def _play_waits(self, waiting: Waiting) -> None:
        """Delivers what has fired by now, while engines continue."""
        for n in range(WAIT_STEPS):
            self._act(("waits", *waiting.choose()))
            if n % 6 == 0:
                self._act(("boot", n, 0))
                self._act(("run", n // 6 % len(self.actors), 64))
                self._act(("mark", 0, 1))

    def replay(self, actions: list[Action]) -> None:
        for action in actions:
            self._act(action)

    def _act(self, action: Action) -> None:
        if self.act(action):
            self.done.append(action)

    def _arguments(self, name: str) -> tuple[int, ...]:
        rng = self.rng
        if name == "run":
            return (rng.randrange(len(self.actors)), rng.choice((1, 2, 4, 8, 16, 16, 32, 64)))
        if name == "into":
            return (rng.randrange(len(self.actors)), rng.choice((0, 1, 1, 2, 3, 4, 6)))
        if name == "clock":
            return (rng.choice((1, 60, 60, 120, 250, 250, 600, 1100, 1100, 3000, 7000, 16000)),)
        return (rng.randrange(1 << 16), rng.randrange(1 << 16))

    def act(self, action: Action) -> bool:
        """Carries out an action; False if it does not apply now."""
        name, *arguments = action
        method = getattr(self, "_do_" + str(name).replace(" ", "_"))
        return bool(method(*arguments))

    def drain(self) -> None:
        """Runs without faults until nothing changes, moves the clock beyond the timers, and runs again."""
        self.say("-- drain")
        cluster = self.cluster
        for actor in self.actors:
            actor.by_chance = False
            if actor.state == "down":
                actor.boot()
            actor.state = "up"
        if self.waiting is not None:
            self.waiting.mend()
        cluster.in_flight.clear()
        self.settle()
        cluster.now_ms += BEYOND_TIMERS_MS
        self.settle()
        if self.waiting is not None:  # the trigger ended last may have replaced a wait, which must notice it
            cluster.now_ms += BEYOND_TIMERS_MS
            self.settle()

    def age(self) -> None:
        """After the drain: the process that writes the leases is killed, and a month goes by."""
        self._do_lease(0, 0)
        self.say("-- a month goes by")
        for ms in (25 * HOUR_MS, 31 * 24 * HOUR_MS):
            self.cluster.now_ms += ms
            self.settle()
            self.cluster.now_ms += int(SETTLED_S * 1000)  # an engine that has just started sweeps no sooner
            self.settle()

    def settle(self) -> None:
        """Runs rounds until nothing changes."""
        quiet, before = 0, None
        for _ in range(DRAIN_ROUNDS):
            self.go_round()
            now = self.durable()
            quiet = quiet + 1 if now == before else 0
            before = now
            if quiet >= QUIET_ROUNDS:
                return
            self.cluster.now_ms += ROUND_MS
        raise Stuck(f"After {DRAIN_ROUNDS} rounds something still changes, or waits: {before}")

    def go_round(self) -> None:
        """Brokers do what is due, and each engine continues."""
        self.end_the_dead()
        for actor in self.actors:
            self._mark_all()
            if actor.state == "down":
                actor.boot()
            if actor.state == "up":
                actor.run(400)
        if self.waiting is not None:
            self.waiting.go_round(boot=self.with_triggerers)
        self._mark_all()

    def end_the_dead(self) -> None:
        """Brokers end sessions and transactions of those that are gone."""
        for member in self._dead_members():
            self.say(f"the session of {member} is over")
            self.cluster.leave(member)
        for transaction in self.cluster.overdue():
            self.say(f"{transaction} has timed out")
            self.cluster.time_out(transaction)
        self._mark_all()

    def _dead_members(self) -> list[str]:
        """Members whose process, or whose bus, has ended."""
        names = {actor.bus.transactional_id for actor in self.actors if actor.bus is not None}
        return [member.id for member in self.cluster.group.members.values() if member.client not in names]

    def _mark_all(self) -> None:
        for transaction, target in self.cluster.unmarked():
            self.cluster.mark(transaction, target)

    def durable(self) -> tuple[object, ...]:
        """The stored state, which differs if anything has changed."""
        cluster = self.cluster
        return (
            tuple((name, log.end, log.start) for name, topic in cluster.topics.items() for log in topic.logs),
            tuple(cluster.group.offsets.items()),
            cluster.group.generation,
            () if self.waiting is None else self.waiting.facts(),
        )

    def finish(self) -> None:
        """End all processes."""
        outputs.MAX_PASS_RECORDS = PASS_RECORDS
        attempts.WIDTHS = WIDTHS
        if self.waiting is not None:
            self.waiting.finish()
        for actor in self.actors:
            if actor.state != "down":
                actor.crash()

    # -- engines and brokers

    def _do_run(self, n: int, steps: int) -> bool:
        actor = self.actors[n]
        self._supervise(actor)
        if actor.state != "up":
            return False
        self.cluster.now_ms += STEP_MS
        actor.run(steps)
        return True

    def _do_into(self, n: int, steps: int) -> bool:
        """An engine runs until it is inside a commit, and stays there for the next action."""
        actor = self.actors[n]
        self._supervise(actor)
        if actor.state != "up":
            return False
        self.cluster.now_ms += STEP_MS
        actor.run_into(steps)
        return True

    def _supervise(self, actor: Actor) -> None:
        """If records kill, starts dead engines again, so that some can be killed; brokers notice the dead."""
        if self.lethal and actor.state == "down":
            for member in self._dead_members():
                self.cluster.leave(member)
            actor.boot()

    def _do_mark(self, n: int, few: int) -> bool:
        found = self.cluster.unmarked()
        if not found:
            return False
        transaction, target = found[n % len(found)]
        for each in (target,) if few % 4 == 0 else tuple(transaction.unmarked):
            self.cluster.mark(transaction, each)
            place = each.tp if each else "the offsets"
            self.say(f"marker of {transaction} in {place}: {transaction.decision}")
        return True

    def _do_clock(self, ms: int) -> bool:
        self.cluster.now_ms += ms
        return True

    def _do_compact(self, n: int, below: int) -> bool:
        topic = self.cluster.topics[(STATE, STATE, ACTION, REGISTRY_TOPIC)[n % 4]]
        log = topic.logs[n // 4 % len(topic.logs)]
        if not log.end or (log.tp == REGISTRY and self.waiting is not None):
            return False  # what waits have read, and what they leave over, is kept for a day
        below %= log.end + 1
        expired = 0
        if log.tp == REGISTRY:
            below = min(below, self._before_leftovers())
            expired = min(below, self._read_by_all()) if n % 3 == 0 else 0
        gone = self.cluster.compact(topic.name, log.tp.partition, below, expired=expired)
        if gone:
            self.say(f"{log.tp} is compacted: {gone} records are gone")
            self.seen[f"compaction of {topic.name}"] += 1
        return bool(gone)

    def _before_leftovers(self) -> int:
        """Returns where compaction of the registry must stop: at a leftover that is not removed yet."""
        values = {
            entry.key: entry.value for _, entry in self.cluster.topics[REGISTRY_TOPIC].logs[0].history()
        }
        left = [at for key, at in self._left_over.items() if values[key] is not None]
        return min(left, default=self.cluster.topics[REGISTRY_TOPIC].logs[0].end)

    def _read_by_all(self) -> int:
        """Returns how far all running engines have read the registry: brokers keep removals for a day."""
        living = [actor.engine for actor in self.actors if actor.state != "down"]
        return min((0 if engine is None else engine.registry.position for engine in living), default=1 << 62)

    def _do_retain(self, n: int, below: int) -> bool:
        """Retention removes what was consumed, whether scans have seen it or not."""
        log = self._source_log(n)
        if log.tp.topic == ORDERS:
            return False
        committed = self.cluster.group.offsets.get(log.tp)
        if committed is None or not committed.offset > log.start:
            return False
        until = log.start + 1 + below % (committed.offset - log.start)
        if any(log.tp in transaction for transaction in self.cluster.group.pending.values()):
            return False
        metadata = decode_json(OffsetMetadata, committed.metadata, str(log.tp))
        for offset in range(log.start, until):
            self.removed_at[log.tp, offset] = metadata
        self.seen["retention that overtakes a scan"] += any(at < until for _, _, at in metadata.scans)
        log.start = until
        self.say(f"retention: {log.tp} begins at {until}")
        self.seen["retention"] += 1
        return True

    def _do_rebalance(self, _: int, __: int) -> bool:
        group = self.cluster.group
        if group.preparing or not group.members:
            return False
        self.say("a rebalance begins")
        self.cluster.rebalance()
        return True

    def _do_kick(self, n: int, _: int) -> bool:
        """The session of a member is over, dead or not."""
        members = [*self.cluster.group.members]
        if not members:
            return False
        dead = [member for member in self._dead_members() if n % 4]
        member = (dead or members)[n // 4 % len(dead or members)]
        self.say(f"the session of {member} is over")
        client = self.cluster.group.members[member].client
        for actor in self.actors:
            if actor.process == process_of(client):
                actor.troubled.add(actor.process)
        self.cluster.leave(member)
        return True

    def _do_crash(self, n: int, _: int) -> bool:
        actor = self.actors[n % len(self.actors)]
        if actor.state == "down":
            return False
        self.say(f"{actor.name} is killed while it {actor.at}")
        actor.crash()
        return True

    def _do_boot(self, n: int, _: int) -> bool:
        actor = self.actors[n % len(self.actors)]
        if actor.state != "down":
            return False
        self.say(f"{actor.name} boots")
        actor.boot()
        return True

    def _do_stop(self, n: int, _: int) -> bool:
        actor = self.actors[n % len(self.actors)]
        if actor.state != "up":
            return False
        self.say(f"{actor.name} is asked to stop")
        actor.stop()
        return True

    def _do_pause(self, n: int, _: int) -> bool:
        actor = self.actors[n % len(self.actors)]
        if actor.state != "up":
            return False
        self.say(f"{actor.name} is paused while it {actor.at}")
        actor.state = "paused"
        return True

    def _do_resume(self, n: int, _: int) -> bool:
        actor = self.actors[n % len(self.actors)]
        if actor.state != "paused":
            return False
        self.say(f"{actor.name} is resumed")
        actor.state = "up"
        return True

    def _do_no_answer(self, n: int, _: int) -> bool:
        actor = self.actors[n % len(self.actors)]
        if actor.state == "down":
            return False
        actor.fail_next()
        return True

    def _do_late_end(self, n: int, lost: int) -> bool:
        found = self.cluster.in_flight
        if not found:
            return False
        request = found[n % len(found)]
        if lost % 4 == 0:
            found.remove(request)
            return True
        decided = self.cluster.end_late(request)
        self.say(f"late EndTxn of {request.transaction}: {'decides' if decided else 'changes nothing'}")
        self.seen["late EndTxn that decided"] += decided
        return True

    def _do_time_out(self, n: int, _: int) -> bool:
        found = self.cluster.overdue()
        if not found:
            return False
        transaction = found[n % len(found)]
        self.say(f"{transaction} has timed out")
        self.seen["transaction timeout"] += 1
        self.cluster.time_out(transaction)
        return True

    # -- users

    def _source_log(self, n: int) -> Log:
        logs = [*self.cluster.topics[EVENT].logs]
        if self.listed:
            logs += self.cluster.topics[ORDERS].logs
        return logs[n % len(logs)]

    def _do_waits(self, name: str, n: int, what: int) -> bool:
        return self.waiting is not None and self.waiting.act(name, n, what)

    def _do_emit(self, n: int, what: int) -> bool:
        log = self._source_log(n)
        rng = Random(what)
        if log.tp.topic == ORDERS and rng.random() < 0.6:
            stamp = self.cluster.now_ms + rng.choice((0, 0, -5_000, 2_000))
            offset, _ = self.cluster.append(log.tp, rng.choice(KEYS).encode(), b'{"n":1}', timestamp_ms=stamp)
            self.say(f"a plain record at {log.tp}@{offset}")
            return True
        self.emit(log, rng)
        return True

    def emit(self, log: Log, rng: Random) -> None:
        """Emits a new event, or an earlier one again."""
        repeat = self._events and rng.random() < 0.12
        number = rng.randrange(self._events) if repeat else self._events
        self._events += not repeat
        event = self._event(number)
        key, value, headers = encode(event)
        offset, _ = self.cluster.append(log.tp, key, value, headers, timestamp_ms=self.cluster.now_ms)
        self.seen["duplicate event"] += bool(repeat)
        self.say(f"event {event.type} {event.subject} {event.source}/{event.id} at {log.tp}@{offset}")

    def _event(self, number: int) -> Event:
        rng = Random(f"{self.seed} {number}")
        attributes = {
            "specversion": "1.0",
            "id": str(number),
            "source": rng.choice(("s0", "s0", "s1")),
            "type": rng.choice(TYPES[:2]) if rng.random() < 0.9 else "c",
            "subject": rng.choice(KEYS),
        }
        return Event(attributes, None)

    def _do_poison(self, n: int, _: int) -> bool:
        tp = TopicPartition(EVENT, n % len(self.cluster.topics[EVENT].logs))
        offset, _ = self.cluster.append(tp, b"k", b"\xff", [("ce_id", b"x")])
        self.say(f"poison at {tp}@{offset}")
        self.seen["poison"] += 1
        return True

    def write_registry(self, key: bytes, value: bytes | None) -> int:
        return self.cluster.append(REGISTRY, key, value)[0]

    def _write_bus_record(self, topics: tuple[str, ...]) -> None:
        ids = {
            kind: self.cluster.topics[CONFIG.topic(kind)].id
            for kind in ("trigger", "state", "action", "subscription")
        }
        record = BusRecord(partitions=self.triggers, topics=topics, cloudevents=topics, topic_ids=ids)
        self.write_registry(BUS_KEY, encode_json(record))

    def delist(self, name: str, partitions: int) -> None:
        """Takes a topic off the bus's list."""
        self.listed = False
        self._write_bus_record(())
        for number in range(partitions):
            self.write_registry(registry_key("source", name, number), None)

    def _register(self, wanted: Wanted) -> None:
        variant = self._variants.get(wanted.name, 0)
        # a wait keeps its `since`: what is registered again is the same incarnation
        registration = self._first.get((wanted.name, variant))
        if registration is None:
            registration = wanted.registration(variant, self.cluster.now_ms)
            self._first[wanted.name, variant] = registration
        self._nonces += 1
        key = RegistrationKey(registration.incarnation, f"n{self._nonces}").encode()
        offset = self.write_registry(key, encode_json(registration))
        self._registered[wanted.name] = registration
        self._nonces_of.setdefault(wanted.name, []).append(key)
        self.say(
            f"registers {wanted.kind} {wanted.name} {registration.incarnation[:6]} key={wanted.key} "
            f"since {registration.since_ms - 1_000_000_000_000} at {REGISTRY}@{offset}: "
            f"{registration.build_condition()}"
        )

    def _do_register(self, n: int, _: int) -> bool:
        wanted = self.wanted[n % len(self.wanted)]
        if wanted.name in self._registered:
            return False
        self._register(wanted)
        return True

    def _do_again(self, n: int, _: int) -> bool:
        """The same registration once more, with another nonce."""
        wanted = self.wanted[n % len(self.wanted)]
        if wanted.name not in self._registered:
            return False
        self._register(wanted)
        self.seen["registered again"] += 1
        return True

    def _do_change(self, n: int, _: int) -> bool:
        """A durable subscription with another condition."""
        wanted = self.wanted[n % len(self.wanted)]
        if wanted.name not in self._registered or wanted.kind != "durable":
            return False
        self._variants[wanted.name] = self._variants.get(wanted.name, 0) + 1
        before = self._registered[wanted.name].incarnation
        self._register(wanted)
        self.seen["durable changed"] += self._registered[wanted.name].incarnation != before
        return True

    def _do_clear(self, n: int, _: int) -> bool:
        """A task that waits is cleared: another incarnation takes the place of its registration."""
        wanted = self.wanted[n % len(self.wanted)]
        if wanted.name not in self._registered or wanted.kind != "one-shot":
            return False
        self._variants[wanted.name] = self._variants.get(wanted.name, 0) + 1
        self._register(wanted)
        self.seen["one-shot cleared"] += 1
        return True

    def _do_race(self, n: int, what: int) -> bool:
        """A process removes the keys it knows; another registers the same meanwhile, perhaps twice."""
        names = [*self._registered]
        if not names:
            return False
        name = names[n % len(names)]
        wanted = next(each for each in self.wanted if each.name == name)
        known = [*self._nonces_of[name]]
        self._register(wanted)
        unknown = self._nonces_of[name][-1]
        self._remove(name, known)
        self._nonces_of[name] = [unknown]
        self._left_over[unknown] = self.cluster.topics[REGISTRY_TOPIC].logs[0].end - len(known)
        if what % 4:
            self._register(wanted)
        self.seen["registration during a removal"] += 1
        return True

    def _remove(self, name: str, known: list[bytes] | None = None) -> None:
        del self._registered[name]
        for key in known or self._nonces_of.pop(name):
            offset = self.write_registry(key, None)
            self.say(f"removes {name} {key.decode()[:6]} at {REGISTRY}@{offset}")

    def _do_remove(self, n: int, _: int) -> bool:
        names = [*self._registered]
        if not names:
            return False
        self._remove(names[n % len(names)])
        self.seen["removed"] += 1
        return True

    def _do_acknowledge(self, n: int, _: int) -> bool:
        """A task has resumed: its firing is acknowledged, and its registration goes."""
        for log in self.cluster.topics[ACTION].logs:
            records, _ = log.read(0, 1 << 30)
            for record in records:
                action = decode_json(ActionRecord, record.value or b"", str(record))
                registration = self._registered.get(action.subscription)
                if (
                    action.kind == "one-shot"
                    and action.state == "fired"
                    and registration is not None
                    and registration.incarnation == action.incarnation
                ):
                    acked = msgspec.structs.replace(action, state="acked")
                    self.cluster.append(log.tp, record.key, encode_json(acked))
                    self.say(f"{action.subscription} is acknowledged")
                    self._remove(action.subscription)
                    self.seen["acknowledged"] += 1
                    return True
        return False

    def _do_lease(self, _: int, __: int) -> bool:
        names = [registration.incarnation for registration in self._registered.values()]
        lease = LeaseRecord(deployment="d", incarnations=names, host="h")
        self.write_registry(b"lease/p/0", encode_json(lease))
        return True

    def _do_partition(self, n: int, what: int) -> bool:
        """Adds a partition to a source topic."""
        name = ORDERS if self.listed and n % 2 else EVENT
        count = len(self.cluster.topics[name].logs)
        if count >= 4:
            return False
        self.cluster.add_partitions(name, count + 1)
        self.say(f"{name} has {count + 1} partitions")
        if what % 2 and name == EVENT:
            self.emit(self.cluster.topics[name].logs[count], Random(what))
        self.seen["partition added"] += 1
        return True

    def _do_list(self, _: int, __: int) -> bool:
        """The bus record lists another topic."""
        if self.listed:
            return False
        self.listed = True
        self._write_bus_record((ORDERS,))
        self.say(f"{ORDERS} is listed")
        self.seen["topic listed"] += 1
        return True
