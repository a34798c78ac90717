"""The facts of docs/understand/engine/kafka.md, asked of both buses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from interlock.engine.bus import Bus, Committed, End, Output, Record, TopicPartition
from interlock.engine.errors import EngineError, NotReadable, TransactionAborted

from tests.contract.places import Place, assigned, next_assignment, taken


def values(items: list[Record | End]) -> list[bytes | None]:
    return [item.value for item in items if isinstance(item, Record)]


def read_whole(place: Place, reader: Any, ends: Mapping[TopicPartition, int]) -> list[Any]:
    """What a new reader gives from offset 0 on until these ends; it is closed then."""
    reader.read(dict.fromkeys(ends, 0))
    items = taken(place, lambda: reader.take(100, 0.1), ends)
    reader.close()
    return items


def member(place: Place, source: TopicPartition) -> tuple[Bus, object]:
    """A bus that was assigned this topic, and its membership."""
    bus = place.bus()
    return bus, assigned(place, bus, [source.topic]).membership


def test_k1_outputs_and_offsets_of_a_transaction_become_visible_together(place: Place) -> None:
    source = TopicPartition(place.topic("event"), 0)
    trigger, state = TopicPartition(place.topic("trigger"), 0), TopicPartition(place.topic("state"), 0)
    bus, membership = member(place, source)
    appended = bus.commit(
        [Output(*trigger, None, b"match"), Output(*state, b"key", b"state")],
        {source: Committed(7, "m")},
        membership,
    )
    assert appended is not None
    committed = place.until("the offset", lambda: bus.committed([source]))
    assert committed == {source: Committed(7, "m")}
    items = read_whole(place, bus.reader(), {trigger: 2, state: 2})
    assert sorted(values(items), key=str) == [b"match", b"state"]
    record = next(item for item in items if isinstance(item, Record) and item.source == state)
    assert (record.key, record.timestamp_ms) == (b"key", appended)


def test_k1_an_aborted_transaction_leaves_nothing_to_see(place: Place) -> None:
    source, trigger = TopicPartition(place.topic("event"), 0), TopicPartition(place.topic("trigger"), 0)
    bus, membership = member(place, source)
    transaction = place.begin("other")
    transaction.write(trigger, b"match")
    transaction.send_offsets({source: Committed(7, "m")}, membership)
    transaction.abort()
    assert place.until("stable offsets", lambda: bus.committed([source])) == {source: None}
    assert values(read_whole(place, bus.reader(), {trigger: 2})) == []


def test_k2_a_commit_of_a_generation_that_is_over_is_refused(place: Place) -> None:
    source = TopicPartition(place.topic("event", 2), 0)
    trigger = TopicPartition(place.topic("trigger"), 0)
    old, new = place.bus(), place.bus()
    membership = assigned(place, old, [source.topic]).membership
    old.start({source: 0})
    new.subscribe([source.topic])
    next_assignment(place, new, old)
    with pytest.raises(TransactionAborted):
        old.commit([Output(*trigger, None, b"late")], {source: Committed(1, "")}, membership)
    assert place.until("stable offsets", lambda: new.committed([source])) == {source: None}
    assert values(read_whole(place, new.reader(), new.end_offsets([trigger]))) == []


def test_k2_after_a_refused_commit_the_bus_goes_on(place: Place) -> None:
    source = TopicPartition(place.topic("event", 2), 0)
    trigger = TopicPartition(place.topic("trigger"), 0)
    old, new = place.bus(), place.bus()
    over = assigned(place, old, [source.topic]).membership
    old.start({})
    new.subscribe([source.topic])
    next_assignment(place, new, old)
    with pytest.raises(TransactionAborted):
        old.commit([Output(*trigger, None, b"late")], {source: Committed(1, "")}, over)
    membership = place.until("a membership", lambda: old.poll(10, 0.1).membership)
    old.commit([Output(*trigger, None, b"good")], {source: Committed(1, "")}, membership)
    assert place.until("stable offsets", lambda: new.committed([source])) == {source: Committed(1, "")}


def test_without_offsets_or_membership_nothing_is_sent(place: Place) -> None:
    source, trigger = TopicPartition(place.topic("event"), 0), TopicPartition(place.topic("trigger"), 0)
    bus, membership = member(place, source)
    for offsets, given in (({}, membership), ({source: Committed(1, "")}, None)):
        with pytest.raises(TransactionAborted):
            bus.commit([Output(*trigger, None, b"x")], offsets, given)
    assert bus.end_offsets([trigger]) == {trigger: 0}


def test_k3_stable_offsets_wait_for_open_transactions_and_unstable_ones_are_those_of_before(
    place: Place,
) -> None:
    topic = place.topic("event", 2)
    source, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    bus, membership = member(place, source)
    bus.commit([], {source: Committed(3, "first")}, membership)
    place.until("the offset", lambda: bus.committed([source]))
    transaction = place.begin("other")
    transaction.send_offsets({source: Committed(9, "open")}, membership)
    assert bus.committed([source, other]) is None
    unstable = bus.committed([source, other], stable=False)
    assert unstable == {source: Committed(3, "first"), other: None}
    assert bus.committed([other]) == {other: None}
    transaction.commit()
    committed = place.until("the offset", lambda: bus.committed([source]))
    assert committed == {source: Committed(9, "open")}


def test_k4_readers_stop_at_an_open_transaction_and_end_offsets_do_not(place: Place) -> None:
    tp = TopicPartition(place.topic("trigger"), 0)
    bus = place.bus()
    place.append(tp, b"before")
    transaction = place.begin("other")
    transaction.write(tp, b"inside")
    place.append(tp, b"after")
    assert bus.end_offsets([tp]) == {tp: 3}
    reader = bus.reader()
    reader.read({tp: 0})
    assert values(taken(place, lambda: reader.take(10, 0.1), {tp: 1})) == [b"before"]
    transaction.commit()
    assert values(taken(place, lambda: reader.take(10, 0.1), {tp: 4})) == [b"inside", b"after"]
    reader.close()


def test_k5_an_end_lies_past_control_and_aborted_records_and_is_told_when_it_moves(place: Place) -> None:
    tp = TopicPartition(place.topic("event"), 0)
    bus = place.bus()
    assigned(place, bus, [tp.topic])
    bus.start({tp: 0})
    reader = bus.reader()
    reader.read({tp: 0})
    for take in (lambda: reader.take(10, 0.1), lambda: bus.poll(10, 0.1).records):
        assert taken(place, take, {tp: 0}) == [End(tp, 0)]
    place.append(tp, b"a")
    for take in (lambda: reader.take(10, 0.1), lambda: bus.poll(10, 0.1).records):
        items = taken(place, take, {tp: 1})
        assert (values(items), items[1:]) == ([b"a"], [End(tp, 1)])
    transaction = place.begin("other")
    transaction.write(tp, b"never")
    transaction.abort()
    for take in (lambda: reader.take(10, 0.1), lambda: bus.poll(10, 0.1).records):
        assert taken(place, take, {tp: 3}) == [End(tp, 3)]
    reader.close()


def assert_ended(place: Place, bus: Any, written: TopicPartition, transaction: Any) -> None:
    """Nobody sees what it wrote, and its producer is fenced."""
    assert values(read_whole(place, bus.reader(), {written: 2})) == []
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|state"):
        transaction.commit()


def test_k6_fencing_ends_the_open_transaction_and_its_producer(place: Place) -> None:
    source, trigger = TopicPartition(place.topic("event"), 0), TopicPartition(place.topic("trigger"), 0)
    bus, membership = member(place, source)
    zombie = f"{bus.transactional_id}-zombie"
    transaction = place.begin(zombie)
    transaction.write(trigger, b"never")
    transaction.send_offsets({source: Committed(9, "")}, membership)
    bus.fence(zombie)
    assert place.until("stable offsets", lambda: bus.committed([source])) == {source: None}
    assert_ended(place, bus, trigger, transaction)


def test_k6_a_fenced_bus_cannot_commit(place: Place) -> None:
    source = TopicPartition(place.topic("event"), 0)
    bus, other = place.bus(), place.bus()
    membership = assigned(place, bus, [source.topic]).membership
    bus.commit([], {source: Committed(1, "")}, membership)
    other.fence(bus.transactional_id)
    with pytest.raises(EngineError) as caught:
        bus.commit([], {source: Committed(2, "")}, membership)
    assert not isinstance(caught.value, TransactionAborted)


def test_k6_fencing_an_id_that_nobody_uses_does_nothing(place: Place) -> None:
    place.bus().fence("nobody")


def test_k7_a_dead_member_is_gone_when_the_survivors_have_its_partitions(place: Place) -> None:
    topic = place.topic("event", 2)
    dead = place.dies_owning(topic)
    bus = place.bus()
    assert dead in bus.members()
    batch = assigned(place, bus, [topic])
    assert batch.assigned == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert bus.members() == {bus.transactional_id}


def test_a_closed_bus_is_no_member_and_its_partitions_are_others_at_once(place: Place) -> None:
    topic = place.topic("event", 2)
    bus, other = place.bus(), place.bus()
    assigned(place, bus, [topic])
    bus.close()
    batch = assigned(place, other, [topic])
    assert set(batch.assigned or ()) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert other.members() == {other.transactional_id}


def test_members_share_each_topic_and_lose_all_before_they_get_any(place: Place) -> None:
    topic, second = place.topic("event", 2), place.topic("trigger", 2)
    bus, other = place.bus(), place.bus()
    assigned(place, bus, [topic, second])
    bus.start({})
    other.subscribe([topic, second])
    losses = []

    def shared() -> tuple[set[TopicPartition], set[TopicPartition]] | None:
        for member, mine in ((bus, first), (other, another)):
            batch = member.poll(10, 0.1)
            if batch.lost:
                losses.append(member)
            if batch.assigned is not None:
                assert not batch.records
                mine[:] = [batch.assigned]
                member.start({})
        if losses and first and another:
            return set(first[0]), set(another[0])
        return None

    first: list[tuple[TopicPartition, ...]] = []
    another: list[tuple[TopicPartition, ...]] = []
    mine, others = place.until("shares", shared)
    assert losses[0] is bus
    assert mine | others == {TopicPartition(name, p) for name in (topic, second) for p in (0, 1)}
    assert [len({tp for tp in share if tp.topic == topic}) for share in (mine, others)] == [1, 1]
    assert bus.members() == {bus.transactional_id, other.transactional_id}


def test_k8_offsets_since_a_time(place: Place) -> None:
    tp = TopicPartition(place.topic("orders", own_time=True), 0)
    empty = TopicPartition(place.topic("rates", own_time=True), 0)
    for stamp in (1000, 5000, 3000, 7000):
        place.append(tp, b"x", timestamp_ms=stamp)
    bus = place.bus()
    for since, offset in ((0, 0), (1000, 0), (1001, 1), (3000, 1), (5000, 1), (5001, 3), (7001, None)):
        assert bus.offsets_since([tp, empty], since) == {tp: offset, empty: None}


@pytest.mark.parametrize("metadata", ["x" * 4095, '{"é":"' + "x" * (4095 - 8) + '"}'])
def test_k9_metadata_of_4095_characters_come_back(place: Place, metadata: str) -> None:
    tp = TopicPartition(place.topic("event"), 0)
    bus, membership = member(place, tp)
    assert len(metadata) == 4095
    bus.commit([], {tp: Committed(5, metadata)}, membership)
    assert place.until("the offset", lambda: bus.committed([tp])) == {tp: Committed(5, metadata)}


def test_k9_one_more_is_refused_and_the_bus_goes_on(place: Place) -> None:
    tp, trigger = TopicPartition(place.topic("event"), 0), TopicPartition(place.topic("trigger"), 0)
    bus, membership = member(place, tp)
    with pytest.raises(TransactionAborted):
        bus.commit([Output(*trigger, None, b"never")], {tp: Committed(5, "x" * 4096)}, membership)
    assert place.until("stable offsets", lambda: bus.committed([tp])) == {tp: None}
    bus.commit([Output(*trigger, None, b"good")], {tp: Committed(5, "m")}, membership)
    assert place.until("the offset", lambda: bus.committed([tp])) == {tp: Committed(5, "m")}
    assert values(read_whole(place, bus.reader(), bus.end_offsets([trigger]))) == [b"good"]


def test_k10_a_topic_made_again_has_another_id(place: Place) -> None:
    name = place.topic("orders", 2)
    bus = place.bus()
    before = bus.topics([name, "nothing"])
    assert before["nothing"] is None
    topic = before[name]
    assert topic.partitions == 2
    place.recreate(name, 3)
    after = bus.topics([name])[name]
    assert (after.partitions, after.id != topic.id) == (3, True)


def test_k11_partitions_added_to_a_topic_are_assigned(place: Place) -> None:
    topic = place.topic("orders", 1)
    bus = place.bus()
    assert assigned(place, bus, [topic]).assigned == (TopicPartition(topic, 0),)
    bus.start({TopicPartition(topic, 0): 0})
    place.add_partitions(topic, 2)
    batch = next_assignment(place, bus)
    assert set(batch.assigned or ()) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}


def test_topics_subscribed_later_are_assigned(place: Place) -> None:
    first, second = place.topic("orders"), place.topic("rates")
    bus = place.bus()
    assigned(place, bus, [first])
    bus.start({})
    bus.subscribe([first, second])
    batch = next_assignment(place, bus)
    assert set(batch.assigned or ()) == {TopicPartition(first, 0), TopicPartition(second, 0)}


def test_k12_records_keep_their_order_and_compaction_the_last_of_each_key(place: Place) -> None:
    source, state = (
        TopicPartition(place.topic("event"), 0),
        TopicPartition(place.topic("state", compact=True), 0),
    )
    bus, membership = member(place, source)
    written = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)]
    bus.commit([Output(*state, key, value) for key, value in written], {source: Committed(1, "")}, membership)

    def read() -> list[tuple[bytes | None, bytes | None]]:
        items = read_whole(place, bus.reader(), bus.end_offsets([state]))
        return [(item.key, item.value) for item in items if isinstance(item, Record)]

    assert read() == written

    def cleaned() -> list[tuple[bytes | None, bytes | None]] | None:
        place.append(state, b"x", b"end")  # a new segment begins with a record, and the last one stays
        place.compact(state.topic)
        left = [(key, value) for key, value in read() if key != b"end"]
        return left if len(left) < len(written) else None

    assert place.until("a compaction", cleaned) == [(b"a", b"3"), (b"b", None)]


def test_k13_a_transaction_that_outlives_its_timeout_is_ended_and_its_producer_fenced(place: Place) -> None:
    source, trigger = TopicPartition(place.topic("event"), 0), TopicPartition(place.topic("trigger"), 0)
    bus, membership = member(place, source)
    transaction = place.begin("other", timeout_ms=1000)
    transaction.write(trigger, b"never")
    transaction.send_offsets({source: Committed(9, "")}, membership)
    assert bus.committed([source]) is None
    assert place.until("the timeout", lambda: bus.committed([source])) == {source: None}
    assert_ended(place, bus, trigger, transaction)


def test_k14_the_end_of_a_producer_that_was_replaced_comes_late_and_ends_nothing(place: Place) -> None:
    trigger = TopicPartition(place.topic("trigger"), 0)
    bus = place.bus()
    replaced = place.begin("same")
    replaced.write(trigger, b"never")
    later = place.begin("same")
    later.write(trigger, b"later")
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|state"):
        replaced.commit()
    reader = bus.reader()
    reader.read({trigger: 0})
    assert values(taken(place, lambda: reader.take(10, 0.1), {trigger: 2})) == []  # still open
    later.commit()
    assert values(taken(place, lambda: reader.take(10, 0.1), {trigger: 4})) == [b"later"]
    reader.close()


@pytest.mark.parametrize("members", ["with members", "empty"])
def test_k15_the_offsets_of_a_consumer_that_never_joined_pass_the_fence(place: Place, members: str) -> None:
    source = TopicPartition(place.topic("event"), 0)
    bus = place.bus()
    if members == "with members":
        assigned(place, bus, [source.topic])
    transaction = place.begin("other")
    transaction.send_offsets({source: Committed(9, "")}, place.never_joined())
    transaction.commit()
    assert place.until("the offset", lambda: bus.committed([source])) == {source: Committed(9, "")}


def test_k15_those_of_a_member_that_left_do_not_even_where_nobody_is_left(place: Place) -> None:
    source = TopicPartition(place.topic("event"), 0)
    left, other = place.bus(), place.bus()
    membership = assigned(place, left, [source.topic]).membership
    left.close()
    transaction = place.begin("other")
    with pytest.raises(Exception, match=r"(?i)unknown.member|generation"):
        transaction.send_offsets({source: Committed(9, "")}, membership)
    transaction.abort()
    assert place.until("stable offsets", lambda: other.committed([source])) == {source: None}


def test_k15_a_bus_that_has_not_joined_has_no_membership(place: Place) -> None:
    source = TopicPartition(place.topic("event"), 0)
    bus = place.bus()
    assert bus.poll(10, 0.0).membership is None
    bus.subscribe([source.topic])
    while (batch := bus.poll(10, 0.0)).assigned is None:
        assert batch.membership is None


def test_k16_a_transaction_whose_offsets_were_taken_commits_after_the_group_went_on(place: Place) -> None:
    source = TopicPartition(place.topic("event", 2), 0)
    trigger = TopicPartition(place.topic("trigger"), 0)
    old, new = place.bus(), place.bus()
    membership = assigned(place, old, [source.topic]).membership
    old.start({})
    transaction = place.begin("other")
    transaction.write(trigger, b"match")
    transaction.send_offsets({source: Committed(7, "old")}, membership)
    new.subscribe([source.topic])
    next_assignment(place, new, old)
    assert new.committed([source]) is None  # the next owner waits
    transaction.commit()
    assert place.until("the offset", lambda: new.committed([source])) == {source: Committed(7, "old")}
    assert values(read_whole(place, new.reader(), {trigger: 2})) == [b"match"]


def test_k17_offsets_of_a_topic_that_is_not_there_are_refused_by_its_name(place: Place) -> None:
    there = TopicPartition(place.topic("orders"), 0)
    gone = TopicPartition(f"{there.topic}-gone", 0)
    bus = place.bus()
    for ask in (bus.start_offsets, bus.end_offsets, lambda tps: bus.offsets_since(tps, 0)):
        for asked in ([gone], [there, gone]):
            with pytest.raises(NotReadable) as refused:
                ask(asked)
            assert refused.value.topic == gone.topic


def test_k18_a_topic_that_was_made_a_moment_ago_has_offsets(place: Place) -> None:
    bus = place.bus()
    for number in range(10):
        name = place.topic(f"late-{number}", 3)
        partitions = [TopicPartition(name, partition) for partition in range(3)]
        assert bus.end_offsets(partitions) == dict.fromkeys(partitions, 0)


def test_k19_records_of_a_writer_arrive_in_their_order_and_are_told_in_a_later_call(place: Place) -> None:
    tp = TopicPartition(place.topic("subscription"), 0)
    writer = place.clients().writer()
    told: list[str | None] = []
    for n in range(20):
        writer.write(Output(*tp, b"key", None if n % 5 == 4 else b"%d" % n), told.append)
    writer.write(Output(*tp, b"key", b"of no interest"))
    assert writer.flush(30) == 0
    writer.serve()
    assert told == [None] * 20
    records = read_whole(place, place.clients().reader(), {tp: 21})[:21]
    assert [each.offset for each in records] == list(range(21))
    assert [each.key for each in records] == [b"key"] * 21
    assert values(records)[:20] == [None if n % 5 == 4 else b"%d" % n for n in range(20)]


def test_k20_readers_of_waits_see_what_is_committed_and_that_alone(place: Place) -> None:
    tp = TopicPartition(place.topic("action"), 0)
    aborted, committed = place.begin("aborted"), place.begin("committed")
    reader = place.clients().reader()
    reader.read({tp: 0})
    aborted.write(tp, b"aborted")
    committed.write(tp, b"committed")
    place.append(tp, b"plain")
    assert values(reader.take(10, 0.1)) == []
    aborted.abort()
    committed.commit()
    assert values(taken(place, lambda: reader.take(10, 0.1), {tp: 5})) == [b"committed", b"plain"]
    reader.close()


def test_k21_a_writer_counts_partitions_none_of_a_topic_that_is_not_there(place: Place) -> None:
    name = place.topic("action", 3)
    writer = place.clients().writer()
    assert writer.partitions(name, 10) == 3
    assert writer.partitions(f"{name}-gone", 10) == 0
    assert writer.outage() is None


def test_records_are_deleted_below_an_offset(place: Place) -> None:
    tp = TopicPartition(place.topic("trigger"), 0)
    for _ in range(5):
        place.append(tp, b"x")
    bus = place.bus()
    bus.delete_below({tp: 3})
    place.until("the deletion", lambda: bus.start_offsets([tp])[tp] == 3 or None)
    assert bus.end_offsets([tp]) == {tp: 5}


def test_a_start_below_the_first_record_is_an_error_and_no_silent_reset(place: Place) -> None:
    tp = TopicPartition(place.topic("event"), 0)
    for _ in range(5):
        place.append(tp, b"x")
    bus = place.bus()
    assigned(place, bus, [tp.topic])
    bus.delete_below({tp: 3})
    place.until("the deletion", lambda: bus.start_offsets([tp])[tp] == 3 or None)
    bus.start({tp: 1})
    with pytest.raises(EngineError, match="out of range"):
        place.until("an error", lambda: bus.poll(10, 0.1).records or None)


def test_a_reader_goes_on_behind_what_was_removed(place: Place) -> None:
    tp = TopicPartition(place.topic("state"), 0)
    for n in range(5):
        place.append(tp, b"%d" % n)
    bus = place.bus()
    bus.delete_below({tp: 3})
    place.until("the deletion", lambda: bus.start_offsets([tp])[tp] == 3 or None)
    assert values(read_whole(place, bus.reader(), {tp: 5})) == [b"3", b"4"]
