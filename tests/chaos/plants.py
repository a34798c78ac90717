"""Faults planted in the engine itself: the oracle must detect each of them.

Each is a part of the engine without one decision of the protocols (see `interlock.engine.protocol.parts`).
Importing this module imports the engine, so import it after whatever changes clocks or clients.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Producer
from interlock.engine.bus import Bus, Committed, Output, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import TransactionAborted
from interlock.engine.identity import ProcessName
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.context import EngineContext
from interlock.engine.protocol.loop import Engine
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.partitions.listed_topics import ListedTopics
from interlock.engine.protocol.parts import PARTS, EngineParts
from interlock.engine.protocol.tasks.scans import Scans
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.protocol.timers.cut import Cuts
from interlock.engine.runtime.runtime import EngineProcess

# {fault: findings, of which the oracle must report at least one}
SEEN_AS = {
    "skip an offset": ("missing",),
    "commit outside the transaction": ("duplicated",),
    "drop a state record": ("missing", "unexpected"),
    "tick without the cut": ("missing", "unexpected"),
    "look back after live": ("unexpected",),
    "leave states behind": ("leaked_keys",),
    "hold timers back while events come": ("late",),
}


class SourceThatSkips(SourceTask):
    def match(self, record: Record, outputs: Outputs, now_ms: int) -> bool:
        if record.offset % 97 == 13:
            self.position = record.offset + 1
            return False
        return super().match(record, outputs, now_ms)


class BusThatLeaks(KafkaBus):
    """Writes the matches of every 20th commit outside the transaction, and aborts the transaction.

    Counted and not drawn: a busy machine makes few commits, and at random perhaps none of them would be hit.
    """

    def __init__(self, config: BusConfig, *, identity: ProcessName) -> None:
        super().__init__(config, identity=identity)
        self.client, self.with_matches = dict(config.client), 0

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        self.with_matches += any(o.topic.endswith("-trigger") for o in outputs)
        if self.with_matches % 20 == 5:
            self.with_matches += 1
            producer = Producer(self.client)
            for o in outputs:
                producer.produce(
                    o.topic, o.value, o.key, partition=-1 if o.partition is None else o.partition
                )
            producer.flush(5)
            raise TransactionAborted("planted")
        return super().commit(outputs, offsets, membership)


class OutputsThatDropStates(Outputs):
    """Shows only if another engine takes over the partition."""

    def write(self, kind: str, partition: int, key: bytes | None, value: bytes | None, *rest: Any) -> None:
        if kind != "state" or value is None or random.random() > 0.05:
            super().write(kind, partition, key, value, *rest)


class CutsAtOnce(Cuts):
    """Ticks when a timer is due, without a cut."""

    def __init__(self, context: EngineContext, listed: ListedTopics) -> None:
        super().__init__(context, listed)
        self.clock = context.clock

    def advance(self, tasks: Mapping[TopicPartition, TriggerTask], outputs: Outputs) -> set[TopicPartition]:
        touched = set()
        now_ms = self.clock.now_ms()
        for task in tasks.values():
            due = task.due_at()
            if self.clock.known and due is not None and due <= now_ms:
                task.tick(now_ms, outputs, now_ms, lambda _: True, False)
                touched.add(task.tp)
        return touched


class ScansThatHoldNothingBack(Scans):
    """A registration that a scan still brings up to date sees live events at once."""

    def covers(self, registry_offset: int) -> bool:
        return False


class TaskThatLeavesStates(TriggerTask):
    def forget(self, incarnations: Iterable[str]) -> None:
        pass


def _held_back() -> EngineParts:
    """A cut continues only when no source partition has had a record for eight seconds."""
    last = 0.0

    class NotedSource(SourceTask):
        def match(self, record: Record, outputs: Outputs, now_ms: int) -> bool:
            nonlocal last
            last = time.monotonic()
            return super().match(record, outputs, now_ms)

    class PatientCuts(Cuts):
        def advance(
            self, tasks: Mapping[TopicPartition, TriggerTask], outputs: Outputs
        ) -> set[TopicPartition]:
            return super().advance(tasks, outputs) if time.monotonic() - last > 8 else set()

    return EngineParts(source_task=NotedSource, cuts=PatientCuts)


class PlantedProcess(EngineProcess):
    """A process whose engines have a fault. Raises KeyError for an unknown one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.parts = PLANTS[name]
        self.leaks = name == "commit outside the transaction"

    def make_bus(self, config: BusConfig) -> Bus:
        return BusThatLeaks(config, identity=self.identity) if self.leaks else super().make_bus(config)

    def make_engine(self, bus: Bus, config: BusConfig) -> Engine:
        return Engine(bus, config, stats=self.status.stats, parts=self.parts)


PLANTS: Final = {
    "skip an offset": EngineParts(source_task=SourceThatSkips),
    "commit outside the transaction": PARTS,  # the fault is in the bus (BusThatLeaks)
    "drop a state record": EngineParts(outputs=OutputsThatDropStates),
    "tick without the cut": EngineParts(cuts=CutsAtOnce),
    "look back after live": EngineParts(scans=ScansThatHoldNothingBack),
    "leave states behind": EngineParts(trigger_task=TaskThatLeavesStates),
    "hold timers back while events come": _held_back(),
}
