"""The event hop: each event reaches each registration once and in order, however reading is interleaved."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event, event
from interlock.conditions import Condition, MatcherIndex
from interlock.engine.bus import Committed, End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol import outputs as outputs_module
from interlock.engine.protocol import scans, source_task
from interlock.engine.protocol.gaps import Gaps
from interlock.engine.protocol.outputs import MAX_PASS_BYTES, Outputs
from interlock.engine.protocol.registry import Registered, Registry
from interlock.engine.protocol.scanning import Scanning
from interlock.engine.protocol.source_task import MAX_TARGETS, SourceTask
from interlock.engine.protocol.stats import Stats
from interlock.engine.records import MatchRecord, Registration, RegistrationKey, encode_json, partition_of
from interlock.engine.sizes import MAX_INLINE_BYTES, MAX_INTERNAL_BYTES, MAX_READ_BYTES, MAX_VALUE_BYTES
from interlock.events.kafka import encode

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-event", 0)
SUBSCRIPTIONS = TopicPartition("b-subscription", 0)
PARTITIONS = 3
FAR = 10**6


class FakeReader:
    """Reads the world's records, as many as `slice` at a time, and tells of the end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._at: int | None = None
        self.slice = FAR

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._at = positions.get(TP)

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


class World:
    """One source partition and the registry as they really are, and what is committed of the hop."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.end = 0
        self.registry = Registry()
        self.index: MatcherIndex[Registered] = MatcherIndex()
        self.committed = Committed(0, "")
        self.matches: list[tuple[int, MatchRecord]] = []  # trigger partition and match, in log order
        self.dead: list[bytes | None] = []
        self.commits = 0
        self.plain = False
        self.reader = FakeReader(self)
        self.scanning = self._scanning()

    def _scanning(self) -> Scanning:
        self.reader = FakeReader(self)
        bus: Any = SimpleNamespace(
            reader=lambda: self.reader, start_offsets=lambda asked: dict.fromkeys(asked, 0)
        )
        return Scanning(bus, self.registry, Stats(), Gaps(self.registry, Stats(), lambda: 0.0), lambda: 0.0)

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
        task = SourceTask(TP, self.committed, self.index, PARTITIONS, Stats(), plain=self.plain)
        task.topic_id = "t"
        return task

    def first_offset(self, applied: int) -> int | None:
        new = self.registry.between(applied, self.registry.position)
        since = min((r.registration.since_ms for r in new), default=None)
        if since is None:
            return None
        return next((r.offset for r in self.records if r.timestamp_ms >= since), None)

    def run_pass(self, task: SourceTask, live: int, back: int) -> Outputs:
        """As the loop does it: the registry, then live records, then a slice of the scans."""
        outputs = Outputs(CONFIG, 2)
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
                assert output.value is not None
                assert len(output.value) <= MAX_VALUE_BYTES
                match = msgspec.msgpack.decode(output.value, type=MatchRecord)
                self.matches.append((output.partition, match))
            else:
                self.dead.append(output.value)
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


# -- live, back, meet


def test_a_registration_without_past_events_is_live_at_once() -> None:
    world = World()
    world.append("a", 10)
    world.run()
    late = world.register("late", "a", 11)
    world.append("a", 11)
    world.run()
    assert not world.task().scans
    assert world.reached(late) == [1]


def test_an_event_stamped_before_since_does_not_count_wherever_it_stands() -> None:
    """Topics of others keep their producers' times, which may go back."""
    world = World()
    world.append("a", 50)
    world.append("a", 9)
    world.run()
    w = world.register("w", "a", 10)
    world.append("a", 8)
    world.append("a", 10)
    world.run()
    world.run()
    assert world.reached(w) == [0, 3]


def test_a_fresh_matcher_counts_no_event_of_before_its_registration_and_the_others_do() -> None:
    world = World()
    for event_type, at_ms in (("a", 50), ("b", 60), ("a", 100), ("a", 99)):
        world.append(event_type, at_ms)
    world.run()
    w = world.register("w", event("a") | event("b"), 10, at_ms=100, generation=1, fresh=(0,))
    world.append("a", 101)
    world.append("b", 99)
    world.run()
    world.run()
    assert world.reached(w) == [1, 2, 4, 5]


def test_an_event_that_meets_a_fresh_matcher_and_another_counts_for_the_other() -> None:
    world = World()
    condition = event("a", label="one") | event("a", label="two")
    w = world.register("w", condition, 10, at_ms=100, generation=1, fresh=(0,))
    world.append("a", 50)
    world.append("a", 100)
    world.run()
    assert [[t.matchers for t in match.targets] for _, match in world.matches] == [[(1,)], [(0, 1)]]
    assert world.reached(w) == [0, 1]


