"""Ownership: each row of docs/engine.md "Lost ranges", how a stopped partition goes on, and what is kept."""

from __future__ import annotations

import msgspec
import pytest
from interlock import Event, event
from interlock.engine.bus import Committed, TopicPartition
from interlock.engine.errors import EngineError, TopicsError
from interlock.engine.protocol import recovery
from interlock.engine.protocol.following import Following
from interlock.engine.records import (
    MatchRecord,
    OffsetMetadata,
    Registration,
    Target,
    encode_json,
    encode_msgpack,
    place_key,
)

from tests.unit.engine.protocol.pool import EVENT, REGISTRY, STATE, TRIGGER, Pool

OTHER = TopicPartition(EVENT.topic, 1)
PAIR = Registration.of("pair", event("x") & event("y"), None, 0)
EACH = Registration.of("each", event("x"), None, 0, kind="durable")


def used(events: int = 1, *registrations: Registration) -> Pool:
    """A bus whose engine has read three events of each partition, and was killed."""
    pool = Pool(events=events)
    for registration in registrations:
        pool.register(registration)
    pool.boot()
    for number in range(events):
        for _ in range(3):
            pool.emit("x", partition=number)
    pool.run()
    pool.kill()
    return pool


def stopped(pool: Pool) -> dict[TopicPartition, str]:
    return pool.engines["one"].ownership.stopped


def metadata(pool: Pool, tp: TopicPartition, **fields: object) -> str:
    return encode_json(OffsetMetadata(**{"R": 1, "t": pool.topic_id(tp.topic), **fields})).decode()  # type: ignore[arg-type]


# -- the table


def test_a_partition_without_a_committed_offset_and_without_a_source_record_begins() -> None:
    pool = Pool()
    pool.emit("x")
    pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert pool.committed(EVENT).offset == 1


def test_a_partition_whose_committed_offset_is_gone_stops() -> None:
    pool = used()
    del pool.cluster.group.offsets[EVENT]
    pool.boot()
    pool.run()
    assert list(stopped(pool)) == [EVENT]
    assert "the group's committed offset is gone" in stopped(pool)[EVENT]
    assert "airflow interlock topics resume b-event 0 --from start|end|OFFSET --bus b" in stopped(pool)[EVENT]


def test_a_partition_whose_next_records_were_removed_stops_and_the_others_go_on() -> None:
    pool = used(2, EACH)
    for number in (0, 1):
        for _ in range(4):
            pool.emit("x", partition=number)
    pool.cluster.delete_below(EVENT, 5)
    engine = pool.boot()
    pool.run()
    assert list(stopped(pool)) == [EVENT]
    assert "records 3 to 4 were removed before they were read" in stopped(pool)[EVENT]
    assert engine.problems.all() == [stopped(pool)[EVENT]]
    assert pool.committed(EVENT).offset == 3
    assert pool.committed(OTHER).offset == 7


def test_a_partition_at_the_first_record_there_is_goes_on() -> None:
    pool = used()
    pool.emit("x")
    pool.cluster.delete_below(EVENT, 3)
    pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert pool.committed(EVENT).offset == 4


def test_a_partition_of_a_topic_that_was_made_again_stops() -> None:
    pool = used()
    kept = pool.committed(EVENT)
    pool.cluster.delete(EVENT.topic)
    pool.cluster.create(EVENT.topic, 1)
    for _ in range(5):
        pool.emit("x")
    pool.cluster.group.offsets[EVENT] = kept
    pool.boot()
    pool.run()
    assert "was deleted and made again" in stopped(pool)[EVENT]


def test_a_partition_that_ends_before_its_committed_offset_stops() -> None:
    pool = used()
    pool.cluster.group.offsets[EVENT] = Committed(9, metadata(pool, EVENT))
    pool.boot()
    pool.run()
    assert "the committed offset 9 lies beyond its end 3" in stopped(pool)[EVENT]


def test_an_offset_that_an_administrator_committed_is_taken_as_it_is() -> None:
    """Nothing is known of what was seen: registrations are applied again, marks drop what was judged."""
    pool = used(1, EACH)
    assert len(pool.fired()) == 3
    pool.commit_by_hand(EVENT, 1)
    pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert pool.committed(EVENT).offset == 3
    assert len(pool.fired()) == 3


def test_a_partition_that_loses_records_while_it_is_read_stops_and_the_others_go_on() -> None:
    """The client says "offset out of range"; this engine made the last commit itself."""
    pool = Pool(events=2)
    pool.register(EACH)
    engine = pool.boot()
    pool.run()
    for _ in range(5):
        pool.emit("x")
    pool.cluster.delete_below(EVENT, 4)
    pool.run()
    assert list(stopped(pool)) == [EVENT]
    assert "records 0 to 3 were removed" in stopped(pool)[EVENT]
    pool.emit("x", partition=1)
    pool.run()
    assert len(pool.fired()) == 1
    assert OTHER in engine.partitions


