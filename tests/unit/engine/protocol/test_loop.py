"""The loop, over Kafka in memory: what it commits, in which order it takes over, and what stops it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.errors import EngineError
from interlock.engine.protocol import housekeeping, loop, outputs
from interlock.engine.protocol.context import Clocks
from interlock.engine.protocol.partitions import registry_reader
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.records import (
    BusRecord,
    MatchRecord,
    OffsetMetadata,
    Registration,
    encode_json,
    registry_key,
)

from tests.kit import pool as pools
from tests.kit.pool import CONFIG, EVENT, REGISTRY, STATE, TRIGGER, Pool

PAIR = Registration.of("pair", event("x") & event("y"), None, 0)
ONE = Registration.of("one", event("x"), None, 0)


def test_two_hops_and_a_firing_with_the_offsets_of_both() -> None:
    pool = Pool(PAIR)
    pool.emit("x")
    pool.emit("y")
    pool.start()
    assert pool.fired() == [("pair", "met")]
    assert pool.committed(EVENT).offset == 2
    assert pool.metadata(TRIGGER).applied == pool.metadata(EVENT).applied == pool.log(REGISTRY).end


def test_a_pass_with_nothing_to_do_commits_nothing() -> None:
    pool = Pool.started()
    before = pool.buses["one"].calls.count("commit")
    pool.run(100)
    assert pool.buses["one"].calls.count("commit") == before


def test_each_transaction_says_who_committed_it_and_its_number() -> None:
    pool = Pool.started()
    before = pool.metadata(EVENT)
    pool.emit("x")
    pool.run()
    after = pool.metadata(EVENT)
    assert (before.committer, after.committer) == ("one", "one")
    assert after.transaction > before.transaction


def test_an_engine_that_starts_again_does_not_count_its_transactions_from_the_same_number() -> None:
    """Otherwise an earlier state in another engine could look like the latest."""
    pool = Pool.started()
    before = pool.metadata(EVENT).transaction
    pool.engines.pop("one").close()
    pool.boot()
    pool.emit("x")
    pool.run()
    assert pool.metadata(EVENT).transaction > before


def test_a_partition_is_taken_over_in_the_order_that_misses_no_state() -> None:
    """Stable offsets, then the end of the state, and only then is anything fetched."""
    pool = Pool.started()
    calls = pool.buses["one"].calls
    assert calls.index("committed") < calls.index(f"end {STATE.topic}") < calls.index("start")


def test_a_takeover_waits_for_the_open_transaction_of_the_owner_before() -> None:
    pool = Pool()
    transaction = pool.open_transaction("other", EVENT)
    engine = pool.start(passes=5)
    assert not engine.is_open
    assert f"end {STATE.topic}" not in pool.buses["one"].calls
    pool.cluster.end(transaction, commit=False)
    pool.run(5)
    assert engine.is_open


def test_the_state_of_a_half_met_condition_is_found_by_the_next_engine() -> None:
    pool = Pool(PAIR)
    pool.emit("x")
    pool.start()
    pool.kill()
    assert pool.fired() == []
    pool.emit("y")
    pool.start("two")
    assert pool.fired() == [("pair", "met")]


@pytest.mark.parametrize("aborts", [1, 2, loop.MOST_ABORTS - 1])
def test_an_aborted_transaction_is_done_again_from_what_is_committed(aborts: int) -> None:
    pool = Pool.started()
    pool.register(PAIR)
    pool.emit("x")
    pool.emit("y")
    pool.buses["one"].aborts = aborts
    pool.run(60)
    assert pool.fired() == [("pair", "met")]
    assert len(pool.records(TRIGGER)) == 2
    assert pool.engines["one"].stats.aborted == aborts


def counts(aborts: int) -> dict[str, int]:
    """The counters of an engine that does a bit of everything."""
    pool = Pool()
    changed = event("x", by="data.k") & event("z", by="data.k")
    pool.register(Registration.of("changed", changed.expires(after="1h"), None, 0, kind="durable"))
    pool.boot()
    bus = pool.buses["one"]
    pool.run(5)

    def work() -> None:
        bus.aborts = aborts
        pool.run(30)

    pool.emit("x", {"k": 1})
    pool.emit("x", {"k": 2})
    work()
    pool.register(PAIR)
    pool.register(Registration.of("late", (event("y") & event("never")).expires(after="10s"), None, 0))
    pool.emit("y")
    pool.write(EVENT, None, b"no event")
    work()
    pool.register(Registration.of("changed", changed.within("2h"), None, 0, kind="durable"))
    work()
    pool.cluster.now_ms += 20_000
    work()
    stats = pool.engines["one"].stats
    assert stats.aborted == 4 * aborts
    return {
        name: value
        for name, value in vars(stats).items()
        if isinstance(value, int) and name not in ("aborted", "transactions", "cuts")
    }


def test_what_was_aborted_is_not_counted_twice() -> None:
    expected = counts(0)
    done = {"consumed", "filtered", "matched", "stepped", "fired", "expired", "scanned"}
    done |= {"dead_lettered", "keys_dropped"}
    assert {name for name in done if not expected[name]} == set()
    assert counts(1) == expected


def test_an_engine_that_gives_up_after_aborts_leaves_nothing_for_the_next_to_count_again() -> None:
    pool = Pool()
    engine = pool.start(passes=5)
    pool.emit("x")
    pool.buses["one"].aborts = loop.MOST_ABORTS
    with pytest.raises(EngineError, match="in a row"):
        pool.run(30)
    assert engine.stats.consumed == 0


def test_events_that_met_no_registration_are_counted_and_nothing_else() -> None:
    pool = Pool(ONE)
    engine = pool.start(passes=5)
    for kind in ("x", "a", "b"):
        pool.emit(kind)
    pool.write(EVENT, None, b"no event")
    pool.buses["one"].aborts = 1
    pool.run(20)
    pool.register(Registration.of("looks back", event("a"), None, 0))
    pool.run(20)
    stats = engine.stats
    assert stats.scanned > 0
    # Three events, what is none, and the two matches in the trigger topic.
    assert (stats.consumed, stats.filtered, stats.matched, stats.dead_lettered) == (6, 2, 2, 1)


@pytest.mark.parametrize("trouble", ["an abort", "a rebalance"])
def test_the_state_is_not_read_again_after(trouble: str) -> None:
    pool = Pool(PAIR)
    pool.emit("x")
    pool.start()
    read = pool.engines["one"].stats.recovered_records
    if trouble == "an abort":
        pool.buses["one"].aborts = 1
    else:
        pool.cluster.rebalance()
        pool.run()
        assert pool.engines["one"].stats.recovered_records == read
    pool.emit("y")
    pool.run()
    assert pool.engines["one"].stats.recovered_records == read
    assert pool.fired() == [("pair", "met")]


def test_aborts_without_end_are_an_error_and_the_next_engine_starts_again() -> None:
    pool = Pool()
    pool.boot()
    pool.buses["one"].aborts = 99
    with pytest.raises(EngineError, match=f" {loop.MOST_ABORTS} transactions in a row"):
        pool.run(200)


def test_records_of_a_lost_assignment_are_not_processed() -> None:
    pool = Pool(ONE)
    engine = pool.start()
    pool.cluster.rebalance()
    pool.emit("x")
    engine.run_pass()
    assert engine.partitions == ()
    assert pool.records(TRIGGER) == []
    pool.run()
    assert pool.fired() == [("one", "met")]


def test_what_a_batch_holds_beyond_a_transaction_is_kept_for_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outputs, "MAX_PASS_RECORDS", 10)
    pool = Pool.started(Registration.of("many", event("x"), None, 0, kind="durable"))
    pool.emit("x", times=95)
    pool.run(100)
    assert len(pool.fired()) == 95
    assert pool.buses["one"].most_records <= 2 * 10  # matches of one hop, and firings of the other


def test_the_rest_of_a_batch_is_forgotten_with_the_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_PASS_RECORDS", 10)
    pool = Pool(Registration.of("many", event("x"), None, 0, kind="durable"))
    engine = pool.start()
    pool.emit("x", times=40)
    engine.run_pass()
    assert 0 < len(pool.records(TRIGGER)) < 40
    pool.cluster.rebalance()
    pool.run(60)
    assert len(pool.records(TRIGGER)) == len(pool.fired()) == 40


def test_a_commit_beyond_the_registry_stops_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may commit for the group could end every engine, for ever."""
    monkeypatch.setattr(registry_reader, "STALL_S", -1.0)
    pool = Pool(ONE, events=2)
    other = TopicPartition(EVENT.topic, 1)
    text = encode_json(OffsetMetadata(applied=10**6, topic_id=pool.topic_id(EVENT.topic))).decode()
    pool.commit_by_hand(EVENT, 0, text)
    engine = pool.start()
    pool.emit("x", partition=1)
    pool.run()
    assert pool.fired() == [("one", "met")]
    [text] = engine.problems.all()
    assert text.startswith(f"{EVENT} is stopped: its committed offset says that the registry was read up to")
    assert f"topics resume {EVENT.topic} 0 --from" in text
    assert pool.committed(other).offset == 1
    pool.resume(EVENT, 0)
    pool.run(60)
    assert engine.problems.all() == []
    assert pool.log(REGISTRY).end >= pool.metadata(EVENT).applied


