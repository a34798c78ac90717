"""Rules of deliveries, taken out one by one: the hunt finds each within a stated number of worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pytest
from interlock.engine.bus import Batch, End, Output, Record
from interlock.engine.delivery.acknowledgements import Acknowledgements, Done
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.dead_deliverers import DeadDeliverers
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.firings import OpenFiring, Order
from interlock.engine.delivery.lanes import Finished, Lane, SinkLanes
from interlock.engine.delivery.noted_firings import NotedFirings
from interlock.engine.delivery.ownership import DelivererOwnership
from interlock.engine.delivery.partition import ActionPartition
from interlock.engine.delivery.parts import DelivererParts
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.scan import Scan
from interlock.engine.delivery.window import Scope

from tests.kit.kafka import Cluster, Transaction
from tests.simulation import deliveries, sinks
from tests.simulation.deliverers import BusThatMayRefuse, DeliveryMadeOf
from tests.simulation.deliveries import play
from tests.simulation.faults import ClusterWithoutFence
from tests.simulation.finding import assert_delivery_shows, often


class CommitsThePosition(Acknowledgements):
    def offset_to_commit(self, partition: ActionPartition, acknowledged: Iterable[OpenFiring]) -> int:
        return partition.position


def test_an_offset_beyond_an_open_firing_is_found() -> None:
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(acknowledgements=CommitsThePosition)), "offset", "lost", kept=1
    )


class AcknowledgesFirst(Deliverer):
    def start(self) -> None:
        super().start()
        for delivery in self.deliveries.values():
            if self.ownership.held(delivery.firing) is not None:
                self.acknowledgements.done.setdefault(delivery.firing.key, Done(delivery.firing))


def test_an_acknowledgement_before_the_delivery_is_found() -> None:
    assert_delivery_shows(DeliveryMadeOf(AcknowledgesFirst), "lost", kept=1)


class OpensAtOnce(DelivererOwnership):
    def is_recovered(self, partition: ActionPartition) -> bool:
        return True


def test_deliveries_before_the_partition_is_read_to_its_end_are_found() -> None:
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(ownership=OpensAtOnce)), "acked", "order", kept=53
    )


class LanesThatDoNotWait(SinkLanes):
    def answer(self, sent: OpenFiring, answer: Answer, now: float, now_ms: int) -> list[Finished]:
        over = super().answer(sent, answer, now, now_ms)
        for finished in over:
            if not finished.reason:
                self.acknowledged(finished.firing, now_ms)
        return over


class StartsBeforeItCommits(Deliverer):
    def commit(self, membership: object) -> None:
        if not self.stopping:
            self.start()
        super().commit(membership)


def test_a_delivery_before_the_previous_one_is_acknowledged_is_found() -> None:
    made_of = DeliveryMadeOf(StartsBeforeItCommits, parts=DelivererParts(lanes=LanesThatDoNotWait))
    assert_delivery_shows(made_of, "order", kept=2)


class BusThatNoticesLate(BusThatMayRefuse):
    """Often does not notice that its membership is over, as a process that hangs or was suspended."""

    def poll(self, most: int, timeout_s: float) -> Batch:
        if self.has_former_assignment and self.host.choose(8):
            self.step("polls")
            return self.take_records(most, timeout_s)
        return super().poll(most, timeout_s)


def test_acknowledgements_without_a_fence_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    often(monkeypatch, {"kick": 120}, of=deliveries)
    made_of = DeliveryMadeOf(bus=BusThatNoticesLate, cluster=ClusterWithoutFence)
    assert_delivery_shows(made_of, "acked", "order", "zombie", "offset", kept=43)


def test_with_the_fence_processes_that_notice_late_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    often(monkeypatch, {"kick": 120}, of=deliveries)
    for seed in range(20):
        assert play(seed, DeliveryMadeOf(bus=BusThatNoticesLate)).problems == []


class ForgetsFiringsWithoutSink(Deliverer):
    def deliver(self, firings: Iterable[OpenFiring]) -> None:
        for firing in firings:
            if firing.subscription not in self.sinks.records:
                self.ownership.partitions[firing.record.source].acknowledged(firing.key)
            else:
                super().deliver([firing])


def test_firings_that_are_skipped_because_their_sink_is_not_known_yet_are_found() -> None:
    assert_delivery_shows(DeliveryMadeOf(ForgetsFiringsWithoutSink), "offset", "lost", kept=102)


class LanesThatOvertake(SinkLanes):
    def park(self, lane: Lane, due: float) -> None:
        lane.firings.rotate(-1)
        self.make_ready(lane)


def test_a_lane_that_goes_on_while_its_first_firing_is_retried_is_found() -> None:
    assert_delivery_shows(DeliveryMadeOf(parts=DelivererParts(lanes=LanesThatOvertake)), "order", kept=1)


class LanesOfPartitions(SinkLanes):
    """Makes one lane of a partition, whatever the order, as other dispatchers do."""

    def __init__(self, retry: Retry, order: Order, max_in_flight: int, chance: Callable[[], float]) -> None:
        super().__init__(retry, "partition", max_in_flight, chance)

    def change(self, retry: Retry, order: Order, max_in_flight: int) -> None:
        super().change(retry, "partition", max_in_flight)


def test_a_key_that_fails_and_delays_others_is_found() -> None:
    assert_delivery_shows(DeliveryMadeOf(parts=DelivererParts(lanes=LanesOfPartitions)), "isolation", kept=1)


class DeadLetterAfterwards(Acknowledgements):
    """Acknowledges what is given up, and writes its dead letter within a second."""

    later: tuple[Output, ...] = ()

    def commit(self, membership: object) -> list[OpenFiring]:
        offsets = self.ownership.committed
        if membership is not None and offsets and self.offsets_are_due:
            dead_letters, self.later = self.later, ()
            tp = next(iter(offsets))
            self.ownership.bus.commit(dead_letters, {tp: self.ownership.metadata(offsets[tp])}, membership)
        return super().commit(membership)

    def outputs(self, dones: Iterable[Done]) -> list[Output]:
        outputs = super().outputs(dones)
        dead_letters = tuple(each for each in outputs if each.topic.endswith("dead-letter"))
        self.later += dead_letters
        return [each for each in outputs if each not in dead_letters]


def test_a_dead_letter_after_its_acknowledgement_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    often(monkeypatch, {"key": 120, "crash": 40, "boot": 80}, of=deliveries)
    monkeypatch.setattr(sinks, "STATUSES", (400,))
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(acknowledgements=DeadLetterAfterwards)),
        "lost",
        kept=10,
        within=1000,
    )


class ReplyBefore(Acknowledgements):
    """Writes replies, and acknowledges in the next transaction."""

    def outputs(self, dones: Iterable[Done]) -> list[Output]:
        return [each for each in super().outputs(dones) if each.value != b"reply"]

    def commit(self, membership: object) -> list[OpenFiring]:
        owned = [done for done in self.done.values() if self.ownership.held(done.firing) is not None]
        replies = [done for done in owned if done.reply is not None]
        if replies and membership is not None:
            tp = replies[0].firing.record.source
            offsets = {tp: self.ownership.metadata(self.ownership.partitions[tp].offset_to_commit)}
            self.ownership.bus.commit([r.reply for r in replies if r.reply], offsets, membership)
            for done in replies:
                done.reply = None
        return super().commit(membership)


def test_a_reply_in_a_transaction_of_its_own_is_found() -> None:
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(acknowledgements=ReplyBefore)), "replies", kept=14, within=1000
    )


class PartitionThatIgnoresOthers(ActionPartition):
    """Does not see acknowledgements that others write."""

    def follow(self, item: Record | End) -> tuple[OpenFiring | None, OpenFiring | None]:
        held = {firing.key: firing for firing in self.held}
        opened, closed = super().follow(item)
        if closed is not None and self.is_recovered:
            self.hold(held[closed.key])
            closed = None
        return opened, closed


def test_a_deliverer_that_ignores_acknowledgements_of_others_is_found() -> None:
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(partition=PartitionThatIgnoresOthers)), "acked", kept=16
    )


class LanesThatChangeAtOnce(SinkLanes):
    """Starts deliveries while those of another order are in flight."""

    def may_start(self, now: float) -> bool:
        wanted, self.next_order = self.next_order, None
        may = super().may_start(now)
        self.next_order = wanted
        return may


def test_an_order_that_changes_while_deliveries_are_in_flight_is_found() -> None:
    assert_delivery_shows(DeliveryMadeOf(parts=DelivererParts(lanes=LanesThatChangeAtOnce)), "order", kept=48)


class LanesThatWaitForAcknowledgements(SinkLanes):
    """Takes another order only when nothing waits for its acknowledgement."""

    def reorder(self) -> None:
        if not self.over:
            super().reorder()

    def remove(self, firing: OpenFiring) -> None:
        super().remove(firing)
        self.reorder()


def test_an_order_that_waits_for_a_dead_letter_which_is_refused_is_found() -> None:
    made_of = DeliveryMadeOf(parts=DelivererParts(lanes=LanesThatWaitForAcknowledgements))
    assert_delivery_shows(made_of, "isolation", kept=0)


class LanesThatForgetWhatIsOver(SinkLanes):
    def reorder(self) -> None:
        if self.next_order is not None and not self.in_flight:
            self.over.clear()
        super().reorder()


def test_lanes_of_another_order_that_send_again_what_needs_only_its_acknowledgement_are_found() -> None:
    made_of = DeliveryMadeOf(parts=DelivererParts(lanes=LanesThatForgetWhatIsOver))
    assert_delivery_shows(made_of, "over", kept=0)


class LanesThatSendWhatIsFoundAgain(SinkLanes):
    def add_over(self, firing: OpenFiring) -> None:
        self.add(firing)


def test_a_firing_that_is_sent_again_although_it_is_known_as_delivered_is_found() -> None:
    made_of = DeliveryMadeOf(parts=DelivererParts(lanes=LanesThatSendWhatIsFoundAgain))
    assert_delivery_shows(made_of, "over", kept=3)


class OffsetWithoutWhatIsLeftOut(ActionPartition):
    @property
    def offset_to_commit(self) -> int:
        lowest = self.open_offsets.lowest()
        return self.position if lowest is None else min(lowest, self.position)


def test_an_offset_beyond_what_did_not_fit_into_memory_is_found() -> None:
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(partition=OffsetWithoutWhatIsLeftOut)), "offset", "lost", kept=52
    )


class WindowWithGaps(ActionPartition):
    def refusal(self, firing: OpenFiring) -> Scope | None:
        return self.full(firing)


def test_firings_that_are_held_although_an_earlier_one_did_not_fit_are_found() -> None:
    assert_delivery_shows(DeliveryMadeOf(parts=DelivererParts(partition=WindowWithGaps)), "order", kept=56)


class ScanThatDeliversAtOnce(ActionPartition):
    def end_scan(self, position: int) -> list[OpenFiring] | None:
        return super().end_scan(self.position)


def test_a_scan_whose_firings_are_delivered_before_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    often(monkeypatch, {"fire": 400, "key": 60, "kick": 60, "into": 60}, of=deliveries)
    monkeypatch.setattr(deliveries, "USUAL", deliveries.SMALL)
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(partition=ScanThatDeliversAtOnce)),
        "acked",
        "stuck",
        "lost",
        kept=8,
    )


class NotesThatKeepWhatIsAcknowledged(NotedFirings):
    def remove(self, key: bytes) -> bool:
        return key in self._offsets


# Much is delivered and acknowledged by administrators, and deliverers seldom begin again with nothing noted.
OF_LONG_LIVES: Final = {
    "run": 500,
    "arrive": 500,
    "answer": 500,
    "skip": 300,
    "key": 60,
    "mode": 20,
    "compact": 4,
    "sink": 1,
    "rebalance": 1,
    "kick": 1,
    "crash": 1,
    "stop": 1,
    "pause": 1,
    "no answer": 0,
    "late end": 0,
    "time out": 0,
}


def test_firings_that_stay_noted_although_they_are_acknowledged_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    often(monkeypatch, OF_LONG_LIVES, of=deliveries)
    parts = DelivererParts(noted_firings=NotesThatKeepWhatIsAcknowledged)
    assert_delivery_shows(DeliveryMadeOf(parts=parts), "acked", kept=23)


class NotesThatCoverTooMuch(NotedFirings):
    def cover(self, scopes: Iterable[Scope], offset: int) -> None:
        super().cover(scopes, offset + 20)


def test_a_scan_that_ends_beyond_what_is_noted_is_found() -> None:
    parts = DelivererParts(noted_firings=NotesThatCoverTooMuch)
    assert_delivery_shows(DeliveryMadeOf(parts=parts), "lost", "offset", "stuck", kept=3)


class ScanThatTakesAll(Scan):
    def reads(self, scope: Scope, offset: int) -> bool:
        return scope in self.scopes


def test_a_scan_that_takes_what_its_last_batch_has_beyond_what_is_noted_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    often(monkeypatch, OF_LONG_LIVES, of=deliveries)
    made_of = DeliveryMadeOf(parts=DelivererParts(scan=ScanThatTakesAll))
    assert_delivery_shows(made_of, "order", kept=39)


class LanesThatForgetWhatIsInFlight(SinkLanes):
    """Starts the first firing of a lane although it is in flight already."""

    def add(self, firing: OpenFiring) -> None:
        lane = self.lanes.get(firing.lane(self.order))
        if lane is not None and lane.in_flight is not None and not lane.firings:
            lane.in_flight = None
        super().add(firing)


def test_a_second_delivery_of_a_firing_in_flight_is_found() -> None:
    assert_delivery_shows(
        DeliveryMadeOf(parts=DelivererParts(lanes=LanesThatForgetWhatIsInFlight)), "twice", "error", kept=42
    )


class PatientCluster(Cluster):
    """Ends no transaction for its age."""

    def overdue(self) -> list[Transaction]:
        return []


class FencesNobody(DeadDeliverers):
    def is_blocked(self) -> bool:
        return False


def test_the_transaction_of_a_killed_deliverer_that_is_not_ended_is_found() -> None:
    made_of = DeliveryMadeOf(parts=DelivererParts(dead_deliverers=FencesNobody), cluster=PatientCluster)
    assert_delivery_shows(made_of, "stuck", kept=20)
    assert play(43, DeliveryMadeOf(cluster=PatientCluster)).problems == []