def test_a_topic_that_is_made_again_under_a_running_engine_stops_within_half_a_minute() -> None:
    pool = Pool(topics=("orders",))
    orders = TopicPartition("orders", 0)
    pool.boot()
    pool.run()
    kept = pool.committed(orders)
    pool.cluster.delete("orders")
    pool.cluster.create("orders", 1)
    pool.cluster.group.offsets[orders] = kept
    pool.cluster.group.counts["orders"] = 1  # it goes on before the group looks
    pool.run(40, pass_ms=1000)
    assert "was deleted and made again" in stopped(pool)[orders]


# -- metadata that cannot be read

UNREADABLE = ['{"v":2', "nonsense", '{"v":99,"R":1}', '{"v":2,"R":"x"}']


@pytest.mark.parametrize("text", UNREADABLE)
@pytest.mark.parametrize("tp", [EVENT, TRIGGER])
def test_a_partition_whose_metadata_cannot_be_read_stops_and_the_others_go_on(
    tp: TopicPartition, text: str
) -> None:
    pool = used(2, EACH)
    before = pool.committed(tp)
    assert before is not None
    pool.commit_by_hand(tp, before.offset, text)
    pool.boot()
    pool.emit("x", partition=1)
    pool.run()
    assert list(stopped(pool)) == [tp]
    assert f"{tp} is not read: its committed offset holds " in stopped(pool)[tp]
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
    assert engine.cuts.waits_for is not None
    assert "b-event[0], which is stopped: its committed offset holds" in engine.cuts.waits_for
    assert pool.fired() == []
    pool.resume(EVENT, 3)
    pool.run(10)
    assert pool.fired() == [("w", "expired")]
    assert not pool.actions()[0]["firing"]["incomplete"]


# -- internal topics that are kept whole


def test_a_state_partition_whose_records_were_removed_is_not_taken_over() -> None:
    pool = used(1, PAIR)
    assert pool.log(STATE).end > 1
    pool.cluster.delete_below(STATE, 1)
    pool.boot()
    with pytest.raises(TopicsError) as caught:
        pool.run()
    assert caught.value.problems == (
        "Records 0 to 0 of b-state[0] were removed, and half-met conditions may be gone with them.",
        "Make a bus of another name, and let the waits register there.",
    )


