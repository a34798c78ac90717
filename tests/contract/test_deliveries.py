"""Facts of docs/understand/engine/kafka.md that deliverers need and engines do not.

A deliverer reads the partitions to which it writes, and commits offsets that may not have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interlock.engine.bus import Committed, Output, Record, TopicPartition
from interlock.engine.errors import EngineError, TransactionAborted
from interlock.engine.kafka.bus import KafkaBus

from tests.contract.kafkas import Broker, Kafka, assigned, next_assignment, take_until
from tests.contract.test_facts import read_whole, values

if TYPE_CHECKING:
    from interlock.plugin.broker import LocalBroker

pytestmark = pytest.mark.groups("deliverers")


def test_k22_a_bus_polls_what_its_own_transactions_wrote_with_headers_and_in_order(kafka: Kafka) -> None:
    action = TopicPartition(kafka.topic("action"), 0)
    bus = kafka.bus()
    membership = assigned(kafka, bus, [action.topic]).membership
    bus.start({action: 0})
    kafka.append(action, b"fired", b"f1")
    outputs = [Output(*action, b"f1", b"acked", [("by", b"d")]), Output(*action, b"f2", b"acked")]
    bus.commit(outputs, {action: Committed(1, "")}, membership)
    items = take_until(kafka, lambda: [*bus.poll(10, 0.1).records], {action: 4})  # the fourth is the marker
    found = [(item.key, item.value, item.headers) for item in items if isinstance(item, Record)]
    assert [(key, value) for key, value, _ in found] == [
        (b"f1", b"fired"),
        (b"f1", b"acked"),
        (b"f2", b"acked"),
    ]
    assert list(found[1][2] or ()) == [("by", b"d")]


def test_k23_offsets_that_do_not_change_are_refused_to_an_earlier_generation(kafka: Kafka) -> None:
    action = TopicPartition(kafka.topic("action", 2), 0)
    old, new = kafka.bus(), kafka.bus()
    membership = assigned(kafka, old, [action.topic]).membership
    old.start({action: 0})
    old.commit([], {action: Committed(5, "said")}, membership)
    new.subscribe([action.topic])
    next_assignment(kafka, new, old)
    with pytest.raises(TransactionAborted):
        old.commit([Output(*action, b"f1", b"acked")], {action: Committed(5, "said")}, membership)
    assert kafka.until("stable offsets", lambda: new.committed([action])) == {action: Committed(5, "said")}
    assert values(read_whole(kafka, new.reader(), new.end_offsets([action]))) == []


def test_k24_one_membership_serves_several_transactions_also_after_a_refused_one(kafka: Kafka) -> None:
    action = TopicPartition(kafka.topic("action"), 0)
    bus = kafka.bus()
    membership = assigned(kafka, bus, [action.topic]).membership
    bus.start({action: 0})
    bus.commit([Output(*action, b"f1", b"acked")], {action: Committed(0, "")}, membership)
    with pytest.raises(TransactionAborted):
        bus.commit([Output(*action, b"f2", b"acked")], {action: Committed(0, "x" * 5000)}, membership)
    bus.commit([Output(*action, b"f3", b"acked")], {action: Committed(0, "")}, membership)
    found = read_whole(kafka, bus.reader(), bus.end_offsets([action]))
    assert [item.key for item in found if isinstance(item, Record)] == [b"f1", b"f3"]


def test_k25_the_end_after_the_stable_offsets_holds_all_that_a_former_owner_can_still_commit(
    kafka: Kafka,
) -> None:
    action = TopicPartition(kafka.topic("action", 2), 0)
    old, new = kafka.bus(), kafka.bus()
    membership = assigned(kafka, old, [action.topic]).membership
    old.start({})
    accepted, late = kafka.begin("accepted"), kafka.begin("late")
    accepted.write(action, b"f1 acked")
    accepted.send_offsets({action: Committed(1, "")}, membership)
    late.write(action, b"f2 acked")
    new.subscribe([action.topic])
    next_assignment(kafka, new, old)
    assert new.committed([action]) is None
    accepted.commit()
    assert kafka.until("stable offsets", lambda: new.committed([action])) == {action: Committed(1, "")}
    end = new.end_offsets([action])[action]
    assert end >= 2, "the records of both are below it"
    with pytest.raises(Exception, match=r"(?i)generation|unknown.member|illegal"):
        late.send_offsets({action: Committed(2, "")}, membership)
    late.abort()
    assert values(read_whole(kafka, new.reader(), {action: end})) == [b"f1 acked"]


def test_k27_a_member_may_commit_before_it_gives_up_its_partitions_for_a_rebalance(kafka: Kafka) -> None:
    action = TopicPartition(kafka.topic("action", 2), 0)
    old, new = kafka.bus(), kafka.bus()
    calls: list[object] = []

    def before_loss(membership: object) -> None:
        calls.append(membership)
        old.commit([Output(*action, b"f1", b"acked")], {action: Committed(1, "")}, membership)

    old.subscribe([action.topic], before_loss)
    next_assignment(kafka, old)
    old.start({})
    new.subscribe([action.topic])
    next_assignment(kafka, new, old)
    assert calls
    assert kafka.until("the offset", lambda: new.committed([action])) == {action: Committed(1, "")}
    assert set(values(read_whole(kafka, new.reader(), new.end_offsets([action])))) == {b"acked"}
    next_assignment(kafka, old)
    before_it_leaves = len(calls)  # a slow machine may need more than one rebalance until here
    old.close()
    assert len(calls) == before_it_leaves, "one that leaves by itself is not asked"


def test_k27_an_error_before_a_member_gives_up_its_partitions_is_raised_by_the_poll(kafka: Kafka) -> None:
    action = TopicPartition(kafka.topic("action", 2), 0)
    old, new = kafka.bus(), kafka.bus()

    def before_loss(_: object) -> None:
        raise EngineError("no answer")

    old.subscribe([action.topic], before_loss)
    next_assignment(kafka, old)
    old.start({})
    new.subscribe([action.topic])
    with pytest.raises(EngineError, match="no answer"):
        next_assignment(kafka, new, old)
    old.close()

    def both() -> bool | None:
        assigned_now = new.poll(100, 0.1).assigned
        if assigned_now is not None:
            new.start({})
        return True if len(assigned_now or ()) == 2 else None

    # The first assignment may be that of the generation in which `old` was still a member.
    kafka.until("both partitions are assigned to the other member", both)


def test_k26_engines_and_deliverers_of_a_bus_have_offsets_and_members_of_their_own(
    broker: LocalBroker,
) -> None:
    """Only on a real broker: the simulation has one group."""
    kafka = Broker(broker.bootstrap_servers)
    action = TopicPartition(kafka.topic("action"), 0)
    engine, deliverer = KafkaBus(kafka.config), KafkaBus(kafka.config.of_deliverers)
    try:
        of_engine = assigned(kafka, engine, [action.topic]).membership
        of_deliverer = assigned(kafka, deliverer, [action.topic]).membership
        engine.start({action: 0})
        deliverer.start({action: 0})
        engine.commit([], {action: Committed(1, "engine")}, of_engine)
        deliverer.commit([], {action: Committed(2, "deliverer")}, of_deliverer)
        for bus, offset in ((engine, Committed(1, "engine")), (deliverer, Committed(2, "deliverer"))):
            assert kafka.until("its offset", lambda bus=bus: bus.committed([action])) == {action: offset}
            assert bus.members() == {bus.transactional_id}
        engine.fence(deliverer.transactional_id)  # it is no member of the engines' group: nothing happens
        deliverer.commit([], {action: Committed(3, "")}, of_deliverer)
    finally:
        engine.close()
        deliverer.close()
        kafka.close()
