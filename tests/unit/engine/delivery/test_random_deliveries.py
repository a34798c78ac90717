"""Random histories: nothing is lost, held for ever, out of order, or sent once it is over."""

from __future__ import annotations

from collections import Counter

from tests.unit.engine.delivery.random_deliveries import CHANCES, RandomDeliveries

SEEDS = 40
MUST_BE_SEEN = (*CHANCES, "dead letter", "reply")


def test_each_firing_is_sent_in_the_order_of_its_lane_until_it_is_over_and_nothing_is_left() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        played = RandomDeliveries(seed).play()
        assert played.problems == [], seed
        seen += played.seen
    assert [what for what in MUST_BE_SEEN if not seen[what]] == []