def test_a_registry_whose_records_were_removed_is_not_read() -> None:
    pool = used(1, PAIR)
    pool.cluster.delete_below(REGISTRY, 2)
    with pytest.raises(TopicsError) as caught:
        pool.boot()
    assert caught.value.problems == (
        "Records 0 to 1 of b-subscription[0] were removed, and registrations may be gone with them.",
        "Make a bus of another name, and let the waits register there.",
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


# -- going on


def test_a_stopped_partition_goes_on_where_an_administrator_says_without_a_restart() -> None:
    pool = used(1, EACH)
    for _ in range(4):
        pool.emit("x")
    pool.cluster.delete_below(EVENT, 5)
    pool.boot()
    pool.run()
    assert len(pool.fired()) == 3
    pool.resume(EVENT, 5)
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 5
    assert pool.committed(EVENT).offset == 7


@pytest.mark.parametrize(("said", "first"), [(-5, 5), (0, 5), (6, 6), (10**9, 7)])
def test_where_a_partition_goes_on_lies_within_what_there_is(said: int, first: int) -> None:
    pool = used(1, EACH)
    for _ in range(4):
        pool.emit("x")
    pool.cluster.delete_below(EVENT, 5)
    pool.resume(EVENT, said)
    pool.boot()
    pool.run()
    assert len(pool.fired()) == 3 + (7 - first)


def test_a_resumption_counts_once() -> None:
    """The source record that the first commit writes stands behind it."""
    pool = used()
    del pool.cluster.group.offsets[EVENT]
    pool.resume(EVENT, 0)
    pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert pool.records(REGISTRY)[-1][0] == place_key("source", *EVENT)
    pool.kill()
    del pool.cluster.group.offsets[EVENT]
    pool.boot()
    pool.run()
    assert list(stopped(pool)) == [EVENT]


def test_a_resumption_for_the_topic_before_it_was_made_again_does_not_count() -> None:
    pool = used()
    pool.resume(EVENT, 0)
    kept = pool.committed(EVENT)
    pool.cluster.delete(EVENT.topic)
    pool.cluster.create(EVENT.topic, 1)
    pool.cluster.group.offsets[EVENT] = kept
    pool.boot()
    pool.run()
    assert list(stopped(pool)) == [EVENT]


def test_a_topic_made_again_goes_on_from_its_start_and_its_events_are_others() -> None:
    pool = used(1, EACH)
    pool.cluster.delete(EVENT.topic)
    pool.cluster.create(EVENT.topic, 1)
    pool.emit("x")
    pool.boot()
    pool.run()
    assert list(stopped(pool)) == [EVENT]
    pool.resume(EVENT, 0)
    pool.run()
    assert len(pool.fired()) == 4


def test_going_on_from_the_start_repeats_nothing() -> None:
    pool = used(1, EACH)
    del pool.cluster.group.offsets[EVENT]
    pool.emit("x")
    pool.resume(EVENT, 0)
    pool.boot()
    pool.run()
    assert len(pool.fired()) == 4


@pytest.mark.parametrize(("said", "fired"), [(0, 3), (1, 2), (3, 0)])
def test_what_is_skipped_where_nothing_is_known_of_a_partition_no_look_back_brings(
    said: int, fired: int
) -> None:
    """Of before the resumption, that is: a later registration looks back."""
    pool = used()
    pool.register(EACH)
    del pool.cluster.group.offsets[EVENT]
    pool.resume(EVENT, said)
    pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == fired
    pool.emit("x")
    pool.run()
    assert len(pool.fired()) == fired + 1
    pool.register(Registration.of("later", event("x"), None, 0))
    pool.run()
    assert len(pool.fired()) == fired + 2


@pytest.mark.parametrize(("said", "fired"), [(0, 3), (1, 3), (2, 1)])
def test_what_is_skipped_beyond_metadata_that_cannot_be_read_no_look_back_brings(
    said: int, fired: int
) -> None:
    """Without a skip all registrations are applied anew, and look back."""
    pool = used()
    pool.register(EACH)
    pool.commit_by_hand(EVENT, 1, "nonsense")
    pool.resume(EVENT, said)
    pool.boot()
    pool.run()
    assert len(pool.fired()) == fired


def test_registrations_that_a_partition_had_not_caught_up_with_look_back_to_what_it_skips() -> None:
    pool = used()
    for _ in range(4):
        pool.emit("x")
    pool.register(EACH)
    pool.cluster.delete_below(EVENT, 5)
    pool.resume(EVENT, 7)
    pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 2


def test_timers_of_a_trigger_partition_of_which_nothing_is_known_are_opened_wherever_it_goes_on() -> None:
    pool = used(1, EACH)
    pool.register(Registration.of("w", event("y").expires(after="10s"), None, pool.cluster.now_ms))
    del pool.cluster.group.offsets[TRIGGER]
    pool.resume(TRIGGER, 3)
    pool.boot()
    pool.run(40, pass_ms=1000)
    assert ("w", "expired") in pool.fired()


# -- topics that are taken out of the list, and listed again

ORDERS = TopicPartition("orders", 0)


def relisted(registration: Registration, *, forgotten: bool = False) -> Pool:
    """A bus that has read two records of a topic, read it no more, and has it again with two more.

    forgotten: the group's offsets of it are gone by then, as they are after a week.
    """
    pool = Pool(topics=(ORDERS.topic,))
    pool.register(registration)
    pool.boot()
    pool.run()
    for value in (b"1", b"2"):
        pool.write(ORDERS, None, value)
    pool.run()
    assert len(pool.fired()) == 2
    pool.write_bus_record(msgspec.structs.replace(pool.record, topics=()))
    for kind in ("source", "resume", "problem"):
        pool.write(REGISTRY, place_key(kind, *ORDERS), None)  # type: ignore[arg-type]
    pool.run()
    for value in (b"3", b"4"):
        pool.write(ORDERS, None, value)
    if forgotten:
        del pool.cluster.group.offsets[ORDERS]
    pool.write_bus_record(pool.record)
    pool.run()
    return pool


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_topic_that_is_listed_again_begins_at_its_end_and_look_backs_bring_what_came_meanwhile(
    forgotten: bool,
) -> None:
    """Nothing that was judged before is judged again."""
    record = Registration.of("r", event("org.apache.kafka.record"), None, 0, kind="durable")
    pool = relisted(record, forgotten=forgotten)
    assert stopped(pool) == {}
    assert pool.committed(ORDERS).offset == 4
    assert len(pool.fired()) == 4


def test_an_owner_that_has_not_read_its_own_source_records_yet_does_not_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Following, "read_new", lambda _: None)
    pool = Pool(topics=(ORDERS.topic,))
    engine = pool.boot()
    pool.run()
    engine.ownership.reopen()
    pool.run()
    assert [key for key, _ in pool.records(REGISTRY)].count(place_key("source", *ORDERS)) == 1


def test_a_topic_that_is_listed_again_is_read_from_its_end() -> None:
    pool = Pool(topics=(ORDERS.topic,))
    pool.register(Registration.of("w", event("org.apache.kafka.record"), None, 10**15))
    pool.commit_by_hand(ORDERS, 1, metadata(pool, ORDERS))
    for _ in range(5):
        pool.write(ORDERS, None, b"1")
    pool.cluster.delete_below(ORDERS, 3)
    engine = pool.boot()
    pool.run()
    assert stopped(pool) == {}
    assert engine.stats.consumed == 0
    assert pool.committed(ORDERS).offset == 5


