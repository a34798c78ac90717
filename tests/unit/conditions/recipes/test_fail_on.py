"""A wait's condition joined with its `fail_on`."""

from __future__ import annotations

import pytest
from interlock.conditions import Condition, ConditionError, absent, event, from_json, rehearse, sequence
from interlock.conditions.recipes.fail_on import PREFIX, failure_matchers, is_failure, with_fail_on
from interlock.events import Event

A, B, F = event("a"), event("b"), event("f")


def of(event_type: str, second: int) -> Event:
    return Event.of(event_type, "/s", id=f"{event_type}{second}", time=f"2026-11-20T10:00:{second:02}Z")


@pytest.mark.parametrize(
    "condition",
    [
        A,
        A & B,
        A | B,
        (A & B).expires(after="2h"),
        sequence(A, B).ordered().expires(after="1h"),
        A.quiet("1m"),
    ],
    ids=str,
)
def test_both_are_one_condition_that_keeps_the_labels_of_the_first(condition: Condition) -> None:
    whole = with_fail_on(condition, F | A)
    assert whole.labels == (f"{PREFIX}f", f"{PREFIX}a", *condition.labels)
    assert failure_matchers(whole) == (0, 1)
    assert from_json(whole.to_json()) == whole
    assert with_fail_on(condition, None) is condition


@pytest.mark.parametrize(
    ("events", "failed"),
    [("fab", True), ("abf", False), ("afb", True), ("ab", False)],
)
def test_whichever_is_met_first_fires_and_the_labels_say_which(events: str, failed: bool) -> None:
    firings = rehearse(with_fail_on(A & B, F), [of(name, n) for n, name in enumerate(events)])
    assert is_failure(part.label for part in firings[0].taking_part) is failed


def test_an_event_that_meets_both_fails() -> None:
    [firing] = rehearse(with_fail_on(A, event("a", source="/s")), [of("a", 1)])
    assert is_failure(part.label for part in firing.taking_part)


def test_the_prefix_of_labels_is_reserved_for_fail_on() -> None:
    with pytest.raises(ConditionError, match="reserved for fail_on"):
        with_fail_on(event("a", label=f"{PREFIX}a"), None)
    with pytest.raises(ConditionError, match="shorter label"):
        with_fail_on(A, event("f", label="x" * 128))


def test_an_absence_that_may_fire_without_an_event_is_refused() -> None:
    with pytest.raises(ConditionError, match="is not possible here"):
        with_fail_on(A, absent(F, "1h", armed_by="subscription"))
    with_fail_on(A, absent(F, "1h"))
