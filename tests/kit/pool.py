"""A pool of engines over Kafka in memory, with one clock that tests advance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import new_class
from typing import Any, Self

import msgspec
from interlock import Event
from interlock.engine.bus import Batch, Committed, Output, TopicPartition
from interlock.engine.config import KINDS, BusConfig
from interlock.engine.errors import TransactionAborted
from interlock.engine.protocol.context import Clocks
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    LeaseRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    RenewalRecord,
    ResumeRecord,
    SourceRecord,
    decode_json,
    encode_json,
    registry_key,
)
from interlock.events.kafka import encode

from tests.kit.bus import Alone, SimulatedBus
from tests.kit.kafka import Cluster, Log, Transaction
from tests.kit.made_of import REAL, MadeOf

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
EVENT, TRIGGER, STATE, ACTION, REGISTRY, DEAD = (
    TopicPartition(CONFIG.topic(kind), 0)
    for kind in ("event", "trigger", "state", "action", "subscription", "dead-letter")
)
PASS_MS = 60


class RecordingBus(SimulatedBus):
    """One member. `aborts`: how many commits will be refused. `calls`: the requests, in order."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, Alone(cluster), name)
        self.aborts = 0
        self.calls: list[str] = []
        self.memberships: list[object] = []
        self.most_records = 0  # of one transaction

    def poll(self, most: int, timeout_s: float) -> Batch:
        batch = super().poll(most, timeout_s)
        self.memberships.append(batch.membership)
        return batch

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self.calls.append("start")
        super().start(positions)

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        self.calls.append(f"seek {tp}")
        return super().seek(tp, offset)

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        asked = list(partitions)
        self.calls.append(f"stable {', '.join(map(str, asked))}")
        return super().stable_offsets(asked)

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, Committed | None] | None:
        self.calls.append("committed" if stable else "unstable")
        return super().committed(partitions, stable=stable)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        asked = list(partitions)
        self.calls += [f"end {tp.topic}" for tp in asked]
        return super().end_offsets(asked)

    def fence(self, transactional_id: str) -> None:
        self.calls.append(f"fence {transactional_id}")
        super().fence(transactional_id)

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        if self.aborts:
            self.aborts -= 1
            raise TransactionAborted("A rebalance in the middle.")
        assert membership is self.memberships[-1], "the membership is that of the last poll"
        self.calls.append("commit")
        self.most_records = max(self.most_records, len(outputs))
        return super().commit(outputs, offsets, membership)

    def die(self) -> None:
        """The process is killed: its session ends, and its open transaction stays open."""
        self.dead = True
        assert self._member is not None
        self.cluster.leave(self._member)


