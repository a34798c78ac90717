"""The explanation as data, what `explain` accepts, and states that it can show only in part."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from interlock.conditions import (
    EMPTY,
    ConditionError,
    Match,
    State,
    at_least,
    count,
    explain,
    sequence,
)
from interlock.events import Event

from tests.unit.conditions.explanation.states import (
    NOON,
    NOON_MS,
    a,
    at,
    b,
    c,
    explained,
    held,
    ids,
)


def test_data_is_strict_json_with_a_version() -> None:
    condition = ((a & b).within("1h") | sequence(a, c, ordered=False)).expires(after="9h")
    data = explained(condition, "a1@0", "b1@90").to_json()
    assert data["v"] == 1
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert set(data) == {
        "v", "now_ms", "due_ms", "met", "missing", "dropped", "waiting", "tree", "near_misses", "looked_at",
        "complete", "unreadable",
    }  # fmt: skip
    assert data["tree"]["notes"] == [{"what": "expires", "at_ms": at(540)}]


def test_a_condition_that_cannot_be_waited_on_is_shown_as_unusable() -> None:
    explanation = explain(~a, EMPTY, at(0))
    assert explanation.tree.kind == "unusable"
    assert "~ needs a window" in str(explanation)


def test_a_state_of_another_condition_is_shown_as_far_as_it_fits() -> None:
    state = held(at_least(2, a, b, c), "c1@0")
    assert explain(a & b, state, at(10)).missing == ("a", "b")


def test_of_more_events_than_a_matcher_holds_the_latest_are_shown() -> None:
    matches = tuple(
        Match(Event.of("a", "/s", id=f"{number:05}"), (0,), "events", 0, number, at(0))
        for number in range(5000)
    )
    node = explain(count(a, 3) & b, State(matches=matches), at(1)).tree.of[0]
    assert (node.held, ids(node)) == (3, ["04997", "04998", "04999"])


def test_events_of_an_unsorted_state_are_shown_in_order() -> None:
    matches = tuple(
        Match(Event.of("a", "/s", id=str(number)), (0,), "events", 0, number, at(number))
        for number in (2, 3, 1)
    )
    assert ids(explain(count(a, 2) & b, State(matches=matches), at(9)).tree.of[0]) == ["2", "3"]


@pytest.mark.parametrize(
    ("key", "expected"), [("", None), ("20261120", "2026-11-20"), ("x" * 600, "x" * 600)]
)
def test_the_key_is_shown_in_canonical_form_if_it_has_one(key: str, expected: str | None) -> None:
    assert explain(a & b, EMPTY, at(0), key=key).key == expected


def test_records_of_another_shape_are_left_out() -> None:
    broken = Match(Event({"id": "1"}), (0,), "events", 0, 0, at(0))
    endless = Match(Event.of("a", "/s"), (0,), "events", 0, 0, 2**70)
    state = State(matches=(broken, endless), clock_ms=10**30, timer_starts={7: 5}, negated_times={9: (1,)})
    assert explain((a & b).expires(after="1h"), state, at(0)).missing == ("a", "b")


def test_the_time_is_milliseconds_or_a_datetime_or_its_text() -> None:
    by_number = explain(a & b, EMPTY, NOON_MS)
    assert by_number == explain(a & b, EMPTY, NOON) == explain(a & b, EMPTY, "2026-11-20T12:00:00Z")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("a & b", EMPTY, 0), "the argument 1 of explain is a str"),
        ((a, None, 0), r"explain\(state\) is of type NoneType: give what step"),
        ((a, EMPTY, NOON.replace(tzinfo=None)), r"explain\(now=.*has no time zone"),
        ((a, EMPTY, "noon"), r"explain\(now='noon'\) is not an ISO 8601 time"),
        ((a, EMPTY, 1.5), r"explain\(now=\) is of type float: give an aware datetime"),
        ((a, EMPTY, True), r"explain\(now=\) is of type bool"),
        ((a, EMPTY, 0, Event.of("a", "/s")), r"explain\(events\) is of type Event: give a list"),
        ((a, EMPTY, 0, None), r"explain\(events\) is of type NoneType: give a list"),
        ((a, EMPTY, 0, [], 3.5), r"explain\(key=3.5\): give its text"),
    ],
)
def test_arguments_of_the_wrong_kind_are_errors(arguments: tuple[Any, ...], expected: str) -> None:
    with pytest.raises(ConditionError, match=expected):
        explain(*arguments)


@pytest.mark.parametrize("number", [-1, True, "5"])
def test_an_invalid_number_of_near_misses_is_refused(number: Any) -> None:
    with pytest.raises(ConditionError, match=r"near_misses=.*: give a whole number, 0 for none"):
        explain(a, EMPTY, 0, near_misses=number)


@pytest.mark.parametrize("now_ms", [-(10**30), 0, 10**30])
def test_a_time_beyond_the_calendar_is_shown_as_a_number(now_ms: int) -> None:
    condition = (a & b).resets("0 0 * * *") | (a & b).within("1h")
    assert str(explain(condition, held(condition, "a1@0"), now_ms))


def test_the_example_of_the_page_prints_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "use" / "explain.md").read_text()
    source, output, *_ = re.findall(r"```(?:python|text)\n(.*?)```", page, re.DOTALL)
    exec(compile(source, "docs/use/explain.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == output
