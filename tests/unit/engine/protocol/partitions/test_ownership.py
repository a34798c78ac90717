"""Ownership: each row of docs/understand/engine/partitions.md; what a new assignment keeps."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.engine.bus import Batch, Committed, TopicPartition
from interlock.engine.errors import EngineError, TopicsError
from interlock.engine.protocol.partitions import recovery
from interlock.engine.records import Registration

from tests.kit.pool import EVENT, REGISTRY, STATE, TRIGGER, Pool
from tests.unit.engine.protocol.taken_over import EACH, OTHER, PAIR, metadata, stopped, used

# -- the table


def test_a_partition_without_a_committed_offset_and_without_a_source_record_begins() -> None:
    pool = Pool()
    pool.emit("x")
    pool.start()
    assert stopped(pool) == {}
    assert pool.committed(EVENT).offset == 1


def test_a_partition_whose_committed_offset_is_gone_stops() -> None:
    pool = used()
    del pool.cluster.group.offsets[EVENT]
    pool.start()
    assert list(stopped(pool)) == [EVENT]
    assert "the group's committed offset no longer exists" in stopped(pool)[EVENT]
    assert "airflow interlock topics resume b-event 0 --from start|end|OFFSET --bus b" in stopped(pool)[EVENT]


def test_a_partition_whose_next_records_were_removed_stops_and_the_others_continue() -> None:
    pool = used(2, EACH)
    for number in (0, 1):
        pool.emit("x", partition=number, times=4)
    pool.cluster.delete_below(EVENT, 5)
    engine = pool.start()
    assert list(stopped(pool)) == [EVENT]
    assert "records 3 to 4 were removed before they were read" in stopped(pool)[EVENT]
    assert engine.problems.all() == [stopped(pool)[EVENT]]
    assert pool.committed(EVENT).offset == 3
    assert pool.committed(OTHER).offset == 7


def test_a_partition_at_the_first_existing_record_continues() -> None:
    pool = used()
    pool.emit("x")
    pool.cluster.delete_below(EVENT, 3)
    pool.start()
    assert stopped(pool) == {}
    assert pool.committed(EVENT).offset == 4


def test_a_partition_of_a_topic_that_was_created_again_stops() -> None:
    pool = used()
    kept = pool.committed(EVENT)
    pool.cluster.delete(EVENT.topic)
    pool.cluster.create(EVENT.topic, 1)
    pool.emit("x", times=5)
    pool.cluster.group.offsets[EVENT] = kept
    pool.start()
    assert "was deleted and created again" in stopped(pool)[EVENT]


def test_a_partition_that_ends_before_its_committed_offset_stops() -> None:
    pool = used()
    pool.cluster.group.offsets[EVENT] = Committed(9, metadata(pool, EVENT))
    pool.start()
    assert "the committed offset 9 lies beyond its end 3" in stopped(pool)[EVENT]


def test_an_offset_that_an_administrator_committed_is_taken_as_it_is() -> None:
    """Nothing is known of what was seen: registrations are applied again, marks drop what was evaluated."""
    pool = used(1, EACH)
    assert len(pool.fired()) == 3
    pool.commit_by_hand(EVENT, 1)
    pool.start()
    assert stopped(pool) == {}
    assert pool.committed(EVENT).offset == 3
    assert len(pool.fired()) == 3


def test_a_partition_that_loses_records_while_it_is_read_stops_and_the_others_continue() -> None:
    """The client says "offset out of range"; this engine made the last commit itself."""
    pool = Pool(EACH, events=2)
    engine = pool.start()
    pool.emit("x", times=5)
    pool.cluster.delete_below(EVENT, 4)
    pool.run()
    assert list(stopped(pool)) == [EVENT]
    assert "records 0 to 3 were removed" in stopped(pool)[EVENT]
    pool.emit("x", partition=1)
    pool.run()
    assert len(pool.fired()) == 1
    assert OTHER in engine.partitions


def test_a_topic_that_is_created_again_under_a_running_engine_stops_within_half_a_minute() -> None:
    pool = Pool(topics=("orders",))
    orders = TopicPartition("orders", 0)
    pool.start()
    kept = pool.committed(orders)
    pool.cluster.delete("orders")
    pool.cluster.create("orders", 1)
    pool.cluster.group.offsets[orders] = kept
    pool.cluster.group.counts["orders"] = 1  # it continues before the group looks
    pool.run(40, pass_ms=1000)
    assert "was deleted and created again" in stopped(pool)[orders]


# -- metadata that cannot be read

UNREADABLE = ['{"v":1', "nonsense", '{"v":99,"R":1}', '{"v":1,"R":"x"}']


@pytest.mark.parametrize("text", UNREADABLE)
@pytest.mark.parametrize("tp", [EVENT, TRIGGER])
def test_a_partition_whose_metadata_cannot_be_read_stops_and_the_others_continue(
    tp: TopicPartition, text: str
) -> None:
    pool = used(2, EACH)
    before = pool.committed(tp)
    pool.commit_by_hand(tp, before.offset, text)
    pool.boot()
    pool.emit("x", partition=1)
    pool.run()
    assert list(stopped(pool)) == [tp]
    assert f"{tp} is stopped: its committed offset holds " in stopped(pool)[tp]
    assert f"airflow interlock topics resume {tp.topic} {tp.partition} --from" in stopped(pool)[tp]
    assert pool.committed(OTHER).offset == 4
    pool.resume(tp, before.offset)
    pool.emit("x")
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 8


@pytest.mark.parametrize("text", UNREADABLE)
def test_timers_wait_for_a_partition_whose_metadata_cannot_be_read_and_stop_nobody(text: str) -> None:
    pool = used(2)
    pool.commit_by_hand(EVENT, 3, text)
    engine = pool.boot()
    pool.register(Registration.of("w", event("x").expires(after="10s"), None, pool.cluster.now_ms))
    pool.run(80, pass_ms=1000)
    assert "b-event[0], which is stopped: its committed offset holds" in engine.cuts.waits_for
    assert pool.fired() == []
    pool.resume(EVENT, 3)
    pool.run(10)
    assert pool.fired() == [("w", "expired")]
    assert not pool.actions()[0]["firing"]["incomplete"]


# -- internal topics that are kept whole


@pytest.mark.parametrize(
    ("tp", "contents"),
    [(STATE, "half-met conditions"), (REGISTRY, "registrations")],
    ids=["state", "registry"],
)
def test_an_internal_partition_whose_records_were_removed_is_not_read(
    tp: TopicPartition, contents: str
) -> None:
    pool = used(1, PAIR)
    assert pool.log(tp).end > 1
    pool.cluster.delete_below(tp, 1)
    with pytest.raises(TopicsError) as caught:
        pool.start()
    assert caught.value.problems == (
        f"Records 0 to 0 of {tp} were removed, and possibly {contents} with them.",
        "Create a bus with another name, and let the waits register there.",
    )


def test_what_compaction_removed_was_not_lost() -> None:
    pool = used(1, PAIR)
    pool.run(2)
    for tp in (STATE, REGISTRY):
        pool.cluster.compact(tp.topic, 0, pool.log(tp).end)
    pool.boot()
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")]


# -- what is kept over a change of the assignment


def test_a_partition_that_another_engine_had_in_between_is_read_again() -> None:
    pool = Pool(PAIR)
    pool.start("one")
    bus = pool.buses["one"]
    pool.cluster.leave(bus._member)
    pool.boot("two")
    pool.emit("x")
    pool.run(30, "two")
    pool.kill("two")
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")]


def test_a_recovery_that_a_rebalance_cut_short_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-loaded state is not used, although nobody has committed since."""
    pool = Pool()
    for n in range(5):
        pool.register(Registration.of(f"pair{n}", event("x") & event("y"), None, 0))
    pool.emit("x")
    pool.start()
    pool.kill()
    pool.boot("two")
    slow = recovery.Recovery.advance
    turns = iter([False] * 3)
    monkeypatch.setattr(recovery.Recovery, "advance", lambda self: next(turns, True) and slow(self))
    pool.run(2)
    assert pool.engines["two"].ownership.triggers
    assert not pool.engines["two"].is_open
    pool.cluster.rebalance()
    pool.run()
    pool.emit("y")
    pool.run()
    assert len(pool.fired()) == 5


