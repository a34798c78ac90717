"""A rehearsal gives the firings that a bus would give. Case ids: docs/conditions.md."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from interlock.conditions import ConditionError, Firing, absent, event, rehearse, sequence
from interlock.events import Event

START = datetime(2026, 11, 20, tzinfo=UTC)
a, b = event("a", label="a"), event("b", label="b")
keyed_a, keyed_b = event("a", label="a", by="subject"), event("b", label="b", by="subject")


def sent(name: str, minute: int, subject: str | None = None) -> Event:
    return Event.of(name[0], "/s", id=name, time=START + timedelta(minutes=minute), subject=subject)


def ids(firings: list[Firing]) -> list[list[str]]:
    return [[part.match.event.id for part in firing.taking_part] for firing in firings]


def after(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def test_events_come_in_the_order_of_their_times() -> None:
    assert ids(rehearse(a & b, [sent("b1", 3), sent("a1", 2), sent("a2", 1)])) == [["a1", "b1"]]
    assert ids(rehearse(sequence(a, b, ordered=False), [sent("b1", 1), sent("a1", 2), sent("b2", 3)])) == [
        ["a1", "b2"]
    ]


def test_a_repeat_does_not_count_twice() -> None:
    """D1"""
    assert ids(rehearse(a, [sent("a1", 1), sent("a1", 1)])) == [["a1"]]


def test_each_key_has_its_own_state_where_none_is_given() -> None:
    """K24"""
    events = [sent("a1", 1, "x"), sent("b1", 2, "y"), sent("a2", 3, "y"), sent("b2", 4)]
    assert ids(rehearse(keyed_a & keyed_b, events)) == [["a2", "b1"]]


def test_only_events_with_the_key_given_count_beside_those_that_have_none() -> None:
    """K23"""
    day = "2026-11-20"
    events = [sent("a1", 1, "20261121"), sent("b1", 2), sent("a2", 3, "20261120"), sent("a3", 4, "x")]
    assert ids(rehearse(keyed_a & b, events, key=day)) == [["a2", "b1"]]
    assert ids(rehearse(keyed_a & b, events, key=date(2026, 11, 20))) == [["a2", "b1"]]
    assert rehearse(keyed_a, [sent("a1", 1, "x")], key="y") == []


def test_firings_of_all_keys_come_in_the_order_of_time() -> None:
    condition = absent(keyed_a, "5m") | keyed_b
    events = [sent("a1", 0, "x"), sent("b1", 6, "y"), sent("a2", 1, "z")]
    fired = rehearse(condition, events, until=after(10))
    assert ids(fired) == [["a1"], ["a2"], ["b1"]]


def test_time_passes_until_the_end_that_is_given() -> None:
    assert rehearse(a.quiet("5m"), [sent("a1", 0)], until=after(4)) == []
    assert ids(rehearse(a.quiet("5m"), [sent("a1", 0)], until=after(5))) == [["a1"]]


def test_without_an_end_it_is_just_after_the_last_event() -> None:
    """W5: an ordered condition needs a tick later than the stamp"""
    assert ids(rehearse(sequence(a, b), [sent("a1", 0), sent("b1", 1)])) == [["a1", "b1"]]
    assert rehearse(a.quiet("5m"), [sent("a1", 0)]) == []
    assert rehearse(a, []) == []


def test_a_wait_that_starts_runs_its_timers_from_there() -> None:
    """X2, B2"""
    (alert,) = rehearse((a & b).expires(after="10m"), [sent("a1", 5)], start=START, until=after(10))
    assert (alert.outcome, alert.missing) == ("expired", ("b",))
    watched = absent(keyed_a, "10m", armed_by="subscription")
    (silence,) = rehearse(watched, [sent("a1", 1, "y")], key="x", start=START, until=after(10))
    assert silence.taking_part == ()


def test_what_cannot_be_rehearsed_is_told() -> None:
    with pytest.raises(ConditionError, match="event 'n' has no time"):
        rehearse(a, [Event.of("a", "/s", id="n")])
    with pytest.raises(ConditionError, match="the keys of this condition are not known, so give a key"):
        rehearse(keyed_a.quiet("5m"), [], start=START)
    with pytest.raises(ConditionError, match="no matcher reads one"):
        rehearse(a, [], key="x")
    for name in ("start", "until"):
        with pytest.raises(ConditionError, match=rf"rehearse\({name}=\) has no time zone"):
            rehearse(a, [], **{name: datetime(2026, 11, 20)})  # type: ignore[arg-type]  # noqa: DTZ001
