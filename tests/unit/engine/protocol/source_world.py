"""One source partition and the registry, for the tests of the event hop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
from interlock import Event, event
from interlock.conditions import Condition
from interlock.engine.bus import Committed, End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.context import Clocks, EngineContext
from interlock.engine.protocol.lookback.gaps import Gaps
from interlock.engine.protocol.lookback.scanning import Scanning
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.start import TaskStart
from interlock.engine.records import MatchRecord, Registration, RegistrationKey, encode_json, partition_of
from interlock.engine.records.sizes import MAX_VALUE_BYTES
from interlock.events.kafka import encode

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-event", 0)
SUBSCRIPTIONS = TopicPartition("b-subscription", 0)
PARTITIONS = 3
FAR = 10**6


class FakeReader:
    """Reads the world's records, at most `slice` at a time, and their end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._at: int | None = None
        self.slice = FAR

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._at = positions.get(TP)

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        self._at = offset
        return True

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        if self._at is None:
            return []
        left = [r for r in self._world.records if r.offset >= self._at]
        taken: list[Record | End] = [*left[: min(most, self.slice)]]
        if taken:
            self._at = taken[-1].offset + 1
        if len(taken) == len(left):
            self._at = max(self._at, self._world.end)
            taken.append(End(TP, self._world.end))
        return taken

    def close(self) -> None:
        pass


def new_context(reader: Callable[..., FakeReader], end: Callable[[], int]) -> EngineContext:
    """A context whose bus has only readers and offsets, and whose clocks stand still."""
    bus: Any = SimpleNamespace(
        reader=reader,
        start_offsets=lambda asked: dict.fromkeys(asked, 0),
        stable_offsets=lambda asked: dict.fromkeys(asked, end()),
        fetched_end=lambda _: end(),
    )
    return EngineContext.of(bus, CONFIG, EngineParts(clocks=Clocks(lambda: 0.0, lambda: 0.0)))


class World:
    """One source partition, the registry, and what the event hop has committed."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.end = 0
        self.context = new_context(self._new_reader, lambda: self.end)
        self.registry, self.index = self.context.registry, self.context.index
        self.committed = Committed(0, "")
        self.matches: list[tuple[int, MatchRecord]] = []  # trigger partition and match, in log order
        self.dead: list[bytes | None] = []
        self.reasons: list[str] = []  # of the dead letters
        self.commits = 0
        self.listed = False
        self.scanning = self._scanning()

    @classmethod
    def after(cls, *events: tuple[str, int]) -> World:
        """A world that has read these events: type and timestamp."""
        world = cls()
        world.append_all(*events)
        world.run()
        return world

    def _new_reader(self, *, brief: bool = False) -> FakeReader:
        self._readers.append(FakeReader(self))
        return self._readers[-1]

    def _scanning(self) -> Scanning:
        self._readers: list[FakeReader] = []
        scanning = Scanning(self.context, Gaps(self.context))
        self.reader = self._readers[0]
        return scanning

    def append(self, event_type: str, timestamp_ms: int, gap: int = 0, value: bytes | None = None) -> Record:
        """The next record; `gap` offsets before it hold markers or aborted records."""
        key, data, headers = encode(Event.of(event_type, "/s", id=str(self.end + gap)))
        return self.put(key, data if value is None else value, headers, timestamp_ms, gap)

    def put(
        self, key: bytes | None, value: bytes | None, headers: Any, timestamp_ms: int = 5, gap: int = 0
    ) -> Record:
        self.records.append(Record(TP, self.end + gap, timestamp_ms, key, value, headers))
        self.end += gap + 1
        return self.records[-1]

    def append_all(self, *events: tuple[str, int]) -> None:
        """Records of these events: type and timestamp."""
        for event_type, timestamp_ms in events:
            self.append(event_type, timestamp_ms)

    def register(
        self,
        name: str,
        event_type: str | Condition,
        since_ms: int,
        key: str | None = None,
        at_ms: int = 0,
        **fields: Any,
    ) -> Registration:
        condition = event(event_type) if isinstance(event_type, str) else event_type
        registration = Registration.of(name, condition, key, since_ms, **fields)
        record_key = RegistrationKey(registration.incarnation, "n").encode()
        at = Record(SUBSCRIPTIONS, self.registry.position, at_ms, record_key, encode_json(registration), None)
        for added in self.registry.apply(at).added:
            self.index.add(added, added.condition, key)
        return registration

    def task(self) -> SourceTask:
        """What a new owner begins with."""
        self.scanning = self._scanning()
        return SourceTask(TaskStart(TP, self.committed, PARTITIONS, "t", self.listed), self.context)

    def first_offset(self, applied: int) -> int | None:
        new = self.registry.between(applied, self.registry.position)
        since = min((r.registration.since_ms for r in new), default=None)
        if since is None:
            return None
        return next((r.offset for r in self.records if r.timestamp_ms >= since), None)

    def run_pass(self, task: SourceTask, live: int, back: int) -> Outputs:
        """As the loop does it: the registry, then live records, then a slice of the scans."""
        outputs = Outputs(CONFIG, 1)
        if task.needs_apply(self.registry):
            task.apply(self.registry.position, self.first_offset(task.applied))
        left = [r for r in self.records if r.offset >= task.position]
        for record in left[:live]:
            task.match(record, outputs, 0)
        if live and len(left) <= live:
            task.at_end(self.end)
        if back:
            self.reader.slice = back
            self.scanning.advance({TP: task}, outputs, 0, alone=not live)
        return outputs

    def commit(self, task: SourceTask, outputs: Outputs) -> None:
        self.commits += 1
        task.commit_into(outputs, "me", self.commits)
        for output in outputs.records:
            if output.topic == "b-trigger":
                assert output.partition is not None
                assert len(output.value) <= MAX_VALUE_BYTES
                match = msgspec.msgpack.decode(output.value, type=MatchRecord)
                self.matches.append((output.partition, match))
            else:
                self.dead.append(output.value)
                self.reasons.append((dict(output.headers or ())["interlock_reason"] or b"").decode())
        self.committed = outputs.offsets[TP]
        assert len(self.committed.metadata.encode()) <= 4095
        task.committed()

    def run(self, live: int = FAR, back: int = FAR) -> SourceTask:
        """One pass of a new owner, committed."""
        task = self.task()
        self.commit(task, self.run_pass(task, live, back))
        return task

    def reached(self, registration: Registration) -> list[int]:
        """The offsets of the events that reached a registration, in the order of its trigger partition."""
        found = []
        for partition, match in self.matches:
            for target in match.targets:
                if target.incarnation == registration.incarnation:
                    kind, name = registration.kind, registration.subscription
                    assert partition == partition_of(kind, name, target.key, PARTITIONS)
                    found.append(match.offset)
        return found
