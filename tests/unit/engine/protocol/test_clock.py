"""The brokers' clock: what was observed, run on with the monotonic clock, and never back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from interlock.engine.protocol.clock import FRESH_S, BrokerClock


class Times:
    def __init__(self) -> None:
        self.wall, self.monotonic = 5000.0, 100.0
        self.clock = BrokerClock(lambda: self.wall, lambda: self.monotonic)


def test_before_anything_is_observed_it_is_the_machines_time_and_not_fresh() -> None:
    times = Times()
    assert times.clock.now_ms() == 5_000_000
    assert not times.clock.fresh


def test_after_an_observation_the_machines_time_no_longer_counts() -> None:
    times = Times()
    times.clock.observe(77_000)
    times.wall, times.monotonic = 9e9, 101.5
    assert times.clock.now_ms() == 78_500
    assert times.clock.fresh


def test_it_is_fresh_for_half_a_minute() -> None:
    times = Times()
    times.clock.observe(1)
    times.monotonic += FRESH_S
    assert times.clock.fresh
    times.monotonic += 0.1
    assert not times.clock.fresh
    times.clock.observe(2)
    assert times.clock.fresh


@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.integers(0, 10**6)), max_size=30))
def test_once_it_follows_the_brokers_it_never_runs_backwards(steps: list[tuple[float, int | None]]) -> None:
    """Two brokers need not agree, and the one that is behind may be the later one to answer."""
    times = Times()
    times.clock.observe(500_000)
    last = times.clock.now_ms()
    for passed, stamp in steps:
        times.monotonic += passed
        if stamp is not None:
            times.clock.observe(stamp)
        now = times.clock.now_ms()
        assert now >= last
        last = now
