"""`step` as time passes: look-back, cancel, limits, wake-ups. Case ids: docs/use/conditions.md."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from interlock.conditions import (
    EMPTY,
    Cancel,
    Condition,
    ConditionError,
    Match,
    State,
    Tick,
    absent,
    closes_at,
    count,
    event,
    next_wakeup,
    opened,
    sequence,
    step,  # fmt: skip
)
from interlock.conditions.evaluate.run import MAX_WAITING
from interlock.conditions.evaluate.seen import SEEN_EVENTS
from interlock.events import Event

from tests.unit.conditions.timeline import at, cases, millis, timeline

a, b, c = (event(letter, label=letter) for letter in "abc")
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
MIDNIGHT = millis(at("0:00"))
TTL = 7 * DAY


def match(condition: Condition, letter: str, n: int, at_ms: int) -> Match:
    number = condition.labels.index(letter)
    return Match(Event.of(letter, "/s", id=f"{letter}{n:05}"), (number,), "events", 0, 7, at_ms)


def fed(condition: Condition, inputs: Iterable[Match | Tick], state: State = EMPTY) -> tuple[State, int]:
    """The state at the end, and how many firings there were."""
    fired = 0
    for given in inputs:
        state, firings = step(condition, state, given)
        fired += len(firings)
    return state, fired


@pytest.mark.parametrize("line", cases("""
Y1  a & b:   opened(0:00, since 0:10)  a1(0:09:59.999)  b1(0:10)  a2(0:11) ! a2 b1   {}
Y1  a & b:   opened(9:00, since 0:10)  a1(0:20)  b1(0:10) ! a1 b1   {}
Y1  a & b:   opened(0:00, since 0:10)  a1(0:05, recorded 0:10)  b1(0:20) ! a1 b1   {}
Y1  a & b:   opened(0:00, since 0:10)  a1(0:20, recorded 0:05)  b1(0:20)   {b1}
Y1  a & b:   opened(0:00)  a1(0:00)  b1(0:01) ! a1 b1   {}
Y1  sequence(a, b):   opened(0:00, since 0:10)  a1(0:05)  a2(0:12, waits)  tick(1:00)   {a2}
Y1  (a & b).within("1h"):   opened(0:00, since 0:10)  a1(0:05)  tick(0:06)  a2(0:07)   {}
V4  absent(a, "10m"):   a1(0:30)  a2(0:00)  tick(1:00) ! a1 at 0:40   {}
V4  absent(a, "10m").ordered():   a1(0:30, waits)  a2(0:00, waits)  tick(1:00) ! a2 at 0:10 ! a1 at 0:40   {}
V4  a.quiet("10m"):   a1(0:30)  a2(0:00)  tick(1:00) ! a1 at 0:40   {}
V4  a.quiet("10m").ordered():   a1(0:30, waits)  a2(0:00, waits)  tick(1:00) ! a2 at 0:10 ! a1 at 0:40   {}
W9  (a & b).expires(after="1h"):   opened(0:00)  a1(0:05)  b1(1:30, waits)  cancel  tick(2:00)   {}
W9  a & b:   a1  cancel  b1   {b1}
W9  a:   a1 ! a1   cancel  a1 ! a1   {}
"""))  # fmt: skip
def test_look_back_and_cancel_do_as_the_timeline_shows(line: str) -> None:
    timeline(line)


def test_a_subscription_without_timers_opens_with_nothing_but_its_look_back() -> None:
    """Y1, B2, X2"""
    assert opened(a & b, 5) == EMPTY
    assert opened(a & b, 5, 3) == State(since_ms=3)
    assert opened(a.expires(after="1h"), 5) == State(opened_ms=5)
    assert opened(absent(a, "1m", armed_by="subscription"), 5) == State(timer_starts={0: 5})
    assert step(a & b, opened(a & b, 5, 3), Cancel()) == (EMPTY, ())


@pytest.mark.parametrize("numbers", [(), (2,), (-1,), (0, 5)])
def test_a_matcher_number_that_the_condition_lacks_is_refused(numbers: tuple[int, ...]) -> None:
    one = Match(Event.of("a", "/s", id="1"), numbers, "events", 0, 0, 0)
    for condition in (a & b, (a & b).within("1h"), sequence(a, b)):
        with pytest.raises(ConditionError, match="the condition has 2"):
            step(condition, EMPTY, one)


# -- bounds


@pytest.mark.parametrize(
    "condition", [sequence(a, b), absent(a, "1h", armed_by="subscription") & b], ids=["ordered", "timed"]
)
def test_beyond_the_limit_the_last_match_that_waits_is_dropped_and_counted(condition: Condition) -> None:
    """W4"""
    first = opened(condition, 0)
    waiting = [match(condition, "a", n, 2 * HOUR + n) for n in range(MAX_WAITING + 5)]
    state, _ = fed(condition, waiting, first)
    assert (len(state.waiting), state.dropped) == (MAX_WAITING, 5)
    assert state.waiting == tuple(waiting[:MAX_WAITING])
    # an earlier one replaces the last one, in any order of arrival
    early = match(condition, "b", 0, 2 * HOUR - 1)
    assert step(condition, state, early)[0].waiting == (early, *waiting[: MAX_WAITING - 1])
    backwards, _ = fed(condition, reversed(waiting), first)
    assert (backwards.waiting, backwards.dropped) == (state.waiting, 5)


def test_a_queue_is_limited_and_counts_dropped_events() -> None:
    """H3"""
    condition = (a & b).keep("all", 200)
    state, _ = fed(condition, (match(condition, "a", n, n) for n in range(1, 301)))
    assert (len(state.matches), state.dropped) == (200, 100)
    state, fired = fed(condition, (match(condition, "b", n, 301) for n in range(300)), state)
    assert (fired, len(state.matches), state.dropped) == (200, 100, 100)


def test_a_repeat_that_is_ignored_takes_its_event_from_no_matcher() -> None:
    """D2, W7: it was still held by the second matcher, and was removed from the first one."""
    day_long = event("a", label="a of a day")
    condition = (a & b).within("1h") | (day_long & c).within("1d")
    labels = condition.labels
    both = (labels.index("a"), labels.index("a of a day"))
    first = Match(Event.of("a", "/s", id="a1"), both, "events", 0, 7, MIDNIGHT)
    repeat = Match(Event.of("a", "/s", id="a1"), both, "events", 0, 8, MIDNIGHT + 150 * MINUTE)
    late = match(condition, "b", 1, MIDNIGHT + HOUR)  # of a partition that lags
    assert fed(condition, [first, repeat, late])[1] == fed(condition, [first, late])[1] == 1


@pytest.mark.parametrize(
    "condition", [(a & ~b).within("1h"), (a & ~b).resets("@hourly")], ids=["window", "period"]
)
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_negated_events_of_one_window_leave_a_handful_of_times(condition: Condition, order: str) -> None:
    """E8"""
    times = range(MIDNIGHT + 1, MIDNIGHT + HOUR - 1, 300)
    sent = [
        match(condition, "b", n, time)
        for n, time in enumerate(times if order == "ascending" else times[::-1])
    ]
    assert len(sent) > 10_000
    state, _ = fed(condition, sent)
    assert len(state.negated_times[1]) <= 3
    assert state.matches == ()
    assert len(state.encode()) < 1000
    # and they still refute each window that has one of them in it
    for opener, refuted in ((MIDNIGHT - HOUR, False), (MIDNIGHT + HOUR // 2, True), (MIDNIGHT + HOUR, False)):
        _, fired = fed(condition, [match(condition, "a", 1, opener), Tick(MIDNIGHT + 3 * HOUR)], state)
        assert fired == (not refuted)


def test_times_of_negated_events_are_released_a_day_after_their_windows() -> None:
    """E8, W7"""
    condition = (a & ~b).within("1h", lateness="5m")
    state, _ = fed(condition, [match(condition, "b", 1, MIDNIGHT)])
    last_kept_ms = MIDNIGHT + HOUR + 5 * MINUTE + DAY
    assert step(condition, state, Tick(last_kept_ms))[0].negated_times == {1: (MIDNIGHT * 1000,)}
    assert step(condition, state, Tick(last_kept_ms + 1))[0].negated_times == {}


@pytest.mark.parametrize(
    ("condition", "firings"),
    [
        (a & b, 5000),
        ((a & b).within("1h"), 5000),
        ((a & b).resets("@daily"), 5000),
        (sequence(a, b, ordered=False), 5000),
        (count(a, 2) & b, 2500),
        ((a & b).expires(after="1h"), 5000),
        ((a & c).within("1h"), 0),
        (sequence(b, a, ordered=False) & c, 0),
        ((a & ~c).within("10m"), 4990),
        (absent(b, "1h") & a, 0),
        ((a & b).quiet("1h"), 0),
    ],
    ids=str,
)  # fmt: skip
def test_a_state_does_not_grow_with_the_events_it_has_seen(condition: Condition, firings: int) -> None:
    """10,000 events, a minute between pairs: the serial form stays what it was after the first 200."""
    state, fired, early = EMPTY, 0, 0
    for n in range(5000):
        stamp = MIDNIGHT + n * MINUTE
        sent = [match(condition, letter, n, stamp + 1) for letter in "ab" if letter in condition.labels]
        state, more = fed(condition, [Tick(stamp), *sent], state)
        fired += more
        size = len(state.encode())
        early = max(early, size) if n < 200 else early
        assert size <= early + 8, n
    assert abs(fired - firings) <= 10
    assert len(state.seen) <= SEEN_EVENTS * 8


# -- wake-ups and closing


@pytest.mark.parametrize(
    ("condition", "letters", "wakeup", "closes"),
    [
        # only seen identities are forgotten; a held event without a window is kept until the ttl
        (a & b, "", None, None),
        (a & b, "a", HOUR + 1, TTL),
        (a & b, "ab", HOUR + 1, HOUR + 1),
        (a & b & c, "ab", HOUR + 1, TTL),
        ((a & b).within("20m"), "a", HOUR + 1, 80 * MINUTE + 1),
        ((a & b).within("20m", lateness="0s"), "a", 20 * MINUTE + 1, HOUR + 1),
        ((a & b).within("20m") & c, "a", HOUR + 1, TTL),
        ((a & b).within("20m") | (a & c), "a", HOUR + 1, TTL),
        ((a & b).within("20m") | (a & c).within("1d"), "a", HOUR + 1, DAY + HOUR + 1),
        ((a & b).within("300d"), "a", HOUR + 1, TTL),
        ((a & b).resets("@daily"), "a", HOUR + 1, DAY + HOUR + 1),
        ((a & ~b).within("20m"), "a", 20 * MINUTE + 1, HOUR + 1),
        ((a & ~b).within("20m"), "b", HOUR + 1, DAY + 20 * MINUTE + 1),
        (absent(a, "20m"), "a", 20 * MINUTE, 20 * MINUTE + TTL),
        (absent(a, "3h"), "a", HOUR + 1, 3 * HOUR + TTL),
        ((a & b).quiet("20m"), "a", HOUR + 1, TTL),
        ((a & b).quiet("20m"), "ab", 20 * MINUTE, 20 * MINUTE + TTL),
        ((a & b).expires(after="20m"), "a", 20 * MINUTE, 20 * MINUTE + TTL),
        ((a & b).expires(after="3h"), "a", HOUR + 1, 3 * HOUR + TTL),
        ((a & b).ordered(), "a", 1, 1),
        (sequence(a, b), "ab", 1, 1),
    ],
    ids=str,
)
def test_a_state_says_when_the_next_tick_matters_and_when_it_closes(
    condition: Condition, letters: str, wakeup: int | None, closes: int | None
) -> None:
    """W7, Z1: in milliseconds after the events, which all have one stamp"""
    state, _ = fed(condition, (match(condition, letter, 1, MIDNIGHT) for letter in letters))
    found = next_wakeup(condition, state)
    assert (None if found is None else found - MIDNIGHT) == wakeup
    closed = closes_at(condition, state, TTL)
    assert (None if closed is None else closed - MIDNIGHT) == closes


def test_an_armed_subscription_wakes_before_any_event() -> None:
    """B2, X2"""
    expiring = (a & b).expires(after="1h")
    assert next_wakeup(expiring, opened(expiring, MIDNIGHT)) == MIDNIGHT + HOUR
    assert closes_at(expiring, opened(expiring, MIDNIGHT), TTL) == MIDNIGHT + HOUR + 1
    watching = absent(a, "10m", armed_by="subscription")
    assert next_wakeup(watching, opened(watching, MIDNIGHT)) == MIDNIGHT + 10 * MINUTE
    assert next_wakeup(a & b, opened(a & b, MIDNIGHT)) is None
    assert closes_at(a & b, opened(a & b, MIDNIGHT, 5), TTL) is None


@pytest.mark.parametrize(
    "condition",
    [
        (a & b).within("20m"),
        (a & ~b).within("20m"),
        (a & ~b).resets("@hourly"),
        absent(a, "20m"),
        absent(a, "20m") & b,
        (a & b).quiet("20m"),
        (a & c).expires(after="3h"),
        sequence(a, b),
        (a & b).ordered().expires(after="30m"),
        count(a, 2).within("5m"),
    ],
    ids=str,
)
def test_ticks_at_wake_ups_only_have_the_effect_of_all_ticks(condition: Condition) -> None:
    """W2, W7"""
    sent = [match(condition, "a", 1, MIDNIGHT), match(condition, "a", 2, MIDNIGHT + 13 * MINUTE)]
    state, _ = fed(condition, sent)
    woken, often = state, state
    fired_woken: list[object] = []
    fired_often: list[object] = []
    end = MIDNIGHT + 30 * HOUR
    for _ in range(100):
        wakeup = next_wakeup(condition, woken)
        if wakeup is None or wakeup > end:
            break
        before = woken
        woken, firings = step(condition, woken, Tick(wakeup))
        fired_woken += firings
        assert woken != before
        # a tick just before it changes nothing but the clock
        early, nothing = step(condition, before, Tick(wakeup - 1))
        assert (nothing, early.matches, early.waiting) == ((), before.matches, before.waiting)
    else:
        pytest.fail("it wakes up for ever")
    for time_ms in range(MIDNIGHT, end, 7 * MINUTE):
        often, firings = step(condition, often, Tick(time_ms))
        fired_often += firings
    assert fired_woken == fired_often
    assert (woken.matches, woken.seen, woken.waiting) == (often.matches, often.seen, often.waiting)


@pytest.mark.parametrize(
    "given", [None, "tick", 5, Event.of("a", "/s")], ids=lambda given: type(given).__name__
)
def test_an_invalid_input_is_an_error_and_drops_nothing(given: object) -> None:
    with pytest.raises(ConditionError, match="its inputs are Match"):
        step(event("a") & event("b"), EMPTY, given)  # type: ignore[arg-type]


def test_an_expiry_armed_by_the_event_counts_from_the_first_match_of_a_wait() -> None:
    """X2"""
    pair = (event("a") & event("b")).expires(after="2h", armed_by="event")
    state = opened(pair, 0)
    state, fired = step(pair, state, Tick(6 * 3_600_000))
    assert fired == ()
    first = Match(Event.of("a", "/s", id="a1"), (0,), "t", 0, 0, 6 * 3_600_000)
    state, fired = step(pair, state, first)
    assert fired == ()
    state, [firing] = step(pair, state, Tick(8 * 3_600_000))
    assert (firing.outcome, firing.missing, firing.timer_ms) == ("expired", ("b",), 8 * 3_600_000)
