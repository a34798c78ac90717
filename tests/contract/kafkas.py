"""Kafka as the tests of the contract see it: simulated, and a real broker. One interface for both."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from interlock.engine.bus import Batch, Bus, Clients, Committed, End, Record, TopicPartition
from interlock.engine.config import BusConfig

from tests.kit.bus import Alone, SimulatedBus
from tests.kit.clients import SimulatedClients
from tests.kit.kafka import NEVER_JOINED, Cluster, Transaction

T = TypeVar("T")
DEADLINE_S = 60.0


class OpenTransaction(Protocol):
    """An open transaction; any error means that it could not commit."""

    def write(self, tp: TopicPartition, value: bytes) -> None: ...

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], membership: object) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Kafka(Protocol):
    """A cluster, a bus's name on it, and what a test needs beside the bus."""

    def topic(self, kind: str, partitions: int = 1, *, compact: bool = False, own_time: bool = False) -> str:
        """Creates a topic. Returns its name. own_time: it has the producers' timestamps (CreateTime)."""

    def bus(self) -> Bus: ...

    def clients(self) -> Clients: ...

    def killed_owner(self, topic: str) -> str:
        """Kills a member once it was assigned the topic. Returns its transactional id."""

    def never_joined(self) -> object:
        """Returns the membership of a consumer that has the group's name but never joined it."""

    def append(
        self,
        tp: TopicPartition,
        value: bytes | None,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Appends a record. Returns its offset."""

    def begin(self, transactional_id: str, timeout_ms: int = 60_000) -> OpenTransaction:
        """timeout_ms: of the transaction; the simulation has one for all."""

    def add_partitions(self, topic: str, partitions: int) -> None: ...

    def recreate(self, topic: str, partitions: int) -> None: ...

    def compact(self, topic: str) -> None:
        """Compacts partition 0, except its last record."""

    def until(self, what: str, fact: Callable[[], T | None]) -> T:
        """The first value of `fact` that is not None."""

    def close(self) -> None: ...


def assigned(kafka: Kafka, bus: Bus, topics: Sequence[str]) -> Batch:
    """Subscribes, and polls until partitions are assigned."""
    bus.subscribe(topics)
    return next_assignment(kafka, bus)


def next_assignment(kafka: Kafka, *buses: Bus) -> Batch:
    """Polls all buses until the first one has a new assignment."""

    def news() -> Batch | None:
        for other in buses[1:]:
            batch = other.poll(100, 0.0)
            if batch.assigned is not None:
                other.start({})
        batch = buses[0].poll(100, 0.1)
        return batch if batch.assigned is not None else None

    return kafka.until("an assignment", news)


def take_until(
    kafka: Kafka, take: Callable[[], Sequence[Record | End]], ends: Mapping[TopicPartition, int]
) -> list[Any]:
    """Takes records and ends until these ends, or later ones, are reported."""
    items: list[Record | End] = []

    def all_ended() -> bool | None:
        items.extend(take())
        reached = {item.source: item.offset for item in items if isinstance(item, End)}
        # At least: the marker of a commit may be written after the end was queried.
        return True if all(reached.get(tp, -1) >= offset for tp, offset in ends.items()) else None

    kafka.until(f"the ends {ends}", all_ended)
    return items


class Simulation:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.host = Alone(self.cluster)
        self._buses: list[SimulatedBus] = []

    def topic(self, kind: str, partitions: int = 1, *, compact: bool = False, own_time: bool = False) -> str:
        self.cluster.create(f"b-{kind}", partitions, compact=compact, log_append_time=not own_time)
        return f"b-{kind}"

    def bus(self) -> SimulatedBus:
        bus = SimulatedBus(self.cluster, self.host, f"engine-{len(self._buses)}")
        self._buses.append(bus)
        return bus

    def clients(self) -> SimulatedClients:
        config = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
        return SimulatedClients(config, self.cluster, self.host)

    def killed_owner(self, topic: str) -> str:
        bus = self.bus()
        assigned(self, bus, [topic])
        bus.dead = True
        return bus.transactional_id

    def never_joined(self) -> object:
        return NEVER_JOINED

    def append(
        self,
        tp: TopicPartition,
        value: bytes | None,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        return self.cluster.append(tp, key, value, timestamp_ms=timestamp_ms)[0]

    def begin(self, transactional_id: str, timeout_ms: int = 0) -> SimulatedOpenTransaction:
        while not self.cluster.init_producer(transactional_id):
            self.host.pause("markers")
        epoch = self.cluster.producers[transactional_id].epoch
        transaction = self.cluster.begin(transactional_id, epoch)
        assert transaction is not None
        return SimulatedOpenTransaction(self, transaction)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self.cluster.add_partitions(topic, partitions)

    def recreate(self, topic: str, partitions: int) -> None:
        self.cluster.delete(topic)
        self.cluster.create(topic, partitions)

    def compact(self, topic: str) -> None:
        log = self.cluster.topics[topic].logs[0]
        self.cluster.compact(topic, 0, log.end)

    def until(self, what: str, fact: Callable[[], T | None]) -> T:
        for _ in range(1000):
            value = fact()
            if value is not None:
                return value
            self.cluster.now_ms += 100
            for bus in self._buses:  # sessions of dead ones expire
                if bus.dead and bus._member is not None:
                    self.cluster.leave(bus._member)
            for transaction in self.cluster.overdue():
                self.cluster.time_out(transaction)
                self.host.pause("markers")
        raise AssertionError(f"never: {what}")

    def close(self) -> None:
        for bus in self._buses:
            bus.close()


class SimulatedOpenTransaction:
    def __init__(self, kafka: Simulation, transaction: Transaction) -> None:
        self._kafka, self._transaction = kafka, transaction

    def write(self, tp: TopicPartition, value: bytes) -> None:
        self._kafka.cluster.write(self._transaction, tp, None, value, None)

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], membership: object) -> None:
        assert isinstance(membership, tuple)
        self._kafka.cluster.send_offsets(self._transaction, offsets, *membership)

    def commit(self) -> None:
        self._kafka.cluster.end(self._transaction, commit=True)
        self._kafka.host.pause("markers")

    def abort(self) -> None:
        self._kafka.cluster.end(self._transaction, commit=False)
        self._kafka.host.pause("markers")


class Broker:
    """The session's real broker. of_deliverers: its buses join the deliverers' group, else the engines'."""

    def __init__(self, bootstrap_servers: str, *, of_deliverers: bool = False) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        name = f"contract-{uuid.uuid4().hex[:10]}"
        config = BusConfig(name=name, client={"bootstrap.servers": bootstrap_servers})
        self.config = config.of_deliverers if of_deliverers else config
        self._client = {"bootstrap.servers": bootstrap_servers, "log_level": "0"}
        self._admin: Any = AdminClient(self._client)
        self._producer: Any = Producer({**self._client, "linger.ms": 0})
        self._buses: list[Bus] = []
        self._open: list[BrokerOpenTransaction] = []

    def topic(self, kind: str, partitions: int = 1, *, compact: bool = False, own_time: bool = False) -> str:
        name = self.config.topic(kind)
        self._create(name, partitions, compact, own_time)
        return name

    def _create(self, name: str, partitions: int, compact: bool = False, own_time: bool = False) -> None:
        from confluent_kafka.admin import NewTopic

        settings = {"message.timestamp.type": "CreateTime" if own_time else "LogAppendTime"}
        if own_time:
            settings |= {"retention.ms": "-1"}
        if compact:
            settings |= {
                "cleanup.policy": "compact",
                "segment.ms": "100",
                "min.cleanable.dirty.ratio": "0.001",
                "max.compaction.lag.ms": "100",
            }
        self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)

        def known() -> bool | None:
            found = self._admin.list_topics(name, timeout=10).topics[name]
            return True if len(found.partitions) == partitions else None

        self.until(f"topic {name}", known)

    def bus(self) -> Bus:
        from interlock.engine.kafka.bus import KafkaBus

        bus: Bus = KafkaBus(self.config)
        self._buses.append(bus)
        return bus

    def clients(self) -> Clients:
        from interlock.engine.kafka.wait_clients import KafkaClients

        return KafkaClients(self.config)

    def killed_owner(self, topic: str) -> str:
        program = (
            "import sys\n"
            "from interlock.engine.config import BusConfig\n"
            "from interlock.engine.kafka.bus import KafkaBus\n"
            "name, servers, members, topic = sys.argv[1:]\n"
            "client = {'bootstrap.servers': servers}\n"
            "bus = KafkaBus(BusConfig(name=name, client=client, members=members))\n"
            "bus.subscribe([topic])\n"
            "while bus.poll(1, 0.1).assigned is None: pass\n"
            "print(bus.transactional_id, flush=True)\n"
            "while True: bus.poll(1, 1.0)\n"
        )
        arguments = [self.config.name, self.config.bootstrap_servers, self.config.members, topic]
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            name = process.stdout.readline().strip()
        process.kill()
        process.wait()
        return name

    def never_joined(self) -> object:
        from confluent_kafka import Consumer

        consumer = Consumer({**self._client, "group.id": self.config.group})
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def append(
        self,
        tp: TopicPartition,
        value: bytes | None,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        offsets: list[int] = []
        self._producer.produce(
            tp.topic,
            value,
            key,
            partition=tp.partition,
            timestamp=timestamp_ms or 0,
            on_delivery=lambda _, message: offsets.append(message.offset()),
        )
        self._producer.flush(30)
        return offsets[0]

    def begin(self, transactional_id: str, timeout_ms: int = 60_000) -> BrokerOpenTransaction:
        opened = BrokerOpenTransaction(
            {**self._client, "transaction.timeout.ms": str(timeout_ms)}, transactional_id
        )
        self._open.append(opened)
        return opened

    def add_partitions(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def recreate(self, topic: str, partitions: int) -> None:
        self._admin.delete_topics([topic])[topic].result(30)

        def gone() -> bool | None:
            return True if self._admin.list_topics(topic, timeout=10).topics[topic].error else None

        self.until(f"no topic {topic}", gone)
        self._create(topic, partitions)

    def compact(self, topic: str) -> None:
        """Does nothing: the broker's cleaner runs by itself, on all but the active segment."""

    def until(self, what: str, fact: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            value = fact()
            if value is not None:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}")

    def close(self) -> None:
        for opened in self._open:
            opened.abort()
        for bus in self._buses:
            bus.close()


class BrokerOpenTransaction:
    def __init__(self, client: dict[str, str], transactional_id: str) -> None:
        from confluent_kafka import Producer

        self._over = False
        self._producer: Any = Producer({**client, "transactional.id": transactional_id, "linger.ms": 0})
        self._producer.init_transactions(30)
        self._producer.begin_transaction()

    def write(self, tp: TopicPartition, value: bytes) -> None:
        self._producer.produce(tp.topic, value, partition=tp.partition)
        self._producer.flush(30)

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], membership: object) -> None:
        from confluent_kafka import TopicPartition as Position

        positions = [Position(tp.topic, tp.partition, c.offset, c.metadata) for tp, c in offsets.items()]
        self._producer.send_offsets_to_transaction(positions, membership, 30)

    def commit(self) -> None:
        self._over = True
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        if not self._over:
            self._over = True
            self._producer.abort_transaction(30)