def test_a_registration_applied_on_idle_partitions_is_committed_within_a_second() -> None:
    pool = Pool.started()
    before = pool.committed(EVENT)
    pool.register(PAIR)
    pool.run(3)
    assert pool.committed(EVENT) == before
    pool.run(30)
    assert pool.metadata(EVENT).applied == pool.metadata(TRIGGER).applied == pool.log(REGISTRY).end


def test_a_registration_applied_on_idle_partitions_is_committed_as_soon_while_others_are_busy() -> None:
    """Timers of the registration wait for it."""
    pool = Pool.started(Registration.of("busy", event("x"), None, 0, kind="durable"), events=2)
    pool.register(PAIR)
    for _ in range(40):
        pool.emit("x", partition=1)
        pool.run(1)
    assert pool.metadata(EVENT).applied == pool.metadata(TRIGGER).applied == pool.log(REGISTRY).end


def test_a_filter_that_fails_is_counted_live_and_in_scans() -> None:
    pool = Pool()
    engine = pool.start()
    pool.emit("x")
    pool.run()
    pool.register(Registration.of("back", event("x", where="data.n > 1"), None, 0))
    pool.run()
    pool.emit("x")
    pool.run()
    assert sum(engine.take_filter_errors().values()) == 2
    assert not engine.take_filter_errors()


