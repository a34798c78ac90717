"""A rehearsal gives the same firings as a bus. Case ids: docs/use/conditions.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from interlock.conditions import (
    Condition,
    ConditionError,
    Firing,
    Seen,
    State,
    absent,
    event,
    explain_rehearsal,
    rehearsal,
    rehearse,
    sequence,
    step,
)
from interlock.events import Event

START = datetime(2026, 11, 20, tzinfo=UTC)
a, b = event("a", label="a"), event("b", label="b")
keyed_a, keyed_b = event("a", label="a", by="subject"), event("b", label="b", by="subject")


def sent(name: str, minute: int, subject: str | None = None) -> Event:
    return Event.of(name[0], "/s", id=name, time=START + timedelta(minutes=minute), subject=subject)


def ids(firings: Sequence[Firing]) -> list[list[str]]:
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


def test_without_an_end_time_does_not_pass_after_events_before_1970() -> None:
    """It passed until 1970, and timers fired."""
    long_ago = datetime(1969, 11, 20, tzinfo=UTC)
    assert rehearse(a.quiet("5m"), [Event.of("a", "/s", id="a1", time=long_ago)]) == []


def test_a_wait_that_starts_runs_its_timers_from_there() -> None:
    """X2, B2"""
    (alert,) = rehearse((a & b).expires(after="10m"), [sent("a1", 5)], start=START, until=after(10))
    assert (alert.outcome, alert.missing) == ("expired", ("b",))
    watched = absent(keyed_a, "10m", armed_by="subscription")
    (silence,) = rehearse(watched, [sent("a1", 1, "y")], key="x", start=START, until=after(10))
    assert silence.taking_part == ()


def test_an_event_recorded_after_the_end_does_not_count() -> None:
    events = [sent("a1", 1), sent("b1", 5)]
    assert rehearse(a & b, events, until=after(4)) == []
    assert ids(rehearse(a & b, events, until=after(5))) == [["a1", "b1"]]


def test_moments_may_be_iso_text() -> None:
    condition = (a & b).expires(after="10m")
    assert ids(rehearse(condition, [], start="2026-11-20T00:00Z", until="2026-11-20T00:10:00+00:00")) == [[]]


def test_an_event_recorded_before_since_does_not_count() -> None:
    """Y1"""
    events = [sent("a1", 1), sent("a2", 2), sent("b1", 3)]
    assert rehearse(a & b, events, since=after(3)) == []
    assert ids(rehearse(a & b, events, since=after(2))) == [["a2", "b1"]]
    assert ids(rehearse(a & b, events, start=after(3), since=after(2))) == [["a2", "b1"]]
    keyed = [sent("a1", 1, "x"), sent("a2", 2, "x")]
    assert ids(rehearse(keyed_a, keyed, since=after(2))) == [["a2"]]


def test_events_come_in_the_order_in_which_they_were_recorded() -> None:
    """I6: the lateness decides how much later than its window an event may be recorded"""
    early, late = sent("a1", 0), sent("b1", 1)
    stamp = int(after(200).timestamp() * 1000)
    for recorded in ((late, after(200)), (late, after(200).isoformat()), Seen(late, timestamp_ms=stamp)):
        assert rehearse((a & b).within("1h"), [early, recorded]) == []
        assert ids(rehearse((a & b).within("1h", lateness="3h"), [recorded, early])) == [["a1", "b1"]]
    timeless = Event.of("a", "/s", id="n")
    assert ids(rehearse(a, [(timeless, after(1)), Seen(sent("a2", 2))])) == [["n"], ["a2"]]


def test_a_firing_has_the_place_of_each_event() -> None:
    (firing,) = rehearse(a, [Seen(sent("a1", 1), "events", 3, 17)])
    match = firing.taking_part[0].match
    assert (match.topic, match.partition, match.offset) == ("events", 3, 17)


def test_a_firing_has_its_key_and_the_time_of_its_decision() -> None:
    (met,) = rehearse(keyed_a, [sent("a1", 1, "20261120")])
    assert (met.key, met.fired_at) == ("2026-11-20", after(1))
    (quiet,) = rehearse(a.quiet("5m"), [sent("a1", 1)], until=after(30))
    assert (quiet.key, quiet.fired_at) == (None, after(6))
    (ordered,) = rehearse((a & b).ordered(), [sent("b1", 1), sent("a1", 2)], until=after(30))
    assert ordered.fired_at == after(2) + timedelta(milliseconds=1)
    (expired,) = rehearse((a & b).expires(after="5m"), [sent("a1", 1)], until=after(30))
    assert (expired.outcome, expired.missing, expired.fired_at) == ("expired", ("b",), after(6))


def test_timers_of_keys_fire_in_the_order_of_their_times() -> None:
    events = [sent("a1", 0, "x"), sent("a2", 1, "y"), sent("a3", 3, "x")]
    fired = rehearse(absent(keyed_a, "5m"), events, until=after(30))
    assert [(each.key, each.fired_at) for each in fired] == [("y", after(6)), ("x", after(8))]


def test_a_rehearsal_that_did_not_fire_is_explained() -> None:
    condition = (keyed_a & keyed_b).within("1h")
    events = [sent("a1", 1, "x"), sent("b1", 2, "y")]
    explanation = explain_rehearsal(condition, events, key="x", until=after(9))
    assert (explanation.missing, explanation.key) == (("b",), "x")
    assert explanation.now_ms == int(after(9).timestamp() * 1000)
    [found] = explanation.near_misses
    assert [(miss.event.id, miss.why) for miss in found.misses] == [("b1", "key")]
    assert explain_rehearsal(condition, events, open_key="y").missing == ("a",)
    assert explain_rehearsal(condition, events, open_key="never came", until=after(9)).missing == ("a", "b")
    assert explain_rehearsal(condition, events[:1]).key == "x"
    [unasked] = explain_rehearsal(condition, events, key="x", near_misses=0).near_misses
    assert (unasked.misses, unasked.other_keys) == ((), 1)
    assert explain_rehearsal(a & b, [], start=START).missing == ("a", "b")


def test_arguments_that_allow_no_explanation_are_errors() -> None:
    events = [sent("a1", 1, "x"), sent("a2", 2, "y")]
    for arguments, message in (
        ((events, {}), r"explains one key, and there are 2 \(x, y\): give open_key="),
        ((events, {"key": "x", "open_key": "x"}), "is for a rehearsal without key="),
        ((events, {"open_key": ("x", "y")}), r"explain_rehearsal\(open_key=\) has 2 value"),
        (([], {"open_key": "x"}), "without events needs a time: give until="),
        ((events, {"key": "x", "near_misses": -1}), "give a whole number"),
    ):
        with pytest.raises(ConditionError, match=message):
            explain_rehearsal(keyed_a & keyed_b, arguments[0], **arguments[1])  # type: ignore[arg-type]


def test_a_wait_whose_timers_run_from_its_start_needs_one() -> None:
    """B2, X2, X3"""
    watched = absent(keyed_a, "10m", armed_by="subscription")
    for condition, key in ((watched, "x"), (absent(a, "10m", armed_by="subscription"), None)):
        with pytest.raises(ConditionError, match="watches from the start of the wait: give start="):
            rehearse(condition, [], key=key, until=after(60))
    for condition in (keyed_a.expires(after="1h"), keyed_a.expires(at=after(30))):
        with pytest.raises(ConditionError, match="counts from its start: give start="):
            rehearse(condition, [], key="x", until=after(60))
        assert len(rehearse(condition, [], key="x", start=START, until=after(60))) == 1
    from_first = (keyed_a & keyed_b).expires(after="10m", armed_by="event")
    (alert,) = rehearse(from_first, [sent("a1", 20, "x")], key="x", start=START, until=after(60))
    assert alert.fired_at == after(30)
    assert rehearse(from_first, [sent("a1", 20, "x")], key="x", until=after(60)) == [alert]


@pytest.mark.parametrize(
    ("by", "key", "message"),
    [
        ("subject", ["x", "y"], r"key=\) has 2 value\(s\), and the matchers read 1"),
        (("subject", "data.day"), "x", r"key=\) has 1 value\(s\), and the matchers read 2: give a list"),
        (("subject", "data.day"), ("x", "y", "z"), r"key=\) has 3 value\(s\), and the matchers read 2"),
    ],
)
def test_a_key_with_another_number_of_values_is_an_error(by: Any, key: Any, message: str) -> None:
    """K16"""
    with pytest.raises(ConditionError, match=message):
        rehearse(event("a", by=by), [], key=key)


@pytest.mark.parametrize(
    ("by", "key"),
    [
        (("subject", "data.day"), '["x","2026-11-20"]'),
        ("subject", '["x","2026-11-20"]'),
        ("subject", "[x"),
        ("subject", '{"a": 1}'),
    ],
)
def test_a_key_may_be_given_in_its_canonical_form(by: Any, key: str) -> None:
    """K15: as the search after a timeout has it. For one path it is the text itself."""
    assert rehearse(event("a", by=by), [], key=key) == []


@pytest.mark.parametrize(
    ("condition", "events", "message"),
    [
        ("a & b", [], "argument 1 of rehearse is a str: write a condition"),
        (a, sent("a1", 1), r"rehearse\(events\) is of type Event: give a list"),
        (a, Seen(sent("a1", 1)), r"rehearse\(events\) is of type Seen: give a list"),
        (a, None, r"rehearse\(events\) is of type NoneType: give a list"),
        (a, ["x"], "item 1 is of type str: give an Event"),
        (a, [sent("a1", 1), ("x", START)], "item 2 is of type tuple: give an Event"),
        (a, [(sent("a1", 1), "soon")], r"item 1 \(recorded='soon'\) is not an ISO 8601 time"),
        (a, [(sent("a1", 1), 5)], r"item 1 \(recorded=\) is a int: give an aware datetime"),
        (a, [Seen(sent("a1", 1), timestamp_ms=1.5)], "timestamp_ms is of type float"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_the_wrong_kind_are_errors(condition: Any, events: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        rehearse(condition, events)


def test_a_condition_that_cannot_be_rehearsed_is_an_error() -> None:
    with pytest.raises(ConditionError, match="event 'n' has no time"):
        rehearse(a, [Event.of("a", "/s", id="n")])
    with pytest.raises(ConditionError, match="the keys of this condition are not known: give key="):
        rehearse(keyed_a.quiet("5m"), [], start=START)
    with pytest.raises(ConditionError, match="no matcher reads one"):
        rehearse(a, [], key="x")
    with pytest.raises(ConditionError, match=r"until=\) is earlier than start="):
        rehearse(a, [], start=after(2), until=after(1))
    for name in ("start", "since", "until"):
        for naive in (datetime(2026, 11, 20), "2026-11-20"):  # noqa: DTZ001
            with pytest.raises(ConditionError, match=rf"rehearse\({name}=2026-11-20.*has no time zone"):
                rehearse(a, [], **{name: naive})  # type: ignore[arg-type]


def test_an_event_steps_no_other_keys_than_those_that_it_or_a_due_tick_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[object] = []

    def counted(condition: Condition, state: State, given: Any) -> tuple[State, Sequence[Firing]]:
        taken.append(given)
        return step(condition, state, given)

    monkeypatch.setattr(rehearsal, "step", counted)
    events = [sent(name, minute, f"{minute}") for minute in range(100) for name in ("a1", "b1")]
    assert len(rehearse((keyed_a & keyed_b).within("2h"), events)) == 100
    # Each of 100 keys takes two matches and the last tick; a tick of all keys at each event would add 9,900.
    assert len(taken) <= 400
