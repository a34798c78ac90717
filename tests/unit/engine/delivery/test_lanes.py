"""The lanes of one sink, with an injected clock."""

from __future__ import annotations

import pytest
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.firings import OpenFiring, Order
from interlock.engine.delivery.lanes import Finished, SinkLanes
from interlock.engine.delivery.retry import Retry

from tests.unit.engine.delivery.firings import firing

RETRY = Retry(jitter=0, delay_s=1, most_delay_s=60)
OK, FAILS, LOST, NO_WAY = Answer(200), Answer(500), Answer(None, "timeout"), Answer(400)
DENIED, DOWN = Answer(403), Answer(None, "connection refused", connected=False)
DAY_MS = 86_400_000


class Lanes:
    """A sink's lanes, and the time."""

    def __init__(
        self, *firings: OpenFiring, order: Order = "key", max_in_flight: int = 8, retry: Retry = RETRY
    ) -> None:
        self.lanes = SinkLanes(retry, order, max_in_flight, lambda: 0.0)
        self.now = 0.0
        self.now_ms = 0
        for each in firings:
            self.lanes.add(each)

    def start(self) -> list[OpenFiring]:
        """Starts all that may start."""
        started = []
        while (found := self.lanes.start(self.now)) is not None:
            started.append(found)
        return started

    def answer(self, sent: OpenFiring, answer: Answer) -> list[Finished]:
        return self.lanes.answer(sent, answer, self.now, self.now_ms)

    def commit(self, finished: Finished) -> list[Finished]:
        return self.lanes.acknowledged(finished.firing, self.now_ms)


def test_firings_of_a_key_go_one_by_one_and_keys_do_not_wait_for_each_other() -> None:
    a1, a2, b1 = firing(1, "a"), firing(2, "a"), firing(3, "b")
    lanes = Lanes(a1, a2, b1)
    assert lanes.start() == [a1, b1]
    [finished] = lanes.answer(a1, OK)
    assert finished == Finished(a1)
    assert lanes.start() == []  # the acknowledgement is not committed
    lanes.commit(finished)
    assert lanes.start() == [a2]


@pytest.mark.parametrize(("order", "first"), [("key", 2), ("partition", 1), ("none", 3)])
def test_the_order_says_what_may_be_in_flight_at_once(order: Order, first: int) -> None:
    lanes = Lanes(firing(1, "a"), firing(2, "a"), firing(3, "b"), order=order)
    assert len(lanes.start()) == first


def test_a_firing_without_a_key_has_the_lane_of_its_events_partition_key() -> None:
    def of(offset: int, **attributes: str) -> OpenFiring:
        return firing(offset, None, events={"e": [attributes]})

    firings = [
        of(1, source="s", subject="x"),
        of(2, source="t", subject="x"),
        of(3, source="s"),
        of(4, source="s"),
    ]
    lanes = Lanes(*firings)
    assert lanes.start() == [firings[0], firings[2]]


def test_a_lane_that_is_parked_holds_no_slot_and_comes_back_with_its_first_firing() -> None:
    a1, a2, b1 = firing(1, "a"), firing(2, "a"), firing(3, "b")
    lanes = Lanes(a1, a2, b1, max_in_flight=1)
    assert lanes.start() == [a1]
    assert lanes.answer(a1, FAILS) == []
    assert lanes.start() == [b1]
    lanes.commit(*lanes.answer(b1, OK))
    assert lanes.start() == []
    assert lanes.lanes.next_due(lanes.now) == 1
    lanes.now = 1
    assert lanes.start() == [a1]
    lanes.answer(a1, FAILS)
    assert lanes.lanes.next_due(lanes.now) == 3  # the second delay is twice as long


