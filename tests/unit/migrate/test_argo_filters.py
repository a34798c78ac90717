"""A Sensor's filters accept the events that Argo accepts, or are refused with the reason."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event
from interlock.conditions import event
from interlock.migrate.argo_filters import exact_and_where
from interlock.migrate.errors import NotTranslated
from interlock.migrate.fields import FieldNote, Members

from tests.unit.migrate.argo_sensors import A, one, trigger


def where(filters: Any, operator: str | None = None) -> Any:
    exact, text = exact_and_where(Members(filters, "filters"), operator, [])
    return event(**{"source": "shop", **exact}, where=text)


VALUES: dict[str, Any] = {
    "string": st.sampled_from(("", "a", "ab", "b", "abc", "5", "true", "it's", "\\d")),
    "number": st.sampled_from((-1, 0, 0.5, 5, 5.0, 100)),
    "bool": st.booleans(),
}
PATTERNS = {
    "string": st.sampled_from(("a", "^a", "b$", "^ab?$", "5", ".", "it's", "[ab]{2}", "\\\\d", "^$")),
    "number": st.sampled_from(("0", "0.5", "5", "5.00", "-1", "+1e2", ".5")),
    "bool": st.sampled_from(("true", "false", "1", "f", "TRUE")),
}
SIGNS = {
    "string": ("", "=", "!="),
    "number": ("", "=", "!=", ">", ">=", "<", "<="),
    "bool": ("", "=", "!=", ">"),
}
PATHS = {"string": "body.s", "number": "body.more.0.n", "bool": "body.b-1"}


@st.composite
def entries(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(("string", "number", "bool")))
    return {
        "path": draw(st.sampled_from((PATHS[kind],) * 5 + ("body.none",))),
        "type": kind,
        "comparator": draw(st.sampled_from(SIGNS[kind])),
        "value": draw(st.lists(PATTERNS[kind], min_size=1, max_size=2)),
    }


CLOCKS = st.sampled_from(("00:00:00", "09:00:00", "17:30:10", "23:59:59"))
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "data": st.lists(entries(), min_size=1, max_size=3),
        "dataLogicalOperator": st.sampled_from(("", "and", "or")),
        "time": st.fixed_dictionaries({"start": CLOCKS, "stop": CLOCKS}),
        "context": st.fixed_dictionaries(
            {}, optional={"type": st.sampled_from(("x", "y")), "subject": st.just("s")}
        ),
    },
)
SENT = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {
                "s": VALUES["string"],
                "more": st.builds(lambda n: [{"n": n}], VALUES["number"]),
                "b-1": VALUES["bool"],
            }
        ),
        "time": st.sampled_from(("00:00:00", "08:59:59", "09:00:00", "12:00:00", "17:30:10", "23:59:59")),
        "type": st.sampled_from(("x", "y")),
        "subject": st.sampled_from(("s", "t")),
    }
)  # fmt: skip


def looked_up(data: Any, path: str) -> Any:
    for step in path.split(".")[1:]:
        data = data[int(step)] if step.isdigit() else data[step]
    return data


def entry_passes(entry: Any, data: Any) -> bool:
    """As a Sensor decides: one of the values has to satisfy the comparator; a bool has none."""
    try:
        value = looked_up(data, entry["path"])
    except (KeyError, IndexError):
        return False
    sign = entry["comparator"] or "="
    if entry["type"] == "string":
        return any(bool(re.search(each, value)) is (sign == "=") for each in entry["value"])
    if entry["type"] == "bool":
        return any((each in ("true", "1", "TRUE")) is value for each in entry["value"])
    compare = {
        "=": lambda x, y: x == y, "!=": lambda x, y: x != y, ">": lambda x, y: x > y,
        ">=": lambda x, y: x >= y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
    }[sign]  # fmt: skip
    return any(compare(value, float(each)) for each in entry["value"])


def passes(filters: Any, operator: str, sent: Any) -> bool:
    parts = []
    if filters.get("data"):
        join = any if filters.get("dataLogicalOperator") == "or" else all
        parts.append(join(entry_passes(each, sent["data"]) for each in filters["data"]))
    if filters.get("context"):
        parts.append(all(sent[name] == value for name, value in filters["context"].items()))
    if "time" in filters:
        start, stop = filters["time"]["start"], filters["time"]["stop"]
        after, before = sent["time"] >= start, sent["time"] < stop
        parts.append((after and before) if start < stop else (after or before))
    return any(parts) if operator == "or" and parts else all(parts)


@given(
    filters=FILTERS, operator=st.sampled_from(("", "and", "or")), sent=st.lists(SENT, min_size=6, max_size=6)
)
@settings(max_examples=200)
def test_a_matcher_accepts_the_events_that_pass_the_filters_of_a_sensor(
    filters: Any, operator: str, sent: Any
) -> None:
    if operator == "or" and filters.get("context") == {}:
        with pytest.raises(NotTranslated, match="each event passes"):
            where(filters, operator)
        return
    wanted = [passes(filters, operator, each) for each in sent]
    try:
        made = where(filters, operator)
    except ValueError:  # as no event passes
        assert not any(wanted)
        return
    found = [
        made.accepts(
            Event.of(
                each["type"],
                "shop",
                subject=each["subject"],
                time=f"2026-11-20T{each['time']}Z",
                data=each["data"],
            )
        )
        for each in sent
    ]
    assert found == wanted


@pytest.mark.parametrize(
    ("kind", "sign", "values", "noted"),
    [
        ("string", "!=", ["foo", "bar"], True),
        ("number", "!=", ["1", "2"], True),
        ("string", "!=", ["foo"], False),
        ("string", "=", ["foo", "bar"], False),
        ("bool", "!=", ["true", "false"], False),
    ],
)
def test_a_note_says_that_a_differing_value_is_enough(
    kind: str, sign: str, values: list[str], noted: bool
) -> None:
    """argoproj/argo-events#3215, #3808: such filters were meant as "none of these"."""
    entry = {"path": "body.x", "type": kind, "comparator": sign, "value": values}
    found = one(trigger("a"), dependencies=({**A, "filters": {"data": [entry]}},))
    assert ("spec.dependencies[0].filters.data[0].comparator" in dict(found.differs)) is noted


