"""The plan of `make ha`: measured waits are away from faults, and as many as stock triggers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ha.plan import AWAY_S, DISTURBING, HANG_S, KINDS, Order, Second, plan

PLAN = plan(200, 300, 100.0, seed=7)


def test_each_wait_is_met_once_and_one_order_in_ten_is_repeated() -> None:
    seconds = [each.wait for each in PLAN.events if isinstance(each, Second)]
    orders = [each for each in PLAN.events if isinstance(each, Order)]
    assert sorted(seconds) == list(range(200))
    assert sorted(each.order for each in orders if not each.again) == list(range(300))
    assert sum(each.again for each in orders) == 30


def test_the_faults_are_a_stop_two_kills_a_restart_of_the_broker_and_a_pause() -> None:
    kinds = [fault.kind for fault in PLAN.faults]
    assert set(kinds) == set(KINDS)
    assert kinds.count("kill a triggerer") == kinds.count("start a triggerer") == 2
    assert [fault.at_s for fault in PLAN.faults] == sorted(fault.at_s for fault in PLAN.faults)


@pytest.mark.parametrize("triggerers", [2, 3])
def test_the_seed_chooses_which_triggerers_are_stopped_and_killed_among_all(triggerers: int) -> None:
    first: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
    for seed in range(50):
        faults = plan(200, 300, 100.0, seed, triggerers=triggerers).faults
        striking = [fault for fault in faults if fault.victims]
        assert [fault.kind for fault in striking] == ["stop a triggerer", *["kill a triggerer"] * 2]
        assert [fault.with_waits for fault in striking] == [True, False, True]
        for number, fault in enumerate(striking):
            assert sorted(fault.victims) == list(range(triggerers))
            first[number].add(fault.victims[0])
    assert all(chosen == set(range(triggerers)) for chosen in first.values())


@pytest.mark.parametrize("away_s", [12.0, AWAY_S])
def test_a_triggerer_is_stopped_longer_than_airflows_threshold_and_nothing_is_killed_meanwhile(
    away_s: float,
) -> None:
    faults = plan(200, 300, 100.0, 7, away_s).faults
    assert [fault.kind for fault in faults if fault.kind in DISTURBING][:2] == [
        "stop a triggerer",
        "continue the triggerer",
    ]
    assert faults[1].at_s - faults[0].at_s == HANG_S > 30


def test_some_waits_are_met_while_a_triggerer_is_stopped() -> None:
    begin, end = (fault.at_s for fault in PLAN.faults[:2])
    assert sum(begin < each.at_s < end for each in PLAN.events if isinstance(each, Second)) >= 5


def test_there_are_as_many_stock_triggers_as_waits_away_from_faults() -> None:
    faults = [fault.at_s for fault in PLAN.faults if fault.kind in DISTURBING]

    def away(at_s: float) -> bool:
        return all(abs(at_s - fault) >= AWAY_S for fault in faults)

    waits = [each.at_s for each in PLAN.events if isinstance(each, Second) and away(each.at_s)]
    assert len(waits) == len(PLAN.floors)
    assert all(away(at_s) for at_s in PLAN.floors)


def test_a_seed_determines_the_plan() -> None:
    assert plan(200, 300, 100.0, seed=7) == PLAN
    assert plan(200, 300, 100.0, seed=8) != PLAN


def test_measured_times_are_spread_evenly_over_the_second() -> None:
    parts = Counter(int(at_s % 1 * 10) for at_s in PLAN.floors)
    assert parts.keys() == set(range(10))
    assert max(parts.values()) - min(parts.values()) <= 4