def test_a_retry_after_parks_only_its_lane() -> None:
    a, b = firing(1, "a"), firing(2, "b")
    lanes = Lanes(a, b, max_in_flight=1)
    lanes.start()
    lanes.answer(a, Answer(429, retry_after_s=100))
    assert lanes.start() == [b]
    lanes.now = 99
    lanes.commit(*lanes.answer(b, OK))
    assert lanes.start() == []
    lanes.now = 100
    assert lanes.start() == [a]


def test_a_refused_firing_is_over_at_once_and_the_next_one_follows() -> None:
    a1, a2 = firing(1, "a"), firing(2, "a")
    lanes = Lanes(a1, a2)
    lanes.start()
    [finished] = lanes.answer(a1, NO_WAY)
    assert finished == Finished(a1, "the sink refused it: HTTP 400")
    lanes.commit(finished)
    assert lanes.start() == [a2]


def test_an_old_firing_is_given_up_when_this_owner_has_seen_it_fail_often_enough() -> None:
    old = firing(1, "a", at_ms=0)
    lanes = Lanes(old)
    lanes.now_ms = 3 * DAY_MS
    for _ in range(2):
        lanes.now += 100
        assert lanes.start() == [old]
        assert lanes.answer(old, LOST) == []
    lanes.now += 100
    lanes.start()
    [finished] = lanes.answer(old, LOST)
    assert finished == Finished(old, "given up after 3 failed deliveries; the last failure: timeout")


# -- the sink as a whole


def test_a_sink_without_connection_is_paused_and_probed_by_one_lane_after_the_other() -> None:
    firings = [firing(n, f"k{n}") for n in range(4)]
    lanes = Lanes(*firings)
    assert lanes.start() == firings
    for each in firings:
        lanes.answer(each, DOWN)
    assert lanes.lanes.pace.paused_until == 1  # one failure, not four
    assert lanes.start() == []
    lanes.now = 1
    assert lanes.start() == firings[:1]
    lanes.answer(firings[0], DOWN)
    assert (lanes.lanes.pace.paused_until, lanes.lanes.pace.paused_by) == (3, "connection refused")
    lanes.now = 3
    assert lanes.start() == firings[1:2]  # another one
    lanes.answer(firings[1], OK)
    assert lanes.lanes.pace.paused_until is None
    assert {each.key for each in lanes.start()} == {each.key for each in (*firings[2:], firings[0])}


def test_any_answer_about_a_firing_ends_the_pause() -> None:
    a, b = firing(1, "a"), firing(2, "b")
    lanes = Lanes(a, b)
    lanes.start()
    lanes.answer(a, DOWN)
    lanes.answer(b, FAILS)  # it was sent before the pause: it says nothing new
    assert lanes.lanes.pace.paused_until == 1
    lanes.now = 1
    assert lanes.start() == [a]
    lanes.answer(a, FAILS)
    assert lanes.lanes.pace.paused_until is None


def test_a_sink_that_denies_everything_keeps_its_firings() -> None:
    a, b = firing(1, "a"), firing(2, "b")
    lanes = Lanes(a, b)
    for _ in range(50):
        for each in lanes.start():
            assert lanes.answer(each, DENIED) == []
        lanes.now += 60
    assert lanes.lanes.firing_count == 2


def test_a_firing_that_is_denied_while_others_are_accepted_is_refused() -> None:
    bad, good = firing(1, "bad"), firing(2, "good")
    lanes = Lanes(bad, good, max_in_flight=1)
    lanes.start()
    assert lanes.answer(bad, DENIED) == []
    lanes.now = 1
    assert lanes.start() == [good]
    lanes.commit(*lanes.answer(good, OK))
    assert lanes.start() == [bad]
    assert lanes.answer(bad, DENIED) == [Finished(bad, "the sink refused it: HTTP 403")]
    assert lanes.lanes.pace.paused_until is None  # the cause was the firing