def test_an_engine_that_the_group_has_excluded_is_not_open_until_it_is_assigned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was open meanwhile: errors of which waiting tasks had been told seemed to have passed."""
    pool = Pool()
    engine = pool.start()
    assert engine.is_open
    with monkeypatch.context() as excluded:
        excluded.setattr(pool.buses["one"], "poll", lambda *_: Batch([], lost=True))
        engine.run_pass()
        engine.run_pass()
    assert not engine.is_open
    pool.cluster.rebalance()
    pool.run()
    assert engine.is_open


def test_a_state_partition_that_cannot_be_read_to_its_end_is_an_error_that_says_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = used(1, PAIR)
    pool.cluster.init_producer("nobody")
    transaction = pool.cluster.begin("nobody", pool.cluster.producers["nobody"].epoch)
    pool.cluster.write(transaction, STATE, b"k", b"v", None)
    pool.boot()
    with pytest.raises(EngineError, match=r"State could not be read: b-state\[0\] up to "):
        pool.run(80, pass_ms=1000)


def test_an_engine_that_a_transaction_holds_back_for_long_says_so_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Pool()
    engine = pool.boot("one")
    monkeypatch.setattr(pool.buses["one"], "committed", lambda _, stable=True: None if stable else {})
    pool.run(10, pass_ms=2_500)
    assert engine.problems.unread() == []
    with caplog.at_level("WARNING", "interlock.engine"):
        pool.run(20, pass_ms=2_500)
    [text] = engine.problems.unread()
    assert text.startswith(f"{EVENT} and 1 other partition cannot be taken over yet")
    assert [record.getMessage() for record in caplog.records].count(text) == 1
    monkeypatch.undo()
    pool.run(10)
    assert engine.is_open
    assert engine.problems.unread() == []
