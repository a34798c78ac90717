"""The summary of a backtest, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from interlock.spark.pipeline.backtest.summary import ConditionFigures, ReasonCount, Summary

BEFORE = ConditionFigures(
    "a & b",
    False,
    False,
    12_345,
    6,
    1_000,
    7,
    {"b": 5, "a": 2},
    30,
    [ReasonCount("a", "term", "Exact(x='1')", 30, "refused")],
)
AFTER = ConditionFigures("a", True, True, 1, 0, 1, 0, {}, 0, [])


def summary(after: ConditionFigures | None, before: ConditionFigures = BEFORE, given: bool = True) -> Summary:
    changes = None if after is None else {"same": 3, "new": 1}
    return Summary(
        1_000_000, 1_795_046_400_000, 1_795_046_401_500, given, True, before, after, changes, 12.34
    )


def test_the_text_has_the_figures_missing_labels_and_reasons_of_near_misses() -> None:
    assert str(summary(None)).splitlines() == [
        "events        1,000,000 from 2026-11-19T00:00:00.000Z until 2026-11-19T00:00:01.500Z",
        "timestamps    set by brokers",
        "condition     a & b",
        "firings       12,345 met, 6 expired, for 1,000 keys",
        "expiry        the condition has none, so nothing expires; add .expires(...) to it",
        "pending       7 keys half met; missing: b 5, a 2",
        "near misses   30",
        "              30 a: refused",
        "took          12.3 s",
    ]


def test_the_text_of_a_comparison_has_both_conditions_and_the_changes() -> None:
    lines = str(summary(AFTER)).splitlines()
    assert lines[lines.index("compared with") + 1 :] == [
        "condition     a",
        "firings       1 met, 0 expired, for 1 keys",
        "pending       0 keys half met",
        "near misses   0",
        "changes       3 the same, 0 at another time, 0 gone, 1 new",
        "took          12.3 s",
    ]


def test_the_text_says_how_far_expiry_was_evaluated_without_an_end_given() -> None:
    """Regression: a backtest without --until that said "0 expired"."""
    expiry = (
        "expiry        evaluated until the last event, 2026-11-19T00:00:01.499Z:"
        " what expires later is pending. Give --until to run timers longer"
    )
    with_expiry = replace(BEFORE, expires=True)
    assert expiry in str(summary(None, with_expiry, given=False)).splitlines()
    assert "expiry" not in str(summary(None, with_expiry, given=True))
    assert str(summary(AFTER, with_expiry, given=False)).splitlines().count(expiry) == 2
    assert summary(None, given=False).to_json()["until_given"] is False


def test_a_moment_outside_the_calendar_is_shown_in_milliseconds() -> None:
    """Regression: a producer that stamped its records in microseconds ended the job with OverflowError."""
    last_ms = 1_795_046_401_500_000
    far = replace(summary(None, replace(BEFORE, expires=True), given=False), until_ms=last_ms + 1)
    lines = str(far).splitlines()
    assert lines[0].endswith(f"from 2026-11-19T00:00:00.000Z until {last_ms + 1} ms")
    assert any(f"until the last event, {last_ms} ms: what expires later" in line for line in lines)


def test_the_json_is_one_object_with_the_same_figures() -> None:
    found = json.loads(json.dumps(summary(AFTER).to_json()))
    assert found["before"]["reasons"] == [
        {"label": "a", "why": "term", "term": "Exact(x='1')", "count": 30, "text": "refused"}
    ]
    assert (found["events"], found["after"]["merge_independent"], found["changes"]) == (
        1_000_000,
        True,
        {"same": 3, "new": 1},
    )