class Pool:
    """The topics of a bus, and its engines: `boot` and `run` them, then look into the topics."""

    def __init__(
        self,
        *registrations: Registration,
        partitions: int = 1,
        events: int = 1,
        topics: tuple[str, ...] = (),
        made_of: MadeOf = REAL,
    ) -> None:
        self.cluster = made_of.cluster()
        self.made_of = made_of
        planted = () if made_of.bus is SimulatedBus else (made_of.bus,)
        self._bus = new_class("Bus", (RecordingBus, *planted))
        for kind in KINDS:
            count = {"event": events, "subscription": 1, "dead-letter": 1}.get(kind, partitions)
            self.cluster.create(
                CONFIG.topic(kind), count, compact=kind in ("state", "action", "subscription")
            )
        for name in topics:
            self.cluster.create(name, 1)
        self.partitions = partitions
        self.record = BusRecord(partitions=partitions, topics=topics, cloudevents=topics)
        self.write_bus_record(self.record)
        for registration in registrations:
            self.register(registration)
        self.engines: dict[str, Engine] = {}
        self.buses: dict[str, RecordingBus] = {}
        self._made = 0

    @classmethod
    def started(cls, *registrations: Registration, **options: Any) -> Self:
        """A pool, as `Pool` makes it, whose engine "one" has read everything."""
        pool = cls(*registrations, **options)
        pool.start()
        return pool

    # -- engines

    def boot(self, name: str = "one") -> Engine:
        """A new engine, and its first pass: it asks to join."""
        engine = self.make(name)
        engine.run_pass()
        return engine

    def start(self, name: str = "one", passes: int = 30) -> Engine:
        """Returns a new engine after it and the others have run `passes` passes."""
        engine = self.boot(name)
        self.run(passes)
        return engine

    def make(self, name: str = "one") -> Engine:
        """A new engine, before its first pass."""
        self.buses[name] = bus = self._bus(self.cluster, name)
        clocks = Clocks(lambda: self.cluster.now_ms / 1000, lambda: self.cluster.now_ms / 1000)
        engine = self.made_of.engine(bus, CONFIG, parts=replace(self.made_of.parts, clocks=clocks))
        self.engines[name] = engine
        return engine

    def run(self, passes: int = 30, *names: str, pass_ms: int = PASS_MS) -> None:
        """Runs `passes` passes of each engine in turn, and advances the clock after each round."""
        for _ in range(passes):
            for name in names or list(self.engines):
                self.engines[name].run_pass()
            self.cluster.now_ms += pass_ms

    def kill(self, name: str = "one") -> None:
        """End an engine's process without a clean exit."""
        self.buses[name].die()
        del self.engines[name]

    # -- what others write

    def write(self, tp: TopicPartition, key: bytes | None, value: bytes | None, headers: Any = None) -> int:
        """Appends a record. Returns its offset."""
        return self.cluster.append(tp, key, value, headers)[0]

    def write_bus_record(self, record: BusRecord) -> None:
        self.write(REGISTRY, BUS_KEY, encode_json(record))

    def emit(
        self, event_type: str, data: Any = None, *, partition: int = 0, event_id: str = "", times: int = 1
    ) -> int:
        """Emits `times` events. Returns the offset of the last one."""
        for _ in range(times):
            self._made += 1
            made = Event.of(event_type, "/s", id=event_id or str(self._made), data=data)
            offset = self.write(TopicPartition(EVENT.topic, partition), *encode(made))
        return offset

    def register(self, registration: Registration, nonce: str = "n") -> Registration:
        self.write(
            REGISTRY, RegistrationKey(registration.incarnation, nonce).encode(), encode_json(registration)
        )
        return registration

    def remove(self, registration: Registration, nonce: str = "n") -> None:
        self.write(REGISTRY, RegistrationKey(registration.incarnation, nonce).encode(), None)

    def lease(self, *registrations: Registration) -> None:
        record = LeaseRecord(deployment="d", incarnations=[r.incarnation for r in registrations], host="h")
        self.write(REGISTRY, b"lease/process/0", encode_json(record))

    def renew(self) -> None:
        """The process of `lease` renews its leases."""
        self.write(REGISTRY, b"renewal/process", encode_json(RenewalRecord()))

    def source(self, tp: TopicPartition) -> None:
        self.write(
            REGISTRY, registry_key("source", *tp), encode_json(SourceRecord(topic_id=self.topic_id(tp.topic)))
        )

    def resume(self, tp: TopicPartition, offset: int, end: int = -1) -> None:
        record = ResumeRecord(topic_id=self.topic_id(tp.topic), offset=offset, end=end)
        self.write(REGISTRY, registry_key("resume", *tp), encode_json(record))

    # -- the contents of the topics

    def topic_id(self, name: str) -> str:
        return self.cluster.topics[name].id

    def log(self, tp: TopicPartition) -> Log:
        found = self.cluster.log(tp)
        assert found is not None
        return found

    def records(self, tp: TopicPartition) -> list[tuple[bytes | None, bytes | None]]:
        """Returns all records that were ever committed, removed ones included."""
        return [(entry.key, entry.value) for _, entry in self.log(tp).history()]

    def fired(self) -> list[tuple[str, str]]:
        """Subscription and outcome of each firing, partition by partition."""
        found = []
        for number in range(self.partitions):
            for _, value in self.records(TopicPartition(ACTION.topic, number)):
                record = msgspec.json.decode(value or b"{}")
                found.append((record["subscription"], record["firing"]["outcome"]))
        return found

    def actions(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(value or b"{}") for _, value in self.records(ACTION)]

    def committed(self, tp: TopicPartition) -> Committed | None:
        return self.cluster.group.offsets.get(tp)

    def metadata(self, tp: TopicPartition) -> OffsetMetadata:
        found = self.committed(tp)
        assert found is not None
        return decode_json(OffsetMetadata, found.metadata, str(tp))

    def commit_by_hand(self, tp: TopicPartition, offset: int, metadata: str = "") -> None:
        """Commit as an administrator does while no engine runs."""
        self.cluster.group.offsets[tp] = Committed(offset, metadata)

    def open_transaction(
        self, name: str, tp: TopicPartition, written: TopicPartition | None = None
    ) -> Transaction:
        """The transaction of a producer that died after sending an offset of `tp` and a record."""
        while not self.cluster.init_producer(name):
            Alone(self.cluster).pause("")
        transaction = self.cluster.begin(name, self.cluster.producers[name].epoch)
        assert transaction is not None
        if written is not None:
            self.cluster.write(transaction, written, b"k", b"v", None)
        metadata = encode_json(
            OffsetMetadata(applied=0, committer=name, topic_id=self.topic_id(tp.topic))
        ).decode()
        self.cluster.group.pending[transaction] = {tp: (10**6, Committed(0, metadata))}
        return transaction