def test_what_was_sent_before_a_denial_does_not_show_that_the_cause_is_the_firing() -> None:
    a, b = firing(1, "a"), firing(2, "b")
    lanes = Lanes(a, b)
    assert lanes.start() == [a, b]
    assert lanes.answer(a, DENIED) == []  # the password is not valid any more
    lanes.commit(*lanes.answer(b, OK))
    lanes.now = 1
    assert lanes.start() == [a]
    assert lanes.answer(a, DENIED) == []


def test_failures_of_a_paused_sink_count_for_all_that_wait() -> None:
    firings = [firing(n, f"k{n}", at_ms=0) for n in range(3)] + [firing(9, "k1", at_ms=0)]
    lanes = Lanes(*firings)
    lanes.now_ms = 2 * DAY_MS
    over: list[Finished] = []
    for _ in range(3):
        [probe, *rest] = lanes.start()
        for each in (probe, *rest):
            over += lanes.answer(each, DOWN)
        lanes.now = lanes.lanes.pace.paused_until or 0.0
    assert [finished.firing for finished in over] == [firings[1], firings[0], firings[2]]  # the probe first
    assert all(finished.reason.endswith("connection refused") for finished in over)
    [behind] = lanes.commit(over[0])
    assert behind.firing is firings[3]
    assert behind.reason == "given up after 0 failed deliveries; the last failure: connection refused"


def test_what_comes_later_does_not_inherit_the_failures_of_its_sink() -> None:
    a = firing(1, "a", at_ms=0)
    lanes = Lanes(a)
    for _ in range(3):
        lanes.start()
        lanes.answer(a, DOWN)
        lanes.now = lanes.lanes.pace.paused_until or 0.0
    late = firing(2, "b", at_ms=0)
    lanes.lanes.add(late)
    lanes.now_ms = 2 * DAY_MS
    lanes.start()
    over = lanes.answer(a, DOWN)
    assert late not in [finished.firing for finished in over]


def test_congestion_halves_the_deliveries_in_flight_once_and_success_raises_it() -> None:
    firings = [firing(n, f"k{n}") for n in range(40)]
    lanes = Lanes(*firings, max_in_flight=16)
    sent = lanes.start()
    assert len(sent) == 16
    lanes.now = 0.5
    for each in sent:
        lanes.answer(each, Answer(503))
    assert lanes.lanes.pace.limit == 8
    sent = lanes.start()
    assert len(sent) == 8
    for each in sent:
        lanes.commit(*lanes.answer(each, OK))
    assert 8 < lanes.lanes.pace.limit <= 16


@pytest.mark.parametrize("answer", [LOST, Answer(429), Answer(503)])
def test_a_firing_that_meets_congestion_again_while_the_sink_accepts_others_slows_nothing(
    answer: Answer,
) -> None:
    bad = firing(0, "bad")
    lanes = Lanes(bad, max_in_flight=16)
    halved = []
    for number in range(1, 40):
        lanes.lanes.add(firing(number, f"k{number}"))
        sent = lanes.start()
        lanes.now += 1
        for each in sent:
            before = lanes.lanes.pace.limit
            for finished in lanes.answer(each, answer if each is bad else OK):
                lanes.commit(finished)
            if each is bad:
                halved.append(lanes.lanes.pace.limit < before)
    assert halved[:4] == [True, False, False, False]


def test_a_firing_that_meets_congestion_again_counts_if_the_sink_accepted_none_since() -> None:
    lanes = Lanes(*(firing(n, f"k{n}") for n in range(8)), max_in_flight=8)
    for limit in (4, 2, 1):
        sent = lanes.start()
        lanes.now += 100
        for each in sent:
            lanes.answer(each, LOST)
        assert lanes.lanes.pace.limit == limit
        lanes.now += 100


# -- partitions that go and come


def test_a_firing_that_somebody_else_acknowledged_is_not_sent() -> None:
    a1, a2 = firing(1, "a"), firing(2, "a")
    lanes = Lanes(a1, a2)
    lanes.lanes.remove(a1)
    assert lanes.start() == [a2]
    lanes.lanes.remove(a2)  # in flight
    assert lanes.answer(a2, OK) == []
    assert lanes.lanes.lanes == {}