def test_past_events_come_before_live_ones_and_each_once() -> None:
    world = World()
    for n in range(4):
        world.append("a", n)
    world.run()
    back = world.register("back", "a", 1)
    world.run(live=0, back=1)
    assert world.task().scans.metadata() == [(0, 1, 2)]
    world.append("a", 9)
    world.run(back=1)  # the new one is not given to a registration that has not seen those before it
    assert world.reached(back) == [1, 2]
    world.run()
    world.append("a", 10)
    world.run()
    assert world.reached(back) == [1, 2, 3, 4, 5]


def test_others_are_live_while_one_scans() -> None:
    world = World()
    world.append("a", 0)
    world.append("a", 1)
    world.run()
    now = world.register("now", "a", 100)
    world.run(back=0)
    back = world.register("back", "a", 0)
    world.append("a", 100)
    world.run(back=1)
    assert world.reached(now) == [2]
    assert world.reached(back) == [0]


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
    world.append("a", 0)
    world.register("w", "a", 0)
    world.end = 7
    world.committed = Committed(7, '{"v":2,"R":1,"g":[[0,1,2]],"c":"","t":"t"}')
    task = world.task()
    world.run_pass(task, 0, FAR)
    assert not task.scans


def test_registrations_beyond_r_are_not_live_yet() -> None:
    """A new owner may have read more of the registry than the committed R says."""
    world = World()
    w = world.register("w", "a", 0)
    record = world.append("a", 5)
    task, outputs = world.task(), Outputs(CONFIG, 2)
    task.match(record, outputs, 0)
    assert outputs.records == []
    world.commit(task, outputs)
    world.run()
    assert world.reached(w) == [0]


