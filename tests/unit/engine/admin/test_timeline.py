"""What comes next, and how long the steps of a firing took."""

from __future__ import annotations

import pytest
from interlock import absent, event
from interlock.conditions import EMPTY, Condition, Match, explain, opened, step
from interlock.engine.admin.timeline import MOST_STEPS, Next, Step, next_of, steps_of
from interlock.engine.following.fired import EventPlace, Fired
from interlock.events import Event

START_MS = 1_795_165_920_000
HOUR_MS = 3_600_000
ORDERS, RATES = event("orders", label="orders"), event("rates", label="rates")


def due(condition: Condition, *, with_event: bool = True) -> list[tuple[str, int]]:
    """What comes next, in hours after the start."""
    state = opened(condition, START_MS)
    if with_event:
        came = Event.of("orders", "/s", id="1")
        state, _ = step(condition, state, Match(came, (0,), "t", 0, 0, START_MS))
    found = next_of(explain(condition, state, START_MS), {})
    return [(each.what, round((each.at_ms - START_MS) / HOUR_MS)) for each in found]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ORDERS & RATES, []),
        ((ORDERS & RATES).expires(after="4h"), [("expires", 4)]),
        ((ORDERS & ~RATES).within("2h"), [("over", 2)]),
        (ORDERS.quiet("1h"), [("settles", 1)]),
        (absent(ORDERS, "3h"), [("fires", 3)]),
        ((ORDERS.quiet("1h") & RATES).expires(after="4h"), [("settles", 1), ("expires", 4)]),
    ],
    ids=["no timer", "expiry", "window", "quiet", "absent", "several"],
)
def test_what_a_condition_does_by_itself_comes_next(
    condition: Condition, expected: list[tuple[str, int]]
) -> None:
    assert due(condition) == expected


def test_what_airflow_does_is_among_it_the_nearest_first() -> None:
    condition = (ORDERS & RATES).expires(at="2026-11-20T10:00:00Z")
    found = next_of(
        explain(condition, opened(condition, START_MS), START_MS),
        {"timeout": START_MS + 9 * HOUR_MS, "retry": START_MS, "other": None},
    )
    assert [each.what for each in found] == ["retry", "expires", "timeout"]
    assert next_of(None, {"retry": 7}) == (Next("retry", 7),)
    assert found[0].to_json() == {"what": "retry", "at_ms": START_MS}


def came(at_ms: int, own_ms: int = 1) -> EventPlace:
    return EventPlace("e", "/s", "t", None, own_ms, "bus-event", 0, 0, at_ms)


def fired(events: dict[str, tuple[EventPlace, ...]]) -> Fired:
    known = ("f", "w", "one-shot", "i", None, "met", "1970-01-01T00:00:10Z", 10_000, False, 10_000, None)
    return Fired(*known, (), events, 0)  # type: ignore[arg-type]  # a Literal


def test_each_step_says_how_long_it_took_after_the_one_before() -> None:
    firing = fired({"rates": (came(9_000),), "orders": (came(1_000), came(2_000))})
    assert steps_of(firing, 14_000) == (
        Step("event", 1_000, "orders"),
        Step("event", 2_000, "orders"),
        Step("event", 9_000, "rates"),
        Step("firing", 10_000, took_ms=1_000),
        Step("resumed", 14_000, took_ms=4_000),
    )
    assert steps_of(firing)[-1].to_json() == {"what": "firing", "at_ms": 10_000, "took_ms": 1_000}


@pytest.mark.parametrize(
    ("firing", "continued_ms", "last"),
    [
        (fired({}), None, Step("firing", 10_000)),
        (fired({"a": (came(20_000),)}), None, Step("firing", 10_000)),
        (fired({"a": (came(20_000), came(8_000))}), None, Step("firing", 10_000, took_ms=2_000)),
        (fired({}), 9_999, Step("firing", 10_000)),
    ],
    ids=["no event", "an event of the future", "one of two of the future", "continued before it fired"],
)
def test_clocks_that_do_not_agree_give_no_negative_duration(
    firing: Fired, continued_ms: int | None, last: Step
) -> None:
    assert steps_of(firing, continued_ms)[-1] == last


def test_an_event_without_a_timestamp_counts_at_its_own_time() -> None:
    assert steps_of(fired({"a": (came(0, own_ms=9_000),)}))[0] == Step("event", 9_000, "a")


def test_of_many_events_the_latest_are_shown() -> None:
    steps = steps_of(fired({"a": tuple(came(n) for n in range(1, 1001))}))
    assert (len(steps), steps[0].at_ms) == (MOST_STEPS + 1, 1001 - MOST_STEPS)


def test_a_state_without_a_timer_has_nothing_next() -> None:
    assert next_of(explain(ORDERS, EMPTY, START_MS), {}) == ()