def test_a_lane_that_comes_back_waits_for_the_delivery_that_is_still_in_flight() -> None:
    before, again, after = firing(1, "a", name="x"), firing(1, "a", name="x"), firing(2, "a")
    lanes = Lanes(before)
    lanes.start()
    lanes.lanes.remove(before)
    lanes.lanes.add(again)
    lanes.lanes.add(after)
    assert lanes.start() == []
    assert lanes.answer(before, OK) == [Finished(again)]
    lanes.commit(Finished(again))
    assert lanes.start() == [after]


def test_the_successor_of_a_firing_in_flight_waits_even_if_that_was_acknowledged_meanwhile() -> None:
    first, second = firing(1, "a"), firing(2, "a")
    lanes = Lanes(first)
    lanes.start()
    lanes.lanes.remove(first)
    lanes.lanes.add(second)
    assert lanes.start() == []
    assert lanes.answer(first, FAILS) == []
    assert lanes.start() == [second]


def test_a_firing_that_is_known_as_delivered_needs_only_its_acknowledgement() -> None:
    first, second = firing(1, "a"), firing(2, "a")
    lanes = Lanes()
    lanes.lanes.add_over(first)
    lanes.lanes.add(second)
    assert lanes.start() == []
    lanes.commit(Finished(first))
    assert lanes.start() == [second]


@pytest.mark.parametrize("answer", [FAILS, DOWN, NO_WAY])
def test_a_firing_that_was_given_up_in_flight_while_the_sink_was_removed_is_not_sent_again(
    answer: Answer,
) -> None:
    """It was sent until the brokers accepted its dead letter."""
    over, following = firing(1, "a"), firing(2, "a")
    lanes = Lanes(over)
    assert lanes.start() == [over]
    lanes.lanes.remove(over)  # with its sink, which comes back
    lanes.lanes.add_over(over)
    lanes.lanes.add(following)
    assert lanes.answer(over, answer) == []
    lanes.now = 1000.0
    assert lanes.start() == []
    lanes.commit(Finished(over))
    assert lanes.start() == [following]


# -- another order


def test_another_order_begins_when_nothing_is_in_flight_and_keeps_the_order_of_the_partition() -> None:
    firings = [firing(1, "a"), firing(2, "b"), firing(3, "a")]
    lanes = Lanes(*firings, order="none")
    sent = lanes.start()
    assert sent == firings
    lanes.lanes.change(RETRY, "key", 8)
    assert lanes.answer(firings[2], FAILS) == []
    [finished] = lanes.answer(firings[1], OK)
    lanes.now = 100
    assert lanes.start() == []
    lanes.answer(firings[0], FAILS)
    assert lanes.lanes.order == "key"
    assert lanes.start() == [firings[0]]
    lanes.commit(finished)
    assert lanes.start() == []


def test_what_is_delivered_while_the_lanes_of_another_order_are_read_is_not_sent_again() -> None:
    """Its key had no room at first, so it came behind others of its old lane, and was sent twice."""
    sent = firing(2, "b")
    lanes = Lanes(sent, order="partition")
    assert lanes.start() == [sent]
    lanes.lanes.change(RETRY, "key", 8)
    lanes.lanes.remove(sent)
    first, again, last = firing(3, "a"), firing(2, "b"), firing(4, "b")
    for each in (first, again, last):
        lanes.lanes.add(each)
    lanes.answer(sent, OK)
    assert lanes.lanes.order == "key"
    assert lanes.start() == [first]
    lanes.commit(Finished(again))
    assert lanes.start() == [last]


def test_an_order_that_is_changed_back_needs_no_waiting() -> None:
    lanes = Lanes(firing(1, "a"), firing(2, "b"), max_in_flight=1)
    lanes.start()
    lanes.lanes.change(RETRY, "none", 1)
    lanes.lanes.change(RETRY, "key", 2)
    assert len(lanes.start()) == 1