def test_while_there_is_no_room_for_another_scan_r_waits() -> None:
    world = World()
    for n in range(10):
        world.append("a", n)
    world.run()
    made = []
    for n in range(scans.MAX_GROUPS + 6):
        made.append(world.register(f"w{n}", "a", n % 10))
        made.append(world.register(f"live{n}", "a", FAR))  # between them, so that no group is joined
        task = world.task()
        while task.needs_apply(world.registry) and not task.scans.full:
            until = task.applied + 1
            task.apply(until, (until // 2) % 10 if until % 2 else None)
        world.commit(task, Outputs(CONFIG, 2))
    assert len(world.task().scans.groups) == scans.MAX_GROUPS
    assert world.task().applied < world.registry.position
    for _ in range(30):
        world.run()
    assert world.task().applied == world.registry.position
    assert [world.reached(w) for w in made[::2]] == [
        list(range(n % 10, 10)) for n in range(scans.MAX_GROUPS + 6)
    ]


def test_a_rollback_goes_back_to_what_is_committed() -> None:
    world = World()
    for n in range(6):
        world.append("a", n)
    world.run(live=3)
    w = world.register("w", "a", 0)
    task = world.task()
    outputs = world.run_pass(task, 2, 2)
    assert outputs.records
    task.rollback()
    world.scanning.drop()
    assert (task.position, task.applied, task.scans.metadata()) == (3, 0, [])
    assert not task.changed
    world.commit(task, world.run_pass(task, FAR, FAR))
    world.commit(task, world.run_pass(task, FAR, FAR))
    assert world.reached(w) == [0, 1, 2, 3, 4, 5]


def test_metadata_say_who_committed_and_of_which_topic() -> None:
    world = World()
    world.append("a", 1)
    world.register("w", "a", 0)
    task = world.run()
    assert json.loads(world.committed.metadata) == {"v": 2, "R": 1, "g": [], "c": "me", "n": 1, "t": "t"}
    assert task.last == world.task().last == ("me", 1)


def test_a_first_commit_is_due_even_where_nothing_was_read() -> None:
    world = World()
    assert world.task().changed
    world.run()
    assert not world.task().changed


def test_a_registry_position_alone_is_no_change_but_behind() -> None:
    world = World()
    world.run()
    world.register("w", "a", 0)
    task = world.task()
    world.run_pass(task, 0, 0)
    assert (task.changed, task.behind) == (False, True)


# -- poison, and what is large


def test_a_record_that_is_no_event_is_set_aside_once_and_not_again_by_a_scan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.put(b"k", b"payload", [("ce_type", b"a")])
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        world.run()
    world.register("w", "a", 0)
    world.run()
    assert world.dead == [b"payload"]
    assert "b-event[0]@0" in caplog.text
    assert world.committed.offset == 1


def test_an_event_that_only_a_scan_cannot_match_is_set_aside_once_and_the_scan_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    before = world.register("before", "a", 0)
    world.append("a", 5)
    world.append("a", 6)
    world.run()
    w = world.register("w", "a", 0)
    lookup = MatcherIndex.lookup

    def raises(self: MatcherIndex[Registered], made: Event) -> Any:
        if self is not world.index and made.id == "0":
            raise ZeroDivisionError("of a scan's index")
        return lookup(self, made)

    monkeypatch.setattr(MatcherIndex, "lookup", raises)
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        world.run()
    assert (world.reached(before), world.reached(w)) == ([0, 1], [1])
    assert len(world.dead) == 1
    assert "A look-back could not match it" in caplog.text


def test_a_matcher_that_raises_sets_the_event_aside_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    w = world.register("w", "a", 0)
    world.append("a", 5)
    world.append("a", 6)
    task = world.task()
    lookup, calls = world.index.lookup, []

    def raises(made: Event) -> Any:
        calls.append(made)
        if len(calls) == 1:
            raise ZeroDivisionError("of a filter")
        return lookup(made)

    task.apply(1, None)
    monkeypatch.setattr(world.index, "lookup", raises)
    world.commit(task, world.run_pass(task, FAR, 0))
    assert len(world.dead) == 1
    assert world.reached(w) == [1]


@pytest.mark.parametrize("size", [MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, MAX_INTERNAL_BYTES])
def test_data_beyond_what_travels_stay_where_they_are(size: int) -> None:
    world = World()
    w = world.register("w", "a", 0)
    world.append("a", 5, value=b"0" * size)
    world.run()
    assert world.reached(w) == [0]
    made = world.matches[0][1].event
    if size > MAX_INLINE_BYTES:
        assert (made.data, made.attributes["dataref"]) == (None, "kafka:b-event/0/0")
    else:
        assert len(made.data or b"") == size
        assert "dataref" not in made.attributes


def test_a_filter_sees_data_that_do_not_travel() -> None:
    world = World()
    w = world.register("w", event("a", where="data.k == 1"), 0)
    world.append("a", 5, value=json.dumps({"k": 1, "more": "x" * MAX_INLINE_BYTES}).encode())
    world.append("a", 5, value=json.dumps({"k": 2, "more": "x" * MAX_INLINE_BYTES}).encode())
    world.run()
    assert world.reached(w) == [0]


@pytest.mark.parametrize("plain", [False, True])
def test_attributes_that_no_record_has_room_for_set_the_event_aside(plain: bool) -> None:
    """Of a plain record the key becomes the subject."""
    world = World()
    world.plain = plain
    world.register("w", "org.apache.kafka.record" if plain else "a", 0)
    if plain:
        world.put(b"k" * (MAX_READ_BYTES + 1), b"v", None)
    else:
        key, value, headers = encode(Event.of("a", "/s", id="1"))
        world.put(key, value, [*headers, ("ce_subject", b"s" * (MAX_READ_BYTES + 1))])
    world.run()
    assert len(world.dead) == 1
    assert world.matches == []


def test_a_match_with_all_it_may_hold_fits_in_a_record() -> None:
    """The most attributes, the most data, and the longest targets."""
    world = World()
    for n in range(MAX_TARGETS):
        world.register(f"w{n}", event("a", by="data.k"), 0, "ü" * 250, kind="durable")
    key, value, headers = encode(Event.of("a", "/s", id="1", data={"k": "ü" * 250}))
    padding = [("ce_more", b"m" * (MAX_READ_BYTES - 2000))]
    world.put(key, (value or b"") + b" " * (MAX_INLINE_BYTES - len(value or b"")), [*headers, *padding])
    world.run()  # asserts the size of each record
    assert sum(len(match.targets) for _, match in world.matches) == MAX_TARGETS


def test_more_targets_than_a_record_holds_travel_in_several_records() -> None:
    world = World()
    made = [world.register(f"w{n}", "a", 0) for n in range(9000)]
    world.append("a", 5)
    world.run()
    assert len(world.matches) > PARTITIONS
    assert all(len(match.targets) <= MAX_TARGETS for _, match in world.matches)
    assert all(world.reached(w) == [0] for w in made[::1000])
    assert sum(len(match.targets) for _, match in world.matches) == len(made)


def test_a_match_of_a_large_event_has_fewer_targets_for_all_may_fire_in_one_transaction() -> None:
    world = World()
    for n in range(1500):
        world.register(f"w{n}", "a", 0)
    key, value, headers = encode(Event.of("a", "/s", id="1", data="x" * 60_000))
    world.put(key, value, headers)
    world.run()
    assert sum(len(match.targets) for _, match in world.matches) == 1500
    assert all(len(match.targets) * 60_000 <= MAX_PASS_BYTES for _, match in world.matches)


def test_all_matchers_of_a_registration_that_an_event_met_travel_as_one_target() -> None:
    world = World()
    world.register("w", event("a") & event("a", subject="s") & event("b"), 0)
    key, value, headers = encode(Event.of("a", "/s", id="1", subject="s"))
    world.put(key, value, headers)
    world.run()
    [(_, match)] = world.matches
    [target] = match.targets
    assert target.matchers == (0, 1)


def test_one_registration_is_never_divided_over_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event may reach it under several keys, and they are judged as one origin."""
    monkeypatch.setattr(source_task, "MAX_TARGETS", 2)
    world = World()
    two_paths = event("a", by="data.k") & event("a", by="data.l")
    for n in range(9):
        world.register(f"w{n}", two_paths, 0, kind="one-shot", key=None)
    world.append("a", 5, value=b'{"k":"1","l":"2"}')
    world.run()
    seen: set[str] = set()
    for _, match in world.matches:
        here = {target.incarnation for target in match.targets}
        assert not here & seen
        seen |= here
    assert len(seen) == 9


def test_a_durable_subscription_is_spread_by_its_keys_and_a_one_shot_is_not() -> None:
    world = World()
    spread = world.register("d", event("a", by="data.k"), 0, kind="durable")
    once = world.register("o", event("a", by="data.k"), 0)
    for n in range(30):
        world.append("a", 5, value=b'{"k":"%d"}' % n)
    world.run()

    def places(registration: Registration) -> set[int]:
        return {
            partition
            for partition, match in world.matches
            if any(target.incarnation == registration.incarnation for target in match.targets)
        }

    assert places(spread) == set(range(PARTITIONS))
    assert len(places(once)) == 1


def test_a_format_1_bus_gets_matches_of_format_1() -> None:
    world = World()
    world.register("w", "a", 0)
    record = world.append("a", 5)
    task, outputs = world.task(), Outputs(CONFIG, 1)
    task.apply(1, None)
    task.match(record, outputs, 0)
    task.commit_into(outputs, "me", 1)
    [output] = outputs.records
    assert msgspec.msgpack.decode(output.value or b"")[0] == 1
    assert json.loads(outputs.offsets[TP].metadata)["v"] == 1


# -- all of it


ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(["a", "ab", "aaba"]), st.integers(-2, 3), st.integers(0, 2)),
    st.tuples(st.just("register"), st.sampled_from("aab"), st.integers(-9, 2), st.just(0)),
    st.tuples(
        st.just("pass"),
        st.sampled_from(["commit", "commit", "commit", "crash", "rollback"]),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
)


@pytest.mark.parametrize(("positions", "turn", "full"), [(4, 20_000, 10_000), (2, 2, 10_000), (1, 1, 3)])
@settings(max_examples=250, deadline=None)
@given(st.lists(ACTIONS, max_size=50))
def test_every_event_since_reaches_each_registration_once_and_in_order(
    positions: int, turn: int, full: int, actions: Sequence[tuple[str, str, int, int]]
) -> None:
    """Any log with gaps and clocks that go back, registrations anywhere, slices of any size, any crash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "MAX_POSITIONS", positions)
        patch.setattr(scans, "TURN", turn)
        patch.setattr(outputs_module, "MAX_PASS_RECORDS", full)
        _run(actions)


def _run(actions: Sequence[tuple[str, str, int, int]]) -> None:
    world = World()
    made: list[tuple[Registration, str]] = []
    task, clock = world.task(), 100
    for what, which, one, other in actions:
        if what == "append":
            for event_type in which:
                clock += one
                world.append(event_type, clock, gap=other)
        elif what == "register":
            made.append((world.register(f"w{len(made)}", which, clock + one), which))
        else:
            outputs = world.run_pass(task, live=one, back=other)
            if which == "commit":
                world.commit(task, outputs)
            elif which == "crash":
                task = world.task()
            else:
                task.rollback()
                world.scanning.drop()
    for _ in range(2000):
        task = task if world.commits % 3 else world.task()
        world.commit(task, world.run_pass(task, 2, 2))
        if task.position >= world.end and not task.scans and not task.needs_apply(world.registry):
            break
    else:
        pytest.fail("the scans do not end")
    for registration, event_type in made:
        expected = [
            r.offset
            for r in world.records
            if dict(r.headers or ())["ce_type"] == event_type.encode()
            and r.timestamp_ms >= registration.since_ms
        ]
        assert world.reached(registration) == expected
