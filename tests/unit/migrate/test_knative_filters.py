"""A Trigger's filters accept the events that Knative accepts, or are refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event
from interlock.conditions import Matcher
from interlock.migrate.errors import NotTranslated
from interlock.migrate.fields import Members
from interlock.migrate.knative_filters import matcher

from tests.unit.migrate.knative_oracle import Sql, accepts, as_json

CORE = {"type": "com.shop.paid", "source": "/shop/eu", "id": "7"}


def read(**spec: Any) -> Matcher:
    return matcher(Members(as_json(spec), "spec"))[0]


def notes(**spec: Any) -> dict[str, str]:
    return dict(matcher(Members(as_json(spec), "spec"))[1])


def refusal(**spec: Any) -> NotTranslated:
    with pytest.raises(NotTranslated) as caught:
        read(**spec)
    return caught.value


def sent(**attributes: str) -> Event:
    found = CORE | attributes
    return Event.of(found.pop("type"), found.pop("source"), **found)


# The generated filters and events share few names and values, so that they meet often.
NAMES = ("type", "source", "subject", "tenant", "region", "dataschema")
VALUES = ("a", "ab", "a.b", "abc", "b", "urn:a", "urn:a:b")
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(VALUES), "source": st.sampled_from(VALUES)},
    optional={
        "subject": st.sampled_from(VALUES),
        "dataschema": st.sampled_from(VALUES[-2:]),
        "tenant": st.sampled_from(("", *VALUES)),
        "region": st.sampled_from(("", *VALUES)),
    },
)
PAIRS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), min_size=1, max_size=2)
NAME, VALUE = st.sampled_from(NAMES), st.sampled_from(VALUES)
TREES = st.recursive(
    st.one_of(
        st.tuples(st.just("exists"), NAME),
        st.tuples(st.sampled_from(("=", "!=")), NAME, VALUE),
        st.tuples(st.just("like"), NAME, st.sampled_from(("a%", "%b", "a%b", "%", "ab"))),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(("and", "or")), inner, inner)
    ),
    max_leaves=4,
)
FILTERS = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"exact": PAIRS}),
        st.fixed_dictionaries({"prefix": PAIRS}),
        st.fixed_dictionaries({"suffix": PAIRS}),
        st.fixed_dictionaries({"cesql": TREES.map(lambda tree: Sql(*tree))}),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=5,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "filter": st.fixed_dictionaries(
            {"attributes": st.dictionaries(NAME, st.sampled_from(("", *VALUES)), max_size=3)}
        ),
        "filters": st.lists(st.one_of(FILTERS, st.just({})), max_size=3),
    },
)


@given(spec=SPECS, events=st.lists(EVENTS, min_size=1, max_size=12))
@settings(max_examples=150)
def test_a_matcher_accepts_exactly_the_events_that_knative_accepts(spec: Any, events: Any) -> None:
    sent_events = [Event.of(**{"id": "1", **each}) for each in events]
    wanted = [accepts(spec, each.attributes) for each in sent_events]
    try:
        made = read(**spec)
        found = [made.accepts(each) for each in sent_events]
    except NotTranslated:  # because no event passes, which then none here may do either
        found = [False for _ in sent_events]
    assert found == wanted


def test_an_empty_value_is_any_value_that_is_there() -> None:
    made = read(filter={"attributes": {"type": "com.shop.paid", "tenant": "", "source": ""}})
    assert made.accepts(sent(tenant="a"))
    assert made.accepts(sent(tenant=""))
    assert not made.accepts(sent())
    assert not made.accepts(sent(type="com.shop.refunded", tenant="a"))


def test_attributes_compare_by_case_and_as_a_whole() -> None:
    made = read(filter={"attributes": {"type": "com.shop.paid"}})
    assert not made.accepts(sent(type="com.shop.Paid"))
    assert not made.accepts(sent(type="com.shop.paid.eu"))


def test_a_boolean_or_integer_of_an_event_equals_its_text() -> None:
    made = read(filter={"attributes": {"urgent": "true", "level": "4"}})
    assert made.accepts(Event.of("t", "/s", urgent=True, level=4))


def test_filters_replace_filter_also_if_they_hold_nothing() -> None:
    both = {"filter": {"attributes": {"type": "x"}}, "filters": [{"prefix": {"type": "com."}}]}
    assert read(**both) == read(filters=both["filters"])
    assert notes(**both)["spec.filter"] == "not read: filters replace it"
    assert read(filter={"attributes": {"type": "x"}}, filters=[{}]).accepts(sent())
    assert not read(filter={"attributes": {"type": "x"}}, filters=[]).accepts(sent())


@pytest.mark.parametrize(
    "spec", [{}, {"filter": None}, {"filter": {}}, {"filters": [{}]}, {"filters": [{"all": [{}]}]}]
)
def test_without_a_filter_each_event_is_wanted_and_a_note_says_what_that_is_on_a_bus(spec: Any) -> None:
    assert read(**spec).accepts(sent())
    assert "records of listed topics" in " ".join(notes(**spec).values())


def test_a_type_with_any_value_is_each_event_too() -> None:
    assert read(filter={"attributes": {"type": ""}}).accepts(sent())


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"filter": {"attributes": {"level": 4}}}, "spec.filter.attributes.level", "Write it in quotes"),
        ({"filter": {"attributes": {"urgent": True}}}, "spec.filter.attributes.urgent", "it is a bool"),
        ({"filter": {"attributes": ["type"]}}, "spec.filter.attributes", "an object of texts"),
        ({"filter": {"attribute": {"type": "a"}}}, "spec.filter.attribute", "no filter of Knative"),
        ({"filter": {"attributes": {"Type": "a"}}}, "spec.filter.attributes.Type", "not an attribute name"),
        ({"filter": {"attributes": {"1st": "a"}}}, "spec.filter.attributes.1st", "not an attribute name"),
        ({"filter": {"attributes": {"data": "a"}}}, "spec.filter.attributes.data", "not the name of an attr"),
        ({"filter": {"attributes": {"schemaurl": "a"}}}, "spec.filter.attributes.schemaurl", "dataschema"),
        ({"filter": {"attributes": {"exists": ""}}}, "spec.filter.attributes.exists", "expected"),
        ({"filters": {"exact": {"type": "a"}}}, "spec.filters", "it must be a list"),
        ({"filters": ["a"]}, "spec.filters[0]", "it must be an object"),
        ({"filters": [{"exakt": {"type": "a"}}]}, "spec.filters[0].exakt", "no dialect of Knative"),
        ({"filters": [{"sql": "EXISTS a"}]}, "spec.filters[0].sql", "no dialect of Knative"),
        ({"filters": [{"exact": {"type": ""}}]}, "spec.filters[0].exact.type", "is empty"),
        ({"filters": [{"prefix": {"type": 1}}]}, "spec.filters[0].prefix.type", "Write it in quotes"),
        ({"filters": [{"suffix": {"a_b": "c"}}]}, "spec.filters[0].suffix.a_b", "not an attribute name"),
        (
            {"filters": [{"exact": {"a": "b"}, "not": {"exact": {"c": "d"}}}]},
            "spec.filters[0]",
            "exactly one",
        ),
        ({"filters": [{"not": {}}]}, "spec.filters[0].not", "exactly one"),
        ({"filters": [{"not": {"all": []}}]}, "spec.filters[0].not", "exactly one"),
        ({"filters": [{"any": [{}, {"exact": {"a": "b"}}]}]}, "spec.filters[0].any[0]", "exactly one"),
        ({"filters": [{"any": {"exact": {"a": "b"}}}]}, "spec.filters[0].any", "a list of filters"),
        ({"filters": [{"not": [{"exact": {"a": "b"}}]}]}, "spec.filters[0].not", "it must be an object"),
        ({"filters": [{"cesql": 5}]}, "spec.filters[0].cesql", "it must be a text"),
        ({"filters": [{"cesql": "tenant"}]}, "spec.filters[0].cesql", "not a Boolean"),
        ({"filters": [{"cesql": "INT(level)"}]}, "spec.filters[0].cesql", "not a Boolean"),
        ({"filters": [{"cesql": "type = "}]}, "spec.filters[0].cesql", "column"),
        ({"filters": [{"cesql": "a = '1' OR b = '2' AND c = '3'"}]}, "spec.filters[0].cesql", "parentheses"),
        (
            {"filters": [{"cesql": "NOT (a = 'x' XOR b = 'y' OR TRUE)"}]},
            "spec.filters[0].cesql",
            "parentheses",
        ),
        ({"filters": [{"exact": {"type": "a"}}, {"exact": {"type": "b"}}]}, "spec.filters", "no event"),
    ],
    ids=str,
)
def test_what_is_no_filter_or_means_two_things_is_refused_by_its_path(
    spec: Any, field: str, reason: str
) -> None:
    error = refusal(**spec)
    assert error.field == field
    assert reason in error.reason


def test_filters_that_are_nested_without_end_are_refused() -> None:
    loop: dict[str, Any] = {}
    loop["not"] = loop
    with pytest.raises(NotTranslated, match="levels deep"):
        matcher(Members({"filters": [loop]}, "spec"))


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([{"cesql": "TRUE"}, {"exact": {"type": "a"}}], [{"exact": {"type": "a"}}]),
        ([{"cesql": "1 = 1"}], []),
        ([{"any": [{"cesql": "1 = 2"}, {"exact": {"type": "a"}}]}], [{"exact": {"type": "a"}}]),
        ([{"any": [{"cesql": "1 = 1"}, {"exact": {"type": "a"}}]}], []),
        ([{"not": {"cesql": "NOT EXISTS type"}}, {"exact": {"type": "a"}}], [{"exact": {"type": "a"}}]),
        ([{"not": {"all": [{"cesql": "FALSE"}, {"exact": {"type": "a"}}]}}], []),
    ],
    ids=str,
)
def test_an_expression_that_is_the_same_for_each_event_is_left_out_with_a_note(
    filters: Any, wanted: Any
) -> None:
    assert read(filters=filters) == read(filters=wanted)
    assert "left out" in " ".join(notes(filters=filters).values())


@pytest.mark.parametrize(
    "filters",
    [
        [{"cesql": "FALSE"}],
        [{"cesql": "NOT EXISTS type"}, {"exact": {"type": "a"}}],
        [{"not": {"any": [{"cesql": "TRUE"}, {"exact": {"type": "a"}}]}}],
        [{"cesql": "type = 'a' AND type = 'b'"}],
    ],
    ids=str,
)
def test_filters_that_no_event_passes_are_refused_with_the_reason(filters: Any) -> None:
    error = refusal(filters=filters)
    assert error.field == "spec.filters"
    assert "no event passes them. spec.filters[0]" in error.reason


@pytest.mark.parametrize("expression", ["INT('x') = 1", "NOSUCH(type) = 'a'", "level / 0 = 1"])
def test_an_expression_that_fails_on_each_event_is_refused(expression: str) -> None:
    assert "fails on every event" in refusal(filters=[{"not": {"cesql": expression}}]).reason


@pytest.mark.parametrize(
    "expression",
    [
        "a = 'x' AND b = 'y' AND c = 'z'",
        "(a = 'x' OR b = 'y') AND c = 'z'",
        "NOT (a = 'x') OR EXISTS b",
        "BOOL(a)",
    ],
)
def test_an_expression_that_means_the_same_there_is_taken_without_a_note(expression: str) -> None:
    assert "cesql" not in " ".join(notes(filters=[{"cesql": expression}]))


@pytest.mark.parametrize(
    "expression",
    [
        "'04' = level",
        "level IN ('04', '5')",
        "urgent = 1",
        "'TRUE' = urgent",
        "level = other",
        "level IN (4)",
    ],
)
def test_a_comparison_with_an_extension_that_may_be_a_number_here_gets_a_note(expression: str) -> None:
    assert "also stand for" in notes(filters=[{"cesql": expression}])["spec.filters[0].cesql"]


@pytest.mark.parametrize(
    "expression", ["level = '04'", "level = 4", "level IN ('a', '4')", "'x' = level", "level > 3"]
)
def test_a_comparison_with_an_extension_that_is_the_same_here_gets_none(expression: str) -> None:
    assert "spec.filters[0].cesql" not in notes(filters=[{"cesql": expression}])


@pytest.mark.parametrize(
    "spec",
    [
        {"filter": {"attributes": {"time": "2026-11-20T06:00:00Z"}}},
        {"filters": [{"prefix": {"time": "2026-11"}}]},
    ],
    ids=str,
)
def test_a_filter_on_the_time_gets_a_note(spec: Any) -> None:
    assert "compared with the text" in " ".join(notes(**spec).values())