def test_another_order_does_not_wait_for_acknowledgements() -> None:
    """A dead letter that the brokers refused held the whole sink up."""
    firings = [firing(1, "a"), firing(2, "a"), firing(3, "b"), firing(4, "b")]
    a1, a2, b1, b2 = firings
    lanes = Lanes(*firings, order="partition")
    assert lanes.start() == [a1]
    [given_up] = lanes.answer(a1, NO_WAY)
    lanes.lanes.change(RETRY, "key", 8)
    assert lanes.start() == [b1]  # a1 keeps the lane of its key waiting
    lanes.commit(*lanes.answer(b1, OK))
    lanes.lanes.change(RETRY, "none", 8)
    assert lanes.start() == [a2, b2]
    assert lanes.commit(given_up) == []
    assert [*lanes.lanes.lanes] == [a2.lane("none"), b2.lane("none")]


@pytest.mark.parametrize("is_first_over", [False, True])
def test_a_firing_that_is_over_keeps_its_place_in_the_lane_of_another_order(is_first_over: bool) -> None:
    """It was sent again, after those before it."""
    first, over, last = firing(1, "a"), firing(2, "a"), firing(3, "a")
    lanes = Lanes(first, over, last, order="none", max_in_flight=2)
    assert lanes.start() == [first, over]
    [given_up] = lanes.answer(over, NO_WAY)
    lanes.answer(first, FAILS)
    lanes.lanes.change(RETRY, "key", 8)
    assert lanes.start() == [first]
    [delivered] = lanes.answer(first, OK)
    if is_first_over:
        lanes.commit(delivered)
    assert lanes.start() == []
    lanes.commit(given_up)
    assert lanes.start() == [last] * is_first_over
    lanes.commit(delivered)
    assert lanes.start() == [last] * (not is_first_over)


def test_what_is_over_is_not_given_up_again_by_a_paused_sink() -> None:
    firings = [firing(n, "a", at_ms=0) for n in range(3)]
    first, over, last = firings
    lanes = Lanes(*firings, order="none", max_in_flight=2, retry=Retry(jitter=0, least_tries=1))
    assert lanes.start() == [first, over]
    [given_up] = lanes.answer(over, NO_WAY)
    lanes.lanes.change(lanes.lanes.retry, "key", 8)
    lanes.now_ms = 2 * DAY_MS
    more = lanes.answer(first, DOWN)
    assert [finished.firing for finished in more] == [first, last]
    assert lanes.lanes.order == "key"
    assert [lanes.commit(each) for each in (more[0], given_up, more[1])] == [[], [], []]
    assert lanes.lanes.lanes == {}


def test_another_order_does_not_wait_for_firings_of_a_partition_that_is_lost() -> None:
    first, second = firing(1, "a"), firing(2, "a")
    lanes = Lanes(first)
    lanes.start()
    lanes.answer(first, OK)
    lanes.lanes.change(RETRY, "none", 8)
    lanes.lanes.remove(first)  # before its acknowledgement was committed
    lanes.lanes.add(second)
    assert lanes.start() == [second]


def test_a_paused_sink_gives_up_what_waits_in_lanes_of_another_order() -> None:
    firings = [firing(n, "a", at_ms=0) for n in range(3)]
    lanes = Lanes(*firings, retry=Retry(jitter=0, least_tries=1))
    lanes.now_ms = 2 * DAY_MS
    lanes.start()
    [first] = lanes.answer(firings[0], DOWN)
    lanes.lanes.change(lanes.lanes.retry, "none", 8)
    assert lanes.commit(first) == []
    lanes.now = lanes.lanes.pace.paused_until or 0.0
    assert lanes.start() == firings[1:2]
    assert [over.firing for over in lanes.answer(firings[1], DOWN)] == firings[1:]
