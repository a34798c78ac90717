"""A registry topic with compaction, processes that wait and lease, engines that sweep, and an oracle.

Hours stand for days: `LEASED_S` is an hour. The processes' leases and the engines' sweeps are the real ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from interlock import event
from interlock.engine.bus import End, Headers, Record, TopicPartition
from interlock.engine.protocol.housekeeping import SETTLED_S, Housekeeping
from interlock.engine.records import Registration, RegistrationKey, encode_json, partition_of
from interlock.engine.registry.first_read import FirstRead
from interlock.engine.registry.lazy import LazyRegistry
from interlock.engine.registry.registry import Registry
from interlock.engine.waiting.lease_writer import LEASE_S, LeaseWriter, ProcessLeases

TOPIC: Final = TopicPartition("b-subscription", 0)
LEASED_S: Final = 3600
MOST_PAUSE_S: Final = LEASED_S // 4  # then a reader reads again from the start
STEPS_S: Final = (5, 5, 20, 60, 100)
LATE_S: Final = 2 * max(STEPS_S)  # what was decided is done, and read by the others
RENEWED_S: Final = int(LEASE_S) + LATE_S
RELEASED_S: Final = (
    3 * RENEWED_S
)  # two renewals, and one more if the connection breaks just before the second
REGISTER_AGAIN_S: Final = 30
PARTITIONS: Final = 2
ONE: Final = Registration.of("w", event("x"), None, 0)
NAMES: Final = [f"{n:032x}" for n in range(10)]


@dataclass(frozen=True)
class Faults:
    """How likely each is. lost: of the records of processes, but never two in a row. slow: of connections
    whose records arrive late. full: of calls in which a client takes one record.
    """

    lost: float = 0.0
    slow: float = 0.0
    full: float = 0.0


@dataclass(eq=False)
class Connection:
    """What one thread of a process writes and has read. It may hang while the next one goes on."""

    registry: Registry
    writer: LeaseWriter | None = None
    sent: deque[tuple[float, bytes, bytes | None]] = field(default_factory=deque)
    slow_s: float = 0.0
    sent_at: dict[str, float] = field(default_factory=dict)  # registrations


@dataclass(eq=False)
class Process:
    """closing: how long the process has run since it ended a wait."""

    leases: ProcessLeases
    connection: Connection
    waited: dict[str, float] = field(default_factory=dict)  # since when
    own_keys: dict[str, set[bytes]] = field(default_factory=dict)
    closing: dict[str, float] = field(default_factory=dict)
    active_s: float = 0.0
    asleep_until: float = 0.0
    read_at: float = 0.0
    room: int = 10**6
    lost_last: bool = False


@dataclass(eq=False)
class Engine:
    registry: Registry
    number: int
    started_at: float
    housekeeping: Housekeeping = field(init=False)


@dataclass
class Swept:
    """What one sweep writes, in place of `Outputs`."""

    room: int
    written: list[tuple[bytes, Headers | None]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.written) >= self.room

    def write(
        self, kind: str, partition: int, key: bytes, value: None, headers: Headers | None = None
    ) -> None:
        assert (kind, partition, value) == ("subscription", 0, None)
        self.written.append((key, headers))


class World:
    def __init__(self, seed: int, faults: Faults) -> None:
        self.rng, self.faults = Random(seed), faults
        self.faultless = faults == Faults()
        self.times = 1 if self.faultless else 4  # how many renewal intervals it takes what one would
        self.now = 1_000_000.0
        self.log: list[Record] = []
        self.end = 0
        self.eager, self.lazy = Registry(), LazyRegistry()
        self.processes: list[Process] = []
        self.connections: list[Connection] = []
        self.engines: list[Engine | None] = [None] * PARTITIONS
        self.kept: dict[str, float] = {}  # when something certainly leased it
        self.held: dict[str, float] = {}  # when something may have leased it
        self.counts: dict[str, int] = {}  # of what happened, for who runs many histories
        self.told: list[str] = []  # faults
        self.numbers = 0

    # -- the topic

    def append(self, key: bytes, value: bytes | None, headers: Headers | None = None) -> None:
        record = Record(TOPIC, self.end, int(self.now * 1000), key, value, headers)
        self.end += 1
        self.log.append(record)
        name, colon, _ = key.decode().partition(":")
        if colon and value is not None:  # leases of ended waits may name it
            for process in self.processes:
                if name not in process.waited:
                    process.closing[name] = 0.0
        for registry in (self.eager, self.lazy):
            registry.apply(record)
            registry.apply(End(TOPIC, self.end))

    def compacted(self, share: float) -> list[Record]:
        """The log if brokers have cleaned this share of it, from its start."""
        last = {record.key: record.offset for record in self.log}
        kept = []
        for record in self.log:
            old = self.now * 1000 - record.timestamp_ms > LEASED_S * 1000
            may_go = old and (record.value is None or last[record.key] != record.offset)
            if not may_go or record.offset >= self.end * share:
                kept.append(record)
        return kept

    def read(self, registry: Registry, least: int = 0) -> None:
        """Read to the end, or not to the end."""
        until = self.end if self.rng.random() < 0.9 else self.rng.randrange(least, self.end + 1)
        for record in self.log[self._index(registry.position) :]:
            if record.offset >= until:
                break
            registry.apply(record)

    def _index(self, offset: int) -> int:
        for n in range(len(self.log), 0, -1):
            if self.log[n - 1].offset < offset:
                return n
        return 0

    def fresh(self, log: list[Record] | None = None) -> Registry:
        """What a process reads that starts now."""
        first = FirstRead(registry := Registry())
        for record in self.log if log is None else log:
            first.take(record)
        first.take(End(TOPIC, self.end))
        first.finish()
        return registry

    # -- processes

    def start(self, name: str, waited: dict[str, float] | None = None) -> Process:
        process = Process(ProcessLeases(name), Connection(Registry()), waited or {}, read_at=self.now)
        process.closing = {each: 0.0 for each in NAMES if each not in process.waited}  # of an earlier one
        self.processes.append(process)
        self.connect(process)
        return process

    def connect(self, process: Process) -> None:
        connection = process.connection = Connection(self.fresh())
        self.connections.append(connection)
        if self.rng.random() < self.faults.slow:
            connection.slow_s = 600

        def write(key: bytes, value: bytes | None) -> bool:
            if process.connection is not connection or process.room <= 0:
                return False
            process.room -= 1
            process.lost_last = not process.lost_last and self.rng.random() < self.faults.lost
            if not process.lost_last:
                due = self.now + self.rng.uniform(0, connection.slow_s)
                if connection.sent:
                    due = max(due, connection.sent[-1][0])
                connection.sent.append((due, key, value))
            return True

        connection.writer = LeaseWriter("d", write, process.leases, lambda: self.now)
        process.read_at = self.now

    def deliver(self) -> None:
        for connection in self.connections:
            while connection.sent and connection.sent[0][0] <= self.now:
                _, key, value = connection.sent.popleft()
                self.append(key, value)
        self.connections = [
            each
            for each in self.connections
            if each.sent or any(process.connection is each for process in self.processes)
        ]

    def run_process(self, process: Process) -> None:
        if process.asleep_until > self.now:
            process.active_s = 0.0
            return
        if self.now - process.read_at > MOST_PAUSE_S:
            self.connect(process)
        connection = process.connection
        assert connection.writer is not None
        self.read(connection.registry, connection.registry.position)
        process.read_at = self.now
        for name in process.waited:
            sent_at = connection.sent_at.get(name, 0.0)
            if connection.registry.get(name) is None and self.now - sent_at > REGISTER_AGAIN_S:
                connection.sent_at[name] = self.now
                self.numbers += 1
                key = RegistrationKey(name, str(self.numbers)).encode()
                process.own_keys.setdefault(name, set()).add(key)
                one = msgspec.structs.replace(ONE, subscription=name, incarnation=name)
                connection.sent.append((self.now, key, encode_json(one)))
        process.room = 1 if self.rng.random() < self.faults.full else 10**6
        connection.writer.lease(set(process.waited), connection.registry)

    def open(self, process: Process, name: str) -> None:
        process.waited.setdefault(name, self.now)
        process.closing.pop(name, None)

    def close(self, process: Process, name: str) -> None:
        if process.waited.pop(name, None) is not None:
            process.closing[name] = 0.0

    def finish(self, process: Process, name: str) -> None:
        """The wait is over: its task removes the keys that its trigger knew."""
        self.close(process, name)
        for key in sorted(process.connection.registry.keys(name) | process.own_keys.pop(name, set())):
            self.append(key, None)

    def kill(self, process: Process) -> None:
        self.processes.remove(process)
        sent = process.connection.sent
        for _ in range(self.rng.randrange(len(sent) + 1)):
            sent.pop()

    def stop(self, process: Process) -> None:
        assert process.connection.writer is not None
        process.room = 10**6
        process.connection.writer.end(process.connection.registry)
        self.processes.remove(process)

    # -- engines

    def start_engine(self, number: int) -> None:
        engine = Engine(self.fresh(), number, self.now)
        clock = SimpleNamespace(fresh=True, now_ms=lambda: int(self.now * 1000))
        context = SimpleNamespace(
            bus=None,
            config=SimpleNamespace(topic=lambda kind: f"b-{kind}"),
            registry=engine.registry,
            clock=clock,
            monotonic=lambda: self.now,
            partitions=PARTITIONS,
        )
        owned = SimpleNamespace(triggers={TopicPartition("b-trigger", number)})
        engine.housekeeping = Housekeeping(
            cast(Any, context), cast(Any, owned), cast(Any, None), lambda: None
        )
        self.engines[number] = engine

    def sweep(self, engine: Engine) -> None:
        self.read(engine.registry, engine.registry.position)
        out = Swept(room=2 if self.rng.random() < 0.1 else 10**6)
        engine.housekeeping.sweep(cast(Any, out))
        removed = sorted({key.decode().partition(":")[0] for key, h in out.written if b":" in key and not h})
        for name in removed:
            self.count("orphans")
            since_s = self.now - self.kept.get(name, 0.0)
            if since_s < LEASED_S - RENEWED_S * self.times:
                self.tell(f"{name[-1]} was removed, leased {since_s:.0f} s ago")
        for key, headers in out.written:
            if key.startswith((b"lease/", b"renewal/")):
                self.count("swept")
            self.append(key, None, headers)

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    def tell(self, fault: str) -> None:
        self.told.append(f"{self.now:.0f}: {fault}")

    # -- time

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        self.deliver()
        for process in self.rng.sample(self.processes, len(self.processes)):
            self.run_process(process)
        self.deliver()
        for engine in self.engines:
            if engine is not None:
                self.sweep(engine)
        self._note(seconds)
        self._check()

    def _note(self, seconds: float) -> None:
        certain_s = RENEWED_S * self.times
        for process in self.processes:
            for name in process.waited:
                self.held[name] = self.now
            for name in process.closing:
                if process.closing[name] < RELEASED_S * self.times:
                    self.held[name] = self.now
            if process.asleep_until > self.now:
                continue
            process.active_s += seconds
            for name in process.closing:
                process.closing[name] += seconds
            for name, since in process.waited.items():
                if min(self.now - since, process.active_s) >= certain_s:
                    self.kept[name] = self.now

    def _check(self) -> None:
        before_ms = int((self.now - LEASED_S) * 1000)
        for name in NAMES:
            found = self.eager.get(name)
            if found is None:
                continue
            engine = self.engines[partition_of("one-shot", name, "", PARTITIONS)]
            last = max(self.held.get(name, 0.0), found.timestamp_ms / 1000)
            if (
                engine is not None
                and self.now - engine.started_at > SETTLED_S + 3 * LATE_S
                and self.now - last > LEASED_S + 3 * LATE_S
            ):
                self.tell(f"{name[-1]} is not removed, not waited for since {self.now - last:.0f} s")
                self.held[name] = self.now
            if self.faultless:
                self._check_holders(name)
        if self.rng.random() < 0.02:
            self.compare(before_ms)

    def _check_holders(self, name: str) -> None:
        since_ms = (self.now - RENEWED_S) * 1000
        shown = {h.process for h in self.eager.leases.of(name) if h.renewed_ms > since_ms}
        for process in self.processes:
            if process.asleep_until > self.now:
                continue
            is_shown = process.leases.process in shown
            since = process.waited.get(name)
            if since is not None and not is_shown and min(self.now - since, process.active_s) > RENEWED_S:
                self.tell(f"{name[-1]} is not shown as held by {process.leases.process}")
            if since is None and is_shown and process.closing.get(name, 0.0) > RELEASED_S:
                self.tell(f"{name[-1]} is shown as held by {process.leases.process}")

    def compare(self, before_ms: int) -> None:
        """All readers agree."""
        self.count("compared")
        self.compare_with(self.log, before_ms)
        self.compare_with(self.compacted(1.0), before_ms)

    def compare_with(self, log: list[Record], before_ms: int) -> None:
        late, lazy = self.fresh(log), LazyRegistry(share=True)
        for item in (*log, End(TOPIC, self.end)):
            lazy.apply(item)
        wanted = {each.incarnation for each in self.eager.orphans(before_ms)}
        found = {each.incarnation for each in late.orphans(before_ms)}
        if wanted != found:
            self.tell(f"orphans {[n[-1] for n in sorted(wanted)]}, later {[n[-1] for n in sorted(found)]}")
        for name in NAMES:
            of = [sorted(map(str, each.leases.of(name))) for each in (self.eager, self.lazy, late, lazy)]
            if any(each != of[0] for each in of):
                self.tell(f"holders of {name[-1]}: {of}")
        old = [sorted(each.old_leases(before_ms)) for each in (self.eager, late)]
        if old[0] != old[1]:
            self.tell(f"old leases {old}")

    # -- what happens

    def step(self) -> None:
        rng = self.rng
        what = rng.choices(
            (
                "open",
                "close",
                "finish",
                "move",
                "connect",
                "hang",
                "kill",
                "stop",
                "sleep",
                "engine",
                "compact",
                "outage",
                "nothing",
            ),
            (20, 8, 8, 8, 4, 3, 2, 2, 1, 2, 2, 0.4, 60),
        )[0]
        awake = [each for each in self.processes if each.asleep_until <= self.now]
        process = rng.choice(awake) if awake else None
        if process is None:
            what = what if what in ("engine", "compact") else "nothing"
        name = rng.choice(NAMES)
        mine = rng.choice(sorted(process.waited)) if process and process.waited else None
        self.count(what)
        match what:
            case "open" if process:
                self.open(process, name)
            case "close" if process and mine:
                self.close(process, mine)
            case "finish" if process and mine:
                self.finish(process, mine)
            case "move" if process and mine:
                self.close(process, mine)
                self.open(rng.choice(awake), mine)
            case "connect" | "hang" if process:
                if what == "hang":
                    process.connection.slow_s = 600
                self.connect(process)
            case "kill" | "stop" if process:
                (self.kill if what == "kill" else self.stop)(process)
                taken = {each: self.now for each in process.waited if rng.random() < 0.7}
                same = rng.random() < 0.3
                self.numbers += 1
                self.start(process.leases.process if same else f"p{self.numbers}", taken)
            case "sleep" if process:
                process.asleep_until = self.now + rng.choice((60, 600, 2000, LEASED_S + 60, 3 * LEASED_S))
            case "engine":
                number = rng.randrange(PARTITIONS)
                if self.engines[number] is None or rng.random() < 0.5:
                    self.start_engine(number)
                else:
                    self.engines[number] = None
            case "compact":
                self.log = self.compacted(rng.random())
            case "outage":
                self.outage()
        seconds = rng.choice(STEPS_S)
        if rng.random() < 0.03:
            for _ in range(rng.randrange(60)):
                self.pass_by(rng.choice(STEPS_S))
        self.pass_by(seconds)

    def outage(self) -> None:
        """Nothing runs for more than a day; then all comes back at about the same time."""
        waited = [dict(each.waited) for each in self.processes]
        for process in list(self.processes):
            self.kill(process)
        self.engines = [None] * PARTITIONS
        self.now += self.rng.choice((LEASED_S // 2, LEASED_S + 60, 3 * LEASED_S))
        if self.rng.random() < 0.5:
            self.log = self.compacted(self.rng.random())
        for number in range(PARTITIONS):
            self.start_engine(number)
        registered = {name for name in NAMES if self.eager.get(name)}
        for names in waited:
            self.numbers += 1
            self.start(f"p{self.numbers}", dict.fromkeys(names, self.now))
        expected = registered.intersection(*([set().union(*waited)] if waited else [set()]))
        started = self.now
        while self.now - started < SETTLED_S + 120:
            self.pass_by(self.rng.choice(STEPS_S[:3]))
        if self.faultless:
            for name in sorted(expected):
                if self.eager.get(name) is None:
                    self.tell(f"{name[-1]} was removed after an outage")
