"""The producers of a world's events, and the administrator of the topics that they write to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from interlock.engine.bus import TopicPartition
from interlock.engine.records import BUS_KEY, BusRecord, encode_json, registry_key
from interlock.events.event import Event
from interlock.events.kafka import encode

from tests.kit.kafka import Log
from tests.simulation.actors import CONFIG, AnyWorld
from tests.simulation.subscriptions import KEYS, TYPES
from tests.simulation.topics import EVENT, ORDERS, REGISTRY, TRIGGER

MOST_PARTITIONS: Final = 4


class Producers:
    """Those of one world. listed: whether the bus lists the topic ORDERS; they write to it only then.

    actions: {name: what happens by chance}; the numbers choose what and where. False if it does not apply
    now.
    """

    def __init__(self, seed: int | str, world: AnyWorld, *, listed: bool) -> None:
        """Writes the bus record."""
        self._seed, self._cluster, self._seen, self._say = seed, world.cluster, world.seen, world.say
        self.listed = listed
        self._events = 0
        self._write_bus_record()
        self.actions: Mapping[str, Callable[[int, int], bool]] = {
            "emit": self.emit_one,
            "poison": self._poison,
            "partition": self._add_partition,
            "list": self._list,
        }

    def source_log(self, n: int) -> Log:
        logs = [*self._cluster.topics[EVENT].logs]
        if self.listed:
            logs += self._cluster.topics[ORDERS].logs
        return logs[n % len(logs)]

    def emit_one(self, n: int, what: int) -> bool:
        log = self.source_log(n)
        rng = Random(what)
        if log.tp.topic == ORDERS and rng.random() < 0.6:
            stamp = self._cluster.now_ms + rng.choice((0, 0, -5_000, 2_000))
            offset, _ = self._cluster.append(
                log.tp, rng.choice(KEYS).encode(), b'{"n":1}', timestamp_ms=stamp
            )
            self._say(f"a plain record at {log.tp}@{offset}")
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
        offset, _ = self._cluster.append(log.tp, key, value, headers, timestamp_ms=self._cluster.now_ms)
        self._seen["duplicate event"] += bool(repeat)
        self._say(f"event {event.type} {event.subject} {event.source}/{event.id} at {log.tp}@{offset}")

    def _event(self, number: int) -> Event:
        rng = Random(f"{self._seed} {number}")
        attributes = {
            "specversion": "1.0",
            "id": str(number),
            "source": rng.choice(("s0", "s0", "s1")),
            "type": rng.choice(TYPES[:2]) if rng.random() < 0.9 else "c",
            "subject": rng.choice(KEYS),
        }
        return Event(attributes, None)

    def _poison(self, n: int, _: int) -> bool:
        tp = TopicPartition(EVENT, n % len(self._cluster.topics[EVENT].logs))
        offset, _ = self._cluster.append(tp, b"k", b"\xff", [("ce_id", b"x")])
        self._say(f"poison at {tp}@{offset}")
        self._seen["poison"] += 1
        return True

    # -- the administrator

    def _write_bus_record(self) -> None:
        ids = {
            kind: self._cluster.topics[CONFIG.topic(kind)].id
            for kind in ("trigger", "state", "action", "subscription")
        }
        partitions, topics = len(self._cluster.topics[TRIGGER].logs), (ORDERS,) if self.listed else ()
        record = BusRecord(partitions=partitions, topics=topics, cloudevents=topics, topic_ids=ids)
        self._cluster.append(REGISTRY, BUS_KEY, encode_json(record))

    def delist(self, partitions: int) -> None:
        """Takes ORDERS, which had these partitions, off the bus's list."""
        self.listed = False
        self._write_bus_record()
        for number in range(partitions):
            self._cluster.append(REGISTRY, registry_key("source", ORDERS, number), None)

    def _list(self, _: int, __: int) -> bool:
        """The bus record lists another topic."""
        if self.listed:
            return False
        self.listed = True
        self._write_bus_record()
        self._say(f"{ORDERS} is listed")
        self._seen["topic listed"] += 1
        return True

    def _add_partition(self, n: int, what: int) -> bool:
        """Adds a partition to a source topic."""
        name = ORDERS if self.listed and n % 2 else EVENT
        count = len(self._cluster.topics[name].logs)
        if count >= MOST_PARTITIONS:
            return False
        self._cluster.add_partitions(name, count + 1)
        self._say(f"{name} has {count + 1} partitions")
        if what % 2 and name == EVENT:
            self.emit(self._cluster.topics[name].logs[count], Random(what))
        self._seen["partition added"] += 1
        return True