def test_a_time_is_that_of_its_zone() -> None:
    made = where({"time": {"start": "09:00:00", "stop": "10:00:00", "timezone": "Europe/Berlin"}})
    assert made.accepts(Event.of("x", "shop", time="2026-07-01T07:30:00Z"))
    assert not made.accepts(Event.of("x", "shop", time="2026-07-01T09:30:00Z"))


def test_an_hour_may_have_one_digit_as_go_reads_it() -> None:
    made = where({"time": {"start": "9:00:00", "stop": "10:00:00"}})
    assert made.accepts(Event.of("x", "shop", time="2026-07-01T09:30:00Z"))


def test_an_operator_of_expressions_that_joins_none_is_ignored() -> None:
    wanted: dict[str, Any] = {"context": {"type": "x"}, "exprLogicalOperator": "or"}
    assert where(wanted) == where({"context": {"type": "x"}})


@pytest.mark.parametrize(("operator", "noted"), [("or", True), ("and", False), (None, False)])
def test_a_member_that_is_missing_leaves_the_other_filters_of_an_or_and_a_note_says_so(
    operator: str | None, noted: bool
) -> None:
    """argoproj/argo-events: the page on filters, and `Filter` in pkg/sensors/dependencies/filter.go."""
    notes: list[FieldNote] = []
    filters = {
        "context": {"type": "x"},
        "data": [{"path": "body.n", "type": "number", "comparator": ">", "value": ["3"]}],
    }
    exact, text = exact_and_where(Members(copy.deepcopy(filters), "filters"), operator, notes)
    made = event(**{"source": "shop", **exact}, where=text)
    assert made.accepts(Event.of("x", "shop", data={"m": 1})) is noted
    assert ("filtersLogicalOperator" in dict(notes)) is noted


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"exprs": [{"expr": "a > 1", "fields": []}]}, "exprs"),
        ({"exprs": [], "exprLogicalOperator": "or"}, "exprs"),
        ({"script": "return true"}, "script"),
        ({"other": 1}, "other"),
        ({"data": {}}, "data"),
        ({"data": [1]}, "data[0]"),
        ({"dataLogicalOperator": "xor"}, "dataLogicalOperator"),
        ({"data": [{"path": "body.*", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "a.#", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "header.x", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "a", "type": "bool", "value": []}]}, "data[0].value"),
        ({"data": [{"path": "a", "type": "bool", "value": [True]}]}, "data[0].value"),
        ({"data": [{"path": "a", "type": "bool", "value": ["yes"]}]}, "data[0].value"),
        ({"data": [{"path": "a", "type": "number", "value": ["0x1"]}]}, "data[0].value"),
        (
            {"data": [{"path": "a", "type": "string", "comparator": ">", "value": ["a"]}]},
            "data[0].comparator",
        ),
        (
            {"data": [{"path": "a", "type": "string", "comparator": "~", "value": ["a"]}]},
            "data[0].comparator",
        ),
        ({"data": [{"path": "a", "type": "object", "value": ["a"]}]}, "data[0].type"),
        (
            {"data": [{"path": "a", "type": "string", "value": ["a"], "template": "{{.}}"}]},
            "data[0].template",
        ),
        ({"time": {"start": "9:00", "stop": "10:00:00"}}, "time.start"),
        ({"time": {"start": "09:00:00"}}, "time.stop"),
        ({"time": {"start": "09:00:00", "stop": "10:00:00", "timezone": "a'b"}}, "time.timezone"),
        ({"time": {"start": "09:00:00", "stop": "10:00:00", "days": ["Mon"]}}, "time.days"),
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_carried_over_is_refused_by_its_path(filters: Any, field: str) -> None:
    notes: list[FieldNote] = []
    with pytest.raises(NotTranslated) as caught:
        exact_and_where(Members(copy.deepcopy(filters), "filters"), None, notes)
    assert caught.value.field == f"filters.{field}"


@pytest.mark.parametrize("kind", ["string", "number"])
def test_a_note_says_that_one_of_several_values_is_enough_to_differ(kind: str) -> None:
    """argoproj/argo-events#3215, #3808: nearly each event passes, and authors mean none of the values."""
    for values, wanted in ((["1", "2"], ["filters.data[0].comparator"]), (["1"], [])):
        notes: list[FieldNote] = []
        entry = {"path": "body.x", "type": kind, "comparator": "!=", "value": values}
        exact_and_where(Members({"data": [entry]}, "filters"), None, notes)
        assert [note.field for note in notes if note.field.endswith("comparator")] == wanted


def test_the_name_of_filters_in_an_old_file_refuses_nothing() -> None:
    """argoproj/argo-events#872: no Sensor read it, and files from before 1.0 have it."""
    filters = {"name": "data-filter", "context": {"type": "x"}}
    assert exact_and_where(Members(filters, "filters"), None, []) == ({"type": "x"}, None)


def test_what_a_sensor_does_not_compare_is_left_out() -> None:
    notes: list[FieldNote] = []
    context = {"id": "1", "specversion": "1.0", "time": "2026-11-20T00:00:00Z", "type": "x"}
    assert exact_and_where(Members({"context": context}, "filters"), None, notes) == ({"type": "x"}, None)
    assert [note.field for note in notes] == [
        f"filters.context.{name}" for name in ("id", "specversion", "time")
    ]
