"""The loop, over a bus in memory: what it commits, in which order it takes over, and what stops it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from interlock import Event, event
from interlock.engine.bus import Batch, Committed, End, Output, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, TransactionAborted, UnknownVersion
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.events.kafka import encode

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
EVENT, TRIGGER, STATE, ACTION, REGISTRY, DEAD = (
    TopicPartition(f"b-{kind}", 0)
    for kind in ("event", "trigger", "state", "action", "subscription", "dead-letter")
)


class FakeReader:
    def __init__(self, bus: FakeBus) -> None:
        self.bus = bus
        self.positions: dict[TopicPartition, int] = {}
        self.told: set[tuple[TopicPartition, int]] = set()

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions, self.told = dict(positions), set()
        self.bus.calls.extend(f"read {tp.topic}" for tp in positions)

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        taken: list[Record | End] = []
        for tp, position in self.positions.items():
            new = self.bus.log.get(tp, [])[position:]
            taken.extend(new)
            self.positions[tp] = position + len(new)
            if (tp, self.positions[tp]) not in self.told:
                self.told.add((tp, self.positions[tp]))
                taken.append(End(tp, self.positions[tp]))
        return taken

    def close(self) -> None:
        self.bus.calls.append("close reader")


class FakeBus:
    """One partition of each topic; `aborts` and `unstable` are how many times to be difficult."""

    transactional_id = "me"

    def __init__(self) -> None:
        self.log: dict[TopicPartition, list[Record]] = {}
        self.offsets: dict[TopicPartition, Committed] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.calls: list[str] = []
        self.transactions: list[tuple[Sequence[Output], Mapping[TopicPartition, Committed], object]] = []
        self.news: list[Batch] = [Batch([], (EVENT, TRIGGER), membership="m0")]
        self.membership = "m1"
        self.aborts = self.unstable = 0

    def append(self, tp: TopicPartition, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        log = self.log.setdefault(tp, [])
        log.append(Record(tp, len(log), 1000 + len(log), key, value, headers))

    def poll(self, most: int, timeout_s: float) -> Batch:
        if self.news:
            return self.news.pop(0)
        records: list[Record] = []
        for tp, position in self.positions.items():
            records.extend(self.log.get(tp, [])[position:])
            self.positions[tp] = len(self.log.get(tp, []))
        return Batch(records, membership=self.membership)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self.calls.append("start")
        self.positions = dict(positions)

    def committed(self, partitions: Iterable[TopicPartition]) -> Any:
        self.calls.append("committed")
        if self.unstable:
            self.unstable -= 1
            return None
        return {tp: self.offsets.get(tp) for tp in partitions}

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        asked = list(partitions)
        self.calls.extend(f"end {tp.topic}" for tp in asked)
        return {tp: len(self.log.get(tp, [])) for tp in asked}

    def offsets_since(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Any:
        return {
            tp: next((r.offset for r in self.log.get(tp, []) if r.timestamp_ms >= timestamp_ms), None)
            for tp in partitions
        }

    def reader(self) -> FakeReader:
        return FakeReader(self)

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> None:
        if self.aborts:
            self.aborts -= 1
            raise TransactionAborted("a rebalance in the middle")
        assert offsets, "a transaction without offsets is not fenced"
        self.transactions.append((outputs, offsets, membership))
        for o in outputs:
            self.append(TopicPartition(o.topic, 0), o.key, o.value, o.headers)
        self.offsets.update(offsets)

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.calls.append("delete")

    def close(self) -> None:
        self.calls.append("close")

    # -- what others write

    def emit(self, event_type: str, event_id: str) -> None:
        self.append(EVENT, *encode(Event.of(event_type, "/s", id=event_id)))

    def register(self, registration: Registration) -> None:
        key = RegistrationKey(registration.incarnation, "n").encode()
        self.append(REGISTRY, key, encode_json(registration))

    def fired(self) -> list[str]:
        return [msgspec.json.decode(r.value or b"")["subscription"] for r in self.log.get(ACTION, [])]


W = Registration.of("w", event("x") & event("y"), None, 0)


def run(bus: FakeBus, passes: int = 12) -> Engine:
    engine = Engine(bus, CONFIG, 1)
    for _ in range(passes):
        engine.run_pass()
    return engine


def test_two_hops_and_a_firing_with_every_offset_and_the_membership_of_the_poll() -> None:
    bus = FakeBus()
    bus.register(W)
    bus.emit("x", "1")
    bus.emit("y", "2")
    run(bus)
    assert bus.fired() == ["w"]
    assert {tp: c.offset for tp, c in bus.offsets.items()} == {EVENT: 2, TRIGGER: 2}
    assert {membership for *_, membership in bus.transactions} == {"m1"}


def test_nothing_to_do_commits_nothing() -> None:
    bus = FakeBus()
    run(bus)
    assert bus.transactions == []


def test_a_partition_is_taken_over_in_the_order_that_misses_no_state() -> None:
    """Stable offsets, then the end of the state, then the state, and only then is anything fetched."""
    bus = FakeBus()
    run(bus, 4)
    calls = [c for c in bus.calls if c in ("committed", "end b-state", "read b-state", "start")]
    assert calls[:1] + calls[-1:] == ["committed", "start"]
    assert calls.index("committed") < calls.index("end b-state") < calls.index("start")


def test_a_takeover_waits_for_the_open_transaction_of_the_owner_before() -> None:
    bus = FakeBus()
    bus.unstable = 3
    run(bus, 3)
    assert "end b-state" not in bus.calls
    bus.news = [Batch([], (EVENT, TRIGGER))]
    bus.unstable = 2
    engine = run(bus, 6)
    assert engine.partitions == (EVENT, TRIGGER)


def test_the_state_of_a_half_met_condition_is_found_by_the_next_engine() -> None:
    bus = FakeBus()
    bus.register(W)
    bus.emit("x", "1")
    run(bus)
    assert bus.fired() == []
    bus.news = [Batch([], (EVENT, TRIGGER))]
    bus.emit("y", "2")
    run(bus)
    assert bus.fired() == ["w"]


@pytest.mark.parametrize("aborts", [1, 2, 3])
def test_an_aborted_transaction_is_done_again_from_what_is_committed(aborts: int) -> None:
    bus = FakeBus()
    bus.register(W)
    bus.emit("x", "1")
    bus.emit("y", "2")
    bus.aborts = aborts
    run(bus, 30)
    assert bus.fired() == ["w"]
    assert len(bus.log[TRIGGER]) == 2


def test_records_of_a_lost_assignment_are_not_processed() -> None:
    bus = FakeBus()
    bus.register(W)
    engine = run(bus, 4)
    bus.emit("x", "1")
    bus.news = [Batch([], None, lost=True, membership="m2"), Batch(bus.log[EVENT], membership="m2")]
    engine.run_pass()
    engine.run_pass()
    assert engine.partitions == ()
    assert TRIGGER not in bus.log


@pytest.mark.parametrize("value", [b"rubbish", b"", None, b"\x91\xc3", b"\x97" + b"\x01" * 7])
def test_a_record_in_the_trigger_topic_that_is_no_match_is_set_aside_and_stops_nothing(
    value: bytes | None,
) -> None:
    bus = FakeBus()
    bus.register(W)
    bus.append(TRIGGER, b"k", value)
    bus.emit("x", "1")
    bus.emit("y", "2")
    run(bus)
    assert bus.fired() == ["w"]
    [dead] = bus.log[DEAD]
    assert (dead.key, dead.value) == (b"k", value)
    headers = dict(dead.headers or ())
    assert headers["interlock_stage"] == b"trigger"
    assert headers["interlock_origin"] == b"b-trigger[0]@0"


def test_a_record_that_is_no_match_is_passed_even_where_nothing_follows() -> None:
    bus = FakeBus()
    bus.append(TRIGGER, None, b"rubbish")
    run(bus)
    assert bus.offsets[TRIGGER].offset == 1
    assert len(bus.log[DEAD]) == 1


@pytest.mark.parametrize("value", [[2, "t", 0, 0, 0, [{}, None], []], [2, "another form"]])
def test_a_match_of_a_later_version_is_never_passed_by(value: Any) -> None:
    """It is not lost: the version that wrote it can read it."""
    bus = FakeBus()
    bus.append(TRIGGER, None, msgspec.msgpack.encode(value))
    with pytest.raises(UnknownVersion, match=r"b-trigger\[0\]@0 holds a MatchRecord of version 2"):
        run(bus)
    assert TRIGGER not in bus.offsets


def test_a_registration_applied_on_an_idle_partition_is_committed_within_a_second() -> None:
    bus, now = FakeBus(), [0.0]
    engine = Engine(bus, CONFIG, 1, monotonic=lambda: now[0])
    for _ in range(4):
        engine.run_pass()
    bus.register(W)
    engine.run_pass()
    assert bus.transactions == []
    now[0] += 1.1
    engine.run_pass()
    assert msgspec.json.decode(bus.offsets[EVENT].metadata)["R"] == 1
    now[0] += 1.1
    engine.run_pass()
    assert len(bus.transactions) == 1


def test_a_registry_that_cannot_be_read_to_its_end_is_an_error_that_says_where_it_stands() -> None:
    bus = FakeBus()
    ticks = iter(range(0, 10_000, 20))
    bus.end_offsets = lambda partitions: dict.fromkeys(partitions, 5)  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=r"b-subscription\[0\] could not be read up to offset 5: .* at 0"):
        Engine(bus, CONFIG, 1, monotonic=lambda: float(next(ticks)))


def test_closing_leaves_the_group_and_ends_the_readers() -> None:
    bus = FakeBus()
    run(bus, 4).close()
    assert bus.calls[-3:] == ["close reader", "close reader", "close"]