@pytest.mark.parametrize("tp", [EVENT, ORDERS])
def test_an_offset_without_a_source_record_counts_but_for_an_engines_on_a_topic_of_others(
    tp: TopicPartition,
) -> None:
    """An administrator may have committed where a topic that is about to be listed is to begin."""
    pool = Pool(topics=(ORDERS.topic,))
    pool.commit_by_hand(tp, 1, "" if tp is ORDERS else metadata(pool, tp))
    for _ in range(3):
        pool.write(tp, None, b"1", [("ce_id", b"1")])
    engine = pool.boot()
    pool.run()
    assert engine.stats.consumed == 2


def test_scans_go_on_as_far_as_the_partition_goes_on() -> None:
    pool = used(1, EACH)
    for _ in range(4):
        pool.emit("x")
    r = pool.log(REGISTRY).end
    pool.cluster.group.offsets[EVENT] = Committed(4, metadata(pool, EVENT, R=r, g=[[0, r, 3]]))
    pool.cluster.delete_below(EVENT, 6)
    pool.resume(EVENT, 6)
    pool.boot()
    pool.run()
    assert pool.metadata(EVENT).g == []
    assert len(pool.fired()) == 3 + 1


def test_a_resumption_that_is_read_while_partitions_are_taken_over_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = used(1, PAIR)
    del pool.cluster.group.offsets[EVENT]
    pool.boot()
    slow = recovery.Recovery.advance
    turns = iter([False] * 5)
    monkeypatch.setattr(recovery.Recovery, "advance", lambda self: next(turns, True) and slow(self))
    while EVENT not in stopped(pool):
        pool.run(1)
    assert not pool.engines["one"].is_open
    pool.resume(EVENT, 3)
    pool.run()
    assert stopped(pool) == {}


def test_a_resumption_that_is_read_in_the_middle_of_a_pass_costs_no_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A match of a registration that is not read yet: the registry is read up to it, and tells more."""
    pool = used(2)
    del pool.cluster.group.offsets[OTHER]
    engine = pool.boot("one")
    pool.run()
    assert list(stopped(pool)) == [OTHER]
    pool.register(EACH)
    pool.resume(OTHER, 0)
    pool.emit("x")
    following = engine._following
    with monkeypatch.context() as patch:
        # Another owner has matched already: this engine finds the match before it has read the registry.
        patch.setattr(following, "read_new", lambda: None)
        target = Target(pool.log(REGISTRY).end - 2, EACH.incarnation, (0,), "")
        made = Event.of("x", "/elsewhere", id="1")
        match = MatchRecord(2, "elsewhere", 0, 0, pool.cluster.now_ms, made, [target])
        pool.write(TRIGGER, None, encode_msgpack(match))
        pool.run(3)
    pool.run()
    assert stopped(pool) == {}
    assert len(pool.fired()) == 8  # that one, and all of both partitions


# -- what is kept over a change of the assignment


def test_a_partition_that_comes_back_is_not_read_again() -> None:
    pool = Pool()
    pool.register(PAIR)
    pool.emit("x")
    pool.boot()
    pool.run()
    read = pool.engines["one"].stats.recovered_records
    pool.cluster.rebalance()
    pool.run()
    assert pool.engines["one"].stats.recovered_records == read
    pool.emit("y")
    pool.run()
    assert pool.fired() == [("pair", "met")]


def test_a_partition_that_another_engine_had_in_between_is_read_again() -> None:
    pool = Pool()
    pool.register(PAIR)
    pool.boot("one")
    pool.run()
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
    """What was loaded by half is no state to go on with, though nobody has committed since."""
    pool = Pool()
    for n in range(5):
        pool.register(Registration.of(f"pair{n}", event("x") & event("y"), None, 0))
    pool.emit("x")
    pool.boot()
    pool.run()
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


def test_a_state_partition_that_cannot_be_read_to_its_end_is_an_error_that_says_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = used(1, PAIR)
    pool.cluster.init_producer("nobody")
    transaction = pool.cluster.begin("nobody", pool.cluster.producers["nobody"].epoch)
    assert transaction is not None
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
    assert engine.problems.stopped() == []
    with caplog.at_level("WARNING", "interlock.engine"):
        pool.run(20, pass_ms=2_500)
    [said] = engine.problems.stopped()
    assert said.startswith(f"{EVENT} and 1 other partitions are not taken over")
    assert [record.getMessage() for record in caplog.records].count(said) == 1
    monkeypatch.undo()
    pool.run(10)
    assert engine.is_open
    assert engine.problems.stopped() == []