def test_a_pass_ends_early_where_filters_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the group takes the engine for dead, and the next owner is as slow."""
    pool = Pool(Registration.of("many", event("x"), None, 0, kind="durable"))
    engine = pool.start()
    match = SourceTask.match

    def slow(*args: Any) -> bool:
        pool.cluster.now_ms += 300
        return match(*args)

    monkeypatch.setattr(SourceTask, "match", slow)
    pool.emit("x", times=20)
    assert engine.run_pass() == 4
    pool.run(40)
    assert len(pool.fired()) == 20


def test_a_topic_that_was_created_again_repeats_nothing_of_a_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MOST_S", 0.0)  # a record a pass
    pool = Pool(topics=("orders",))
    pool.write(TopicPartition("orders", 0), b"k", b"1")
    pool.register(Registration.of("many", event("x"), None, 0, kind="durable"))
    engine = pool.start()
    pool.emit("x", times=10)
    pool.run(3)
    assert 0 < len(pool.records(TRIGGER)) < 10
    # The engine finds it before the group does, whose rebalance would drop the backlog.
    monkeypatch.setattr(pool.cluster, "partitions_changed", lambda: False)
    pool.cluster.delete("orders")
    pool.cluster.create("orders", 1)
    pool.write(TopicPartition("orders", 0), b"k", b"1")  # so that the position is one of the new topic, too
    pool.cluster.now_ms += int(housekeeping.TOPICS_S * 1000)
    pool.run(60)
    assert TopicPartition("orders", 0) in engine.ownership.unread
    assert len(pool.records(TRIGGER)) == len(pool.fired()) == 10


def test_a_registry_that_cannot_be_read_to_its_end_is_an_error_that_says_where_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool()
    monkeypatch.setattr(pools.RecordingBus, "end_offsets", lambda self, tps: dict.fromkeys(tps, 5))
    ticks = iter(range(0, 10_000, 20))
    with pytest.raises(EngineError, match=r"b-subscription\[0\] could not be read up to offset 5: .* 1"):
        loop.Engine(
            pools.RecordingBus(pool.cluster, "one"),
            CONFIG,
            parts=EngineParts(clocks=Clocks(monotonic=lambda: float(next(ticks)))),
        )


def test_closing_leaves_the_group_so_that_another_takes_over_at_once() -> None:
    pool = Pool(PAIR)
    pool.emit("x")
    pool.start()
    pool.engines.pop("one").close()
    assert not pool.cluster.group.members
    pool.emit("y")
    pool.start("two", passes=10)
    assert pool.fired() == [("pair", "met")]


def test_a_partition_is_first_committed_with_a_record_that_it_is_in_use() -> None:
    pool = Pool.started()
    keys = [key for key, _ in pool.records(REGISTRY)]
    assert keys.count(registry_key("source", *EVENT)) == keys.count(registry_key("source", *TRIGGER)) == 1
    writer = next(
        entry.transaction
        for _, entry in pool.log(REGISTRY).history()
        if entry.key == registry_key("source", *EVENT)
    )
    assert EVENT in writer.offsets
    pool.kill()
    pool.start("two")
    assert [key for key, _ in pool.records(REGISTRY)] == keys


def test_a_topic_that_is_listed_later_is_read_without_a_restart() -> None:
    pool = Pool()
    pool.cluster.create("orders", 1)
    orders = TopicPartition("orders", 0)
    pool.write(orders, b"before", b"1")
    pool.register(Registration.of("w", event("org.apache.kafka.record", subject="after"), None, 0))
    pool.start()
    pool.write_bus_record(BusRecord(partitions=1, topics=("orders",)))
    pool.run()
    assert pool.committed(orders).offset == 1
    pool.write(orders, b"after", b"2")
    pool.run()
    assert pool.fired() == [("w", "met")]
    pool.write_bus_record(BusRecord(partitions=1))
    pool.run()
    assert orders not in pool.engines["one"].partitions


def test_a_listed_topic_is_read_from_its_end_and_since_brings_what_came_before() -> None:
    pool = Pool(topics=("orders",))
    orders = TopicPartition("orders", 0)
    for n in range(5):
        pool.write(orders, b"k", b"%d" % n)
        pool.cluster.now_ms += 1000
    back = pool.cluster.now_ms - 2500
    pool.register(Registration.of("w", event("org.apache.kafka.record"), None, back, kind="durable"))
    pool.start()
    offsets = [msgspec.msgpack.decode(v or b"", type=MatchRecord).offset for _, v in pool.records(TRIGGER)]
    assert offsets == [3, 4]
    assert pool.metadata(orders).scans == []


def test_a_partition_that_is_added_is_read_from_its_start() -> None:
    pool = Pool.started(Registration.of("w", event("x"), None, 0))
    pool.cluster.add_partitions(EVENT.topic, 2)
    pool.emit("x", partition=1)
    pool.run(80)  # until the group has seen it
    assert pool.fired() == [("w", "met")]
