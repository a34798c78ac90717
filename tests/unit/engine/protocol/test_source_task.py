"""The event hop: each event reaches each registration once and in order, however reading is interleaved."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event, event
from interlock.conditions import MatcherIndex
from interlock.engine.bus import Committed, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.registry import Registered, Registry
from interlock.engine.protocol.source_task import MAX_SCANS, Scan, SourceTask
from interlock.engine.records import MatchRecord, Registration, RegistrationKey, encode_json, partition_of
from interlock.engine.sizes import MAX_INTERNAL_BYTES
from interlock.events.kafka import encode

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-event", 0)
SUBSCRIPTIONS = TopicPartition("b-subscription", 0)
PARTITIONS = 3
FAR = 10**6


class World:
    """One source partition and the registry as they really are, and what is committed of the hop."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.registry = Registry()
        self.index: MatcherIndex[Registered] = MatcherIndex()
        self.committed = Committed(0, "")
        self.matches: list[tuple[int, MatchRecord]] = []  # trigger partition and match, in log order
        self.dead: list[bytes | None] = []

    def append(self, event_type: str, timestamp_ms: int, gap: int = 0, value: bytes | None = None) -> Record:
        """The next record; `gap` offsets before it hold markers or aborted records."""
        offset = (self.records[-1].offset + 1 if self.records else 0) + gap
        key, data, headers = encode(Event.of(event_type, "/s", id=str(offset)))
        if value is not None:
            data = value
        self.records.append(Record(TP, offset, timestamp_ms, key, data, headers))
        return self.records[-1]

    def register(self, name: str, event_type: str, since_ms: int) -> Registration:
        registration = Registration.of(name, event(event_type), None, since_ms)
        key = RegistrationKey(registration.incarnation, "n").encode()
        at = Record(SUBSCRIPTIONS, self.registry.position, 0, key, encode_json(registration), None)
        for added in self.registry.apply(at).added:
            self.index.add(added, added.condition)
        return registration

    def task(self) -> SourceTask:
        return SourceTask(TP, self.committed, self.index, PARTITIONS)

    def first_offset(self, applied: int) -> int | None:
        new = self.registry.between(applied, self.registry.position)
        since = min((r.registration.since_ms for r in new), default=None)
        if since is None:
            return None
        return next((r.offset for r in self.records if r.timestamp_ms >= since), None)

    def run_pass(self, task: SourceTask, live: int, back: int) -> Outputs:
        """As the loop does it: the registry, then live records, then a slice of the first scan."""
        outputs = Outputs(CONFIG)
        if task.needs_apply(self.registry):
            task.apply(self.registry.position, self.first_offset(task.applied))
        for record in [r for r in self.records if r.offset >= task.position][:live]:
            task.match(record, outputs, 0.0)
        if task.scans and back:
            scan = task.scans[0]
            left = [r for r in self.records if r.offset >= scan.position]
            end = self.records[-1].offset + 1 if len(left) <= back and self.records else None
            task.scan(scan, left[:back], end, outputs)
        return outputs

    def commit(self, task: SourceTask, outputs: Outputs) -> None:
        task.commit_into(outputs, "me")
        for output in outputs.records:
            if output.topic == "b-trigger":
                assert output.partition is not None
                assert output.value is not None
                assert len(output.value) < MAX_INTERNAL_BYTES
                self.matches.append(
                    (output.partition, msgspec.msgpack.decode(output.value, type=MatchRecord))
                )
            else:
                self.dead.append(output.value)
        self.committed = outputs.offsets[TP]
        task.committed()

    def run(self, live: int = FAR, back: int = FAR) -> None:
        task = self.task()
        self.commit(task, self.run_pass(task, live, back))

    def reached(self, registration: Registration) -> list[int]:
        """The offsets of the events that reached a registration, in the order of its trigger partition."""
        found = []
        for partition, match in self.matches:
            for target in match.targets:
                if target.incarnation == registration.incarnation:
                    assert partition == partition_of(registration.subscription, PARTITIONS)
                    found.append(match.offset)
        return found


def test_a_registration_without_past_events_is_live_at_once() -> None:
    world = World()
    world.append("a", 10)
    world.run()
    late = world.register("late", "a", 11)
    world.append("a", 11)
    world.run()
    assert world.task().scans == []
    assert world.reached(late) == [1]


def test_past_events_come_before_live_ones_and_each_once() -> None:
    world = World()
    for n in range(4):
        world.append("a", n)
    world.run()
    back = world.register("back", "a", 1)
    world.run(live=0, back=1)
    assert world.task().scans == [Scan(0, 1, 2)]
    world.append("a", 9)
    world.run(back=1)  # the new one is not given to a registration that has not seen those before it
    assert world.reached(back) == [1, 2]
    world.run()
    world.append("a", 10)
    world.run()
    assert world.reached(back) == [1, 2, 3, 4, 5]


