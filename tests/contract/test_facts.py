"""The facts of docs/understand/engine/kafka.md, tested on both implementations of the bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from interlock.engine.bus import Bus, Committed, End, Output, Record, TopicPartition
from interlock.engine.errors import EngineError, NotReadable, TransactionAborted

from tests.contract.kafkas import Kafka, assigned, next_assignment, take_until


def values(items: list[Record | End]) -> list[bytes | None]:
    return [item.value for item in items if isinstance(item, Record)]


def read_whole(kafka: Kafka, reader: Any, ends: Mapping[TopicPartition, int]) -> list[Any]:
    """Reads everything from offset 0 to these ends with `reader`, and closes it."""
    reader.read(dict.fromkeys(ends, 0))
    items = take_until(kafka, lambda: reader.take(100, 0.1), ends)
    reader.close()
    return items


def member(kafka: Kafka, source: TopicPartition) -> tuple[Bus, object]:
    """A bus that was assigned this topic, and its membership."""
    bus = kafka.bus()
    return bus, assigned(kafka, bus, [source.topic]).membership


def test_k1_outputs_and_offsets_of_a_transaction_become_visible_together(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event"), 0)
    trigger, state = TopicPartition(kafka.topic("trigger"), 0), TopicPartition(kafka.topic("state"), 0)
    bus, membership = member(kafka, source)
    appended = bus.commit(
        [Output(*trigger, None, b"match"), Output(*state, b"key", b"state")],
        {source: Committed(7, "m")},
        membership,
    )
    assert appended is not None
    committed = kafka.until("the offset", lambda: bus.committed([source]))
    assert committed == {source: Committed(7, "m")}
    items = read_whole(kafka, bus.reader(), {trigger: 2, state: 2})
    assert sorted(values(items), key=str) == [b"match", b"state"]
    record = next(item for item in items if isinstance(item, Record) and item.source == state)
    assert (record.key, record.timestamp_ms) == (b"key", appended)


def test_k1_an_aborted_transaction_leaves_nothing_to_see(kafka: Kafka) -> None:
    source, trigger = TopicPartition(kafka.topic("event"), 0), TopicPartition(kafka.topic("trigger"), 0)
    bus, membership = member(kafka, source)
    transaction = kafka.begin("other")
    transaction.write(trigger, b"match")
    transaction.send_offsets({source: Committed(7, "m")}, membership)
    transaction.abort()
    assert kafka.until("stable offsets", lambda: bus.committed([source])) == {source: None}
    assert values(read_whole(kafka, bus.reader(), {trigger: 2})) == []


@pytest.mark.groups("broker", "deliverers")
def test_k2_a_commit_of_a_generation_that_is_over_is_refused(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event", 2), 0)
    trigger = TopicPartition(kafka.topic("trigger"), 0)
    old, new = kafka.bus(), kafka.bus()
    membership = assigned(kafka, old, [source.topic]).membership
    old.start({source: 0})
    new.subscribe([source.topic])
    next_assignment(kafka, new, old)
    with pytest.raises(TransactionAborted):
        old.commit([Output(*trigger, None, b"late")], {source: Committed(1, "")}, membership)
    assert kafka.until("stable offsets", lambda: new.committed([source])) == {source: None}
    assert values(read_whole(kafka, new.reader(), new.end_offsets([trigger]))) == []


def test_k2_after_a_refused_commit_the_bus_can_commit_again(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event", 2), 0)
    trigger = TopicPartition(kafka.topic("trigger"), 0)
    old, new = kafka.bus(), kafka.bus()
    over = assigned(kafka, old, [source.topic]).membership
    old.start({})
    new.subscribe([source.topic])
    next_assignment(kafka, new, old)
    with pytest.raises(TransactionAborted):
        old.commit([Output(*trigger, None, b"late")], {source: Committed(1, "")}, over)
    membership = kafka.until("a membership", lambda: old.poll(10, 0.1).membership)
    old.commit([Output(*trigger, None, b"good")], {source: Committed(1, "")}, membership)
    assert kafka.until("stable offsets", lambda: new.committed([source])) == {source: Committed(1, "")}


def test_without_offsets_or_membership_nothing_is_sent(kafka: Kafka) -> None:
    source, trigger = TopicPartition(kafka.topic("event"), 0), TopicPartition(kafka.topic("trigger"), 0)
    bus, membership = member(kafka, source)
    for offsets, given in (({}, membership), ({source: Committed(1, "")}, None)):
        with pytest.raises(TransactionAborted):
            bus.commit([Output(*trigger, None, b"x")], offsets, given)
    assert bus.end_offsets([trigger]) == {trigger: 0}


@pytest.mark.groups("broker", "deliverers")
def test_k3_stable_offsets_wait_for_open_transactions_and_others_are_the_last_committed_ones(
    kafka: Kafka,
) -> None:
    topic = kafka.topic("event", 2)
    source, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    bus, membership = member(kafka, source)
    bus.commit([], {source: Committed(3, "first")}, membership)
    kafka.until("the offset", lambda: bus.committed([source]))
    transaction = kafka.begin("other")
    transaction.send_offsets({source: Committed(9, "open")}, membership)
    assert bus.committed([source, other]) is None
    unstable = bus.committed([source, other], stable=False)
    assert unstable == {source: Committed(3, "first"), other: None}
    assert bus.committed([other]) == {other: None}
    transaction.commit()
    committed = kafka.until("the offset", lambda: bus.committed([source]))
    assert committed == {source: Committed(9, "open")}


def test_k4_readers_stop_at_an_open_transaction_and_end_offsets_do_not(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("trigger"), 0)
    bus = kafka.bus()
    kafka.append(tp, b"before")
    transaction = kafka.begin("other")
    transaction.write(tp, b"inside")
    kafka.append(tp, b"after")
    assert bus.end_offsets([tp]) == {tp: 3}
    reader = bus.reader()
    reader.read({tp: 0})
    assert values(take_until(kafka, lambda: reader.take(10, 0.1), {tp: 1})) == [b"before"]
    transaction.commit()
    assert values(take_until(kafka, lambda: reader.take(10, 0.1), {tp: 4})) == [b"inside", b"after"]
    reader.close()


def test_k5_an_end_is_past_control_and_aborted_records_and_is_reported_when_it_moves(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("event"), 0)
    bus = kafka.bus()
    assigned(kafka, bus, [tp.topic])
    bus.start({tp: 0})
    reader = bus.reader()
    reader.read({tp: 0})
    for take in (lambda: reader.take(10, 0.1), lambda: bus.poll(10, 0.1).records):
        assert take_until(kafka, take, {tp: 0}) == [End(tp, 0)]
    kafka.append(tp, b"a")
    for take in (lambda: reader.take(10, 0.1), lambda: bus.poll(10, 0.1).records):
        items = take_until(kafka, take, {tp: 1})
        assert (values(items), items[1:]) == ([b"a"], [End(tp, 1)])
    transaction = kafka.begin("other")
    transaction.write(tp, b"never")
    transaction.abort()
    for take in (lambda: reader.take(10, 0.1), lambda: bus.poll(10, 0.1).records):
        assert take_until(kafka, take, {tp: 3}) == [End(tp, 3)]
    reader.close()


def assert_ended(kafka: Kafka, bus: Any, written: TopicPartition, transaction: Any) -> None:
    """Nobody sees what it wrote, and its producer is fenced."""
    assert values(read_whole(kafka, bus.reader(), {written: 2})) == []
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|state"):
        transaction.commit()


@pytest.mark.groups("broker", "deliverers")
def test_k6_fencing_ends_the_open_transaction_and_its_producer(kafka: Kafka) -> None:
    source, trigger = TopicPartition(kafka.topic("event"), 0), TopicPartition(kafka.topic("trigger"), 0)
    bus, membership = member(kafka, source)
    zombie = f"{bus.transactional_id}-zombie"
    transaction = kafka.begin(zombie)
    transaction.write(trigger, b"never")
    transaction.send_offsets({source: Committed(9, "")}, membership)
    bus.fence(zombie)
    assert kafka.until("stable offsets", lambda: bus.committed([source])) == {source: None}
    assert_ended(kafka, bus, trigger, transaction)


def test_k6_a_fenced_bus_cannot_commit(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event"), 0)
    bus, other = kafka.bus(), kafka.bus()
    membership = assigned(kafka, bus, [source.topic]).membership
    bus.commit([], {source: Committed(1, "")}, membership)
    other.fence(bus.transactional_id)
    with pytest.raises(EngineError) as caught:
        bus.commit([], {source: Committed(2, "")}, membership)
    assert not isinstance(caught.value, TransactionAborted)


def test_k6_fencing_an_id_that_nobody_uses_does_nothing(kafka: Kafka) -> None:
    kafka.bus().fence("nobody")


@pytest.mark.groups("broker", "deliverers")
def test_k7_a_dead_member_is_gone_when_the_survivors_have_its_partitions(kafka: Kafka) -> None:
    topic = kafka.topic("event", 2)
    dead = kafka.killed_owner(topic)
    bus = kafka.bus()
    assert dead in bus.members()
    batch = assigned(kafka, bus, [topic])
    assert batch.assigned == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert bus.members() == {bus.transactional_id}


def test_a_closed_bus_is_no_member_and_others_get_its_partitions_at_once(kafka: Kafka) -> None:
    topic = kafka.topic("event", 2)
    bus, other = kafka.bus(), kafka.bus()
    assigned(kafka, bus, [topic])
    bus.close()
    batch = assigned(kafka, other, [topic])
    assert set(batch.assigned or ()) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert other.members() == {other.transactional_id}


def test_members_share_each_topic_and_lose_all_before_they_get_any(kafka: Kafka) -> None:
    topic, second = kafka.topic("event", 2), kafka.topic("trigger", 2)
    bus, other = kafka.bus(), kafka.bus()
    assigned(kafka, bus, [topic, second])
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
    mine, others = kafka.until("shares", shared)
    assert losses[0] is bus
    assert mine | others == {TopicPartition(name, p) for name in (topic, second) for p in (0, 1)}
    assert [len({tp for tp in share if tp.topic == topic}) for share in (mine, others)] == [1, 1]
    assert bus.members() == {bus.transactional_id, other.transactional_id}


def test_k8_offsets_since_a_time(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("orders", own_time=True), 0)
    empty = TopicPartition(kafka.topic("rates", own_time=True), 0)
    for stamp in (1000, 5000, 3000, 7000):
        kafka.append(tp, b"x", timestamp_ms=stamp)
    bus = kafka.bus()
    for since, offset in ((0, 0), (1000, 0), (1001, 1), (3000, 1), (5000, 1), (5001, 3), (7001, None)):
        assert bus.offsets_since([tp, empty], since) == {tp: offset, empty: None}


@pytest.mark.parametrize("metadata", ["x" * 4095, '{"é":"' + "x" * (4095 - 8) + '"}'])
def test_k9_metadata_of_4095_characters_come_back(kafka: Kafka, metadata: str) -> None:
    tp = TopicPartition(kafka.topic("event"), 0)
    bus, membership = member(kafka, tp)
    assert len(metadata) == 4095
    bus.commit([], {tp: Committed(5, metadata)}, membership)
    assert kafka.until("the offset", lambda: bus.committed([tp])) == {tp: Committed(5, metadata)}


def test_k9_metadata_of_4096_characters_are_refused_and_the_bus_can_commit_again(kafka: Kafka) -> None:
    tp, trigger = TopicPartition(kafka.topic("event"), 0), TopicPartition(kafka.topic("trigger"), 0)
    bus, membership = member(kafka, tp)
    with pytest.raises(TransactionAborted):
        bus.commit([Output(*trigger, None, b"never")], {tp: Committed(5, "x" * 4096)}, membership)
    assert kafka.until("stable offsets", lambda: bus.committed([tp])) == {tp: None}
    bus.commit([Output(*trigger, None, b"good")], {tp: Committed(5, "m")}, membership)
    assert kafka.until("the offset", lambda: bus.committed([tp])) == {tp: Committed(5, "m")}
    assert values(read_whole(kafka, bus.reader(), bus.end_offsets([trigger]))) == [b"good"]


def test_k10_a_topic_created_again_has_another_id(kafka: Kafka) -> None:
    name = kafka.topic("orders", 2)
    bus = kafka.bus()
    before = bus.topics([name, "nothing"])
    assert before["nothing"] is None
    topic = before[name]
    assert topic.partitions == 2
    kafka.recreate(name, 3)
    after = bus.topics([name])[name]
    assert (after.partitions, after.id != topic.id) == (3, True)


def test_k11_partitions_added_to_a_topic_are_assigned(kafka: Kafka) -> None:
    topic = kafka.topic("orders", 1)
    bus = kafka.bus()
    assert assigned(kafka, bus, [topic]).assigned == (TopicPartition(topic, 0),)
    bus.start({TopicPartition(topic, 0): 0})
    kafka.add_partitions(topic, 2)
    batch = next_assignment(kafka, bus)
    assert set(batch.assigned or ()) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}


def test_topics_subscribed_later_are_assigned(kafka: Kafka) -> None:
    first, second = kafka.topic("orders"), kafka.topic("rates")
    bus = kafka.bus()
    assigned(kafka, bus, [first])
    bus.start({})
    bus.subscribe([first, second])
    batch = next_assignment(kafka, bus)
    assert set(batch.assigned or ()) == {TopicPartition(first, 0), TopicPartition(second, 0)}


def test_k12_records_keep_their_order_and_compaction_the_last_of_each_key(kafka: Kafka) -> None:
    source, state = (
        TopicPartition(kafka.topic("event"), 0),
        TopicPartition(kafka.topic("state", compact=True), 0),
    )
    bus, membership = member(kafka, source)
    written = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)]
    bus.commit([Output(*state, key, value) for key, value in written], {source: Committed(1, "")}, membership)

    def read() -> list[tuple[bytes | None, bytes | None]]:
        items = read_whole(kafka, bus.reader(), bus.end_offsets([state]))
        return [(item.key, item.value) for item in items if isinstance(item, Record)]

    assert read() == written

    def cleaned() -> list[tuple[bytes | None, bytes | None]] | None:
        kafka.append(state, b"x", b"end")  # a record begins a new segment; the last segment is not cleaned
        kafka.compact(state.topic)
        left = [(key, value) for key, value in read() if key != b"end"]
        return left if len(left) < len(written) else None

    assert kafka.until("a compaction", cleaned) == [(b"a", b"3"), (b"b", None)]


def test_k13_a_transaction_that_outlives_its_timeout_is_ended_and_its_producer_fenced(kafka: Kafka) -> None:
    source, trigger = TopicPartition(kafka.topic("event"), 0), TopicPartition(kafka.topic("trigger"), 0)
    bus, membership = member(kafka, source)
    transaction = kafka.begin("other", timeout_ms=1000)
    transaction.write(trigger, b"never")
    transaction.send_offsets({source: Committed(9, "")}, membership)
    assert bus.committed([source]) is None
    assert kafka.until("the timeout", lambda: bus.committed([source])) == {source: None}
    assert_ended(kafka, bus, trigger, transaction)


def test_k14_a_replaced_producer_cannot_end_the_transaction_of_its_successor(kafka: Kafka) -> None:
    trigger = TopicPartition(kafka.topic("trigger"), 0)
    bus = kafka.bus()
    replaced = kafka.begin("same")
    replaced.write(trigger, b"never")
    later = kafka.begin("same")
    later.write(trigger, b"later")
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|state"):
        replaced.commit()
    reader = bus.reader()
    reader.read({trigger: 0})
    assert values(take_until(kafka, lambda: reader.take(10, 0.1), {trigger: 2})) == []  # still open
    later.commit()
    assert values(take_until(kafka, lambda: reader.take(10, 0.1), {trigger: 4})) == [b"later"]
    reader.close()


@pytest.mark.parametrize("members", ["with members", "empty"])
def test_k15_the_offsets_of_a_consumer_that_never_joined_pass_the_fence(kafka: Kafka, members: str) -> None:
    source = TopicPartition(kafka.topic("event"), 0)
    bus = kafka.bus()
    if members == "with members":
        assigned(kafka, bus, [source.topic])
    transaction = kafka.begin("other")
    transaction.send_offsets({source: Committed(9, "")}, kafka.never_joined())
    transaction.commit()
    assert kafka.until("the offset", lambda: bus.committed([source])) == {source: Committed(9, "")}


def test_k15_the_offsets_of_a_member_that_left_are_refused_also_by_an_empty_group(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event"), 0)
    left, other = kafka.bus(), kafka.bus()
    membership = assigned(kafka, left, [source.topic]).membership
    left.close()
    transaction = kafka.begin("other")
    with pytest.raises(Exception, match=r"(?i)unknown.member|generation"):
        transaction.send_offsets({source: Committed(9, "")}, membership)
    transaction.abort()
    assert kafka.until("stable offsets", lambda: other.committed([source])) == {source: None}


def test_k15_a_bus_that_has_not_joined_has_no_membership(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event"), 0)
    bus = kafka.bus()
    assert bus.poll(10, 0.0).membership is None
    bus.subscribe([source.topic])
    while (batch := bus.poll(10, 0.0)).assigned is None:
        assert batch.membership is None


@pytest.mark.groups("broker", "deliverers")
def test_k16_a_transaction_whose_offsets_were_accepted_commits_in_a_later_generation(kafka: Kafka) -> None:
    source = TopicPartition(kafka.topic("event", 2), 0)
    trigger = TopicPartition(kafka.topic("trigger"), 0)
    old, new = kafka.bus(), kafka.bus()
    membership = assigned(kafka, old, [source.topic]).membership
    old.start({})
    transaction = kafka.begin("other")
    transaction.write(trigger, b"match")
    transaction.send_offsets({source: Committed(7, "old")}, membership)
    new.subscribe([source.topic])
    next_assignment(kafka, new, old)
    assert new.committed([source]) is None  # the next owner waits
    transaction.commit()
    assert kafka.until("the offset", lambda: new.committed([source])) == {source: Committed(7, "old")}
    assert values(read_whole(kafka, new.reader(), {trigger: 2})) == [b"match"]


def test_k17_queries_for_offsets_of_a_missing_topic_are_refused_with_its_name(kafka: Kafka) -> None:
    there = TopicPartition(kafka.topic("orders"), 0)
    gone = TopicPartition(f"{there.topic}-gone", 0)
    bus = kafka.bus()
    for ask in (bus.start_offsets, bus.end_offsets, lambda tps: bus.offsets_since(tps, 0)):
        for asked in ([gone], [there, gone]):
            with pytest.raises(NotReadable) as refused:
                ask(asked)
            assert refused.value.topic == gone.topic


def test_k18_a_topic_that_was_made_a_moment_ago_has_offsets(kafka: Kafka) -> None:
    bus = kafka.bus()
    for number in range(10):
        name = kafka.topic(f"late-{number}", 3)
        partitions = [TopicPartition(name, partition) for partition in range(3)]
        assert bus.end_offsets(partitions) == dict.fromkeys(partitions, 0)


def test_k19_records_of_a_writer_arrive_in_order_and_are_reported_in_a_later_call(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("subscription"), 0)
    writer = kafka.clients().writer()
    delivered: list[str | None] = []
    for n in range(20):
        writer.write(Output(*tp, b"key", None if n % 5 == 4 else b"%d" % n), delivered.append)
    writer.write(Output(*tp, b"key", b"of no interest"))
    assert writer.flush(30) == 0
    writer.serve()
    assert delivered == [None] * 20
    records = read_whole(kafka, kafka.clients().reader(), {tp: 21})[:21]
    assert [each.offset for each in records] == list(range(21))
    assert [each.key for each in records] == [b"key"] * 21
    assert values(records)[:20] == [None if n % 5 == 4 else b"%d" % n for n in range(20)]


def test_k20_readers_of_waits_see_only_committed_records(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("action"), 0)
    aborted, committed = kafka.begin("aborted"), kafka.begin("committed")
    reader = kafka.clients().reader()
    reader.read({tp: 0})
    aborted.write(tp, b"aborted")
    committed.write(tp, b"committed")
    kafka.append(tp, b"plain")
    assert values(reader.take(10, 0.1)) == []
    aborted.abort()
    committed.commit()
    assert values(take_until(kafka, lambda: reader.take(10, 0.1), {tp: 5})) == [b"committed", b"plain"]
    reader.close()


def test_k21_a_writer_counts_the_partitions_of_a_topic_0_if_it_does_not_exist(kafka: Kafka) -> None:
    name = kafka.topic("action", 3)
    writer = kafka.clients().writer()
    assert writer.partitions(name, 10) == 3
    assert writer.partitions(f"{name}-gone", 10) == 0
    assert writer.outage() is None


def test_records_are_deleted_below_an_offset(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("trigger"), 0)
    for _ in range(5):
        kafka.append(tp, b"x")
    bus = kafka.bus()
    bus.delete_below({tp: 3})
    kafka.until("the deletion", lambda: bus.start_offsets([tp])[tp] == 3 or None)
    assert bus.end_offsets([tp]) == {tp: 5}


def test_a_start_below_the_first_record_is_an_error_and_no_silent_reset(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("event"), 0)
    for _ in range(5):
        kafka.append(tp, b"x")
    bus = kafka.bus()
    assigned(kafka, bus, [tp.topic])
    bus.delete_below({tp: 3})
    kafka.until("the deletion", lambda: bus.start_offsets([tp])[tp] == 3 or None)
    bus.start({tp: 1})
    with pytest.raises(EngineError, match="out of range"):
        kafka.until("an error", lambda: bus.poll(10, 0.1).records or None)


def test_a_reader_continues_after_removed_records(kafka: Kafka) -> None:
    tp = TopicPartition(kafka.topic("state"), 0)
    for n in range(5):
        kafka.append(tp, b"%d" % n)
    bus = kafka.bus()
    bus.delete_below({tp: 3})
    kafka.until("the deletion", lambda: bus.start_offsets([tp])[tp] == 3 or None)
    assert values(read_whole(kafka, bus.reader(), {tp: 5})) == [b"3", b"4"]
