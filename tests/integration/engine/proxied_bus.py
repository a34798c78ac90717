"""A bus whose clients reach the broker through a proxy that loses, delays or holds back requests."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka.admin import AdminClient
from interlock.engine.bus import Batch, Committed, End, Output, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.kafka.topics import create

from tests.chaos.proxy import API_KEYS, Proxy, Rule

HOUR_S = 3600.0


class Place:
    """A bus behind the proxy, with one partition of each topic."""

    def __init__(self, name: str, direct: str, proxied: str, proxy: Proxy, eventually: Any) -> None:
        self.config = BusConfig(name=name, client={"bootstrap.servers": proxied})
        self.proxy, self.eventually = proxy, eventually
        self.admin = AdminClient({"bootstrap.servers": direct})
        self.source = TopicPartition(self.config.topic("event"), 0)
        self.action = self.config.topic("action")
        self._buses: list[KafkaBus] = []
        self._rules: list[Rule] = []
        create(BusConfig(name=name, client={"bootstrap.servers": direct}), partitions=1)

    def member(self) -> tuple[KafkaBus, Batch]:
        """A member of the group that owns the source partition, and has started to read it."""
        bus = KafkaBus(self.config)
        self._buses.append(bus)
        bus.subscribe([self.source.topic])

        def owns() -> Batch | None:
            batch = bus.poll(10, 0.1)
            return batch if self.source in (batch.assigned or ()) else None

        batch: Batch = self.eventually("the partition is the member's", owns)
        bus.start({self.source: 0})
        return bus, batch

    def commit(self, bus: KafkaBus, member: Batch, number: int) -> int | None:
        """Commits transaction `number`: one record with this number, and this offset."""
        outputs = [Output(self.action, 0, b"k", str(number).encode())]
        return bus.commit(outputs, {self.source: Committed(number, "")}, member.membership)

    def rule(self, kind: Any, *apis: str, **more: Any) -> Rule:
        keys = frozenset(API_KEYS[api] for api in apis) if apis else None
        rule = self.proxy.add(Rule(kind, time.monotonic() + HOUR_S, apis=keys, **more))
        self._rules.append(rule)
        return rule

    def committed(self, bus: KafkaBus) -> int | None:
        """The committed offset, as soon as no transaction is open: before any has timed out."""
        found = self.eventually("stable offsets", lambda: bus.committed([self.source]), deadline_s=8)
        return found[self.source].offset if found[self.source] else None

    def written(self, bus: KafkaBus) -> list[bytes | None]:
        """The committed values of the action topic."""
        place = TopicPartition(self.action, 0)
        [end] = bus.end_offsets([place]).values()
        reader, found = bus.reader(), list[bytes | None]()
        reader.read({place: 0})

        def ended() -> bool:
            items = reader.take(100, 0.1)
            found.extend(item.value for item in items if isinstance(item, Record))
            return any(isinstance(item, End) and item.offset >= end for item in items)

        self.eventually("the end of the actions", ended)
        reader.close()
        return found

    def pass_all(self) -> None:
        """The proxy passes everything again."""
        for rule in self._rules:
            rule.until = 0.0

    def close(self) -> None:
        self.pass_all()
        for bus in self._buses:
            bus.close()