def test_a_scan_that_reads_beyond_the_live_position_leaves_that_to_live_reading() -> None:
    world = World()
    world.append("a", 0)
    world.run()
    world.append("a", 1)
    back = world.register("back", "a", 0)
    world.run(live=0)
    assert world.reached(back) == [0]
    world.run()
    assert world.reached(back) == [0, 1]


def test_a_scan_ends_where_the_reader_finds_nothing_more_below_the_live_position() -> None:
    """The live position may stand behind markers that no reader ever sees."""
    world = World()
    world.register("w", "a", 0)
    task = SourceTask(TP, Committed(7, '{"v":1,"R":1,"g":[[0,1,2]],"c":""}'), world.index, PARTITIONS)
    outputs = Outputs(CONFIG)
    assert not task.scan(task.scans[0], [], 6, outputs)
    assert task.scan(task.scans[0], [], 7, outputs)
    assert task.scans == []


def test_a_record_that_is_no_event_is_set_aside_once_and_not_again_by_a_scan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    bad = Record(TP, 0, 5, b"k", b"payload", [("ce_type", b"a")])
    world.records.append(bad)
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        world.run()
    world.register("w", "a", 0)
    world.run()
    assert world.dead == [b"payload"]
    assert "b-event[0]@0" in caplog.text
    assert world.committed.offset == 1


def test_an_event_larger_than_an_internal_record_is_set_aside_by_its_coordinates_hash_and_beginning() -> None:
    world = World()
    w = world.register("w", "a", 0)
    world.append("a", 5, value=b"0" * MAX_INTERNAL_BYTES)
    outputs = Outputs(CONFIG)
    task = world.task()
    outputs = world.run_pass(task, FAR, 0)
    [dead] = outputs.records
    about = dict(dead.headers or ())
    assert len(dead.value or b"") < 100_000
    assert about["interlock_origin"] == b"b-event[0]@0"
    assert about["interlock_size"] == str(MAX_INTERNAL_BYTES).encode()
    assert len(about["interlock_sha256"] or b"") == 64
    world.commit(task, outputs)
    assert world.reached(w) == []
    world.register("later", "a", 0)
    world.run()
    assert len(world.dead) == 1


def test_more_targets_than_a_record_holds_travel_in_several_records() -> None:
    world = World()
    made = [world.register(f"w{n}", "a", 0) for n in range(9000)]
    world.append("a", 5)
    world.run()
    assert len(world.matches) > PARTITIONS
    assert all(world.reached(w) == [0] for w in made[::1000])
    assert sum(len(match.targets) for _, match in world.matches) == len(made)


def test_while_there_is_no_room_for_another_scan_r_waits() -> None:
    world = World()
    world.append("a", 5)
    world.run()
    made = []
    for n in range(MAX_SCANS + 3):
        made.append(world.register(f"w{n}", "a", 0))
        world.run(back=0)
    task = world.task()
    assert len(task.scans) == MAX_SCANS
    assert task.applied == MAX_SCANS
    assert len(world.committed.metadata) <= 4096
    for _ in range(MAX_SCANS + 3):
        world.run()
    assert [world.reached(w) for w in made] == [[0]] * len(made)


def test_registrations_beyond_r_are_not_live_yet() -> None:
    """A new owner may have read more of the registry than the committed R says."""
    world = World()
    w = world.register("w", "a", 0)
    record = world.append("a", 5)
    task, outputs = world.task(), Outputs(CONFIG)
    task.match(record, outputs, 0.0)
    assert outputs.records == []
    world.commit(task, outputs)
    world.run()
    assert world.reached(w) == [0]


ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(["a", "ab", "aaba"]), st.integers(-2, 3), st.integers(0, 2)),
    st.tuples(st.just("register"), st.sampled_from("aab"), st.integers(-9, 2), st.just(0)),
    st.tuples(st.just("pass"), st.sampled_from([True, True, False]), st.integers(0, 3), st.integers(0, 5)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_every_event_since_reaches_each_registration_once_and_in_order(
    actions: Sequence[tuple[str, str | bool, int, int]],
) -> None:
    """Any log with gaps and clocks that go back, registrations anywhere, slices of any size, any crash."""
    world = World()
    made: list[tuple[Registration, str]] = []
    task, clock = world.task(), 100
    for what, which, one, other in actions:
        if what == "append":
            for event_type in str(which):
                clock += one
                world.append(event_type, clock, gap=other)
        elif what == "register":
            made.append((world.register(f"w{len(made)}", str(which), clock + one), str(which)))
        else:
            outputs = world.run_pass(task, live=one, back=other)
            if which:
                world.commit(task, outputs)
            else:
                task = world.task()  # crashed before the commit
    while True:
        task = world.task()
        world.commit(task, world.run_pass(task, 2, 2))
        at_end = not world.records or task.position > world.records[-1].offset
        if at_end and not task.scans and not task.needs_apply(world.registry):
            break
    for registration, event_type in made:
        expected = [
            r.offset
            for r in world.records
            if dict(r.headers or ())["ce_type"] == event_type.encode()
            and r.timestamp_ms >= registration.since_ms
        ]
        assert world.reached(registration) == expected
