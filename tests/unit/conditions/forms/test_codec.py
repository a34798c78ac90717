"""The JSON forms of conditions."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from interlock.conditions import (
    AllOf,
    Condition,
    ConditionError,
    Matcher,
    absent,
    at_least,
    count,
    event,
    filters,
    from_json,
    sequence,
)
from interlock.conditions.filters import Exact, Prefix, Sql
from interlock.conditions.forms import codec

from tests.unit.conditions.timeline import NAMES

from .generators import conditions

FILTERS = {name: getattr(filters, name) for name in filters.__all__}
a, b, c = event("a"), event("b"), event("c")
A, B, C = ({"event": {"exact": {"type": name}}} for name in "abc")


def form(node: object) -> dict[str, object]:
    return {"v": 1, "condition": node}


def text(condition: Condition) -> str:
    return json.dumps(condition.to_json())


@settings(max_examples=30)
@given(conditions())
def test_the_json_of_a_condition_reads_back_equal(condition: Condition) -> None:
    read = from_json(json.loads(text(condition)))
    assert read == condition
    assert hash(read) == hash(condition)
    assert text(read) == text(condition)


@settings(max_examples=30)
@given(conditions())
def test_a_copy_of_a_condition_and_what_its_text_builds_are_equal(condition: Condition) -> None:
    assert pickle.loads(pickle.dumps(condition)) == copy.deepcopy(condition) == condition
    assert eval(str(condition), {**NAMES, **FILTERS}) == condition
    assert len(set(condition.labels)) == len(condition.matchers)


@settings(max_examples=30)
@given(conditions(), conditions())
def test_conditions_are_equal_exactly_when_their_json_is(one: Condition, other: Condition) -> None:
    assert (one == other) == (text(one) == text(other))


@pytest.mark.parametrize(
    ("condition", "node"),
    [
        (
            event("a", by="subject", label="l"),
            {"event": {"exact": {"type": "a"}, "by": "subject", "label": "l"}},
        ),
        (event("a", filters=[Exact(source="s")]), {"event": {"exact": {"source": "s", "type": "a"}}}),
        (event("a", by=("subject", "id")), {"event": {"exact": {"type": "a"}, "by": ["subject", "id"]}}),
        (event("a", where="data.x"), {"event": {"exact": {"type": "a"}, "where": "data.x"}}),
        (
            event(filters=[Prefix(subject="s"), Sql("x = 'y'")]),
            {"event": {"filters": [{"prefix": {"subject": "s"}}, {"sql": "x = 'y'"}]}},
        ),
        (event("a", keep="latest"), {"event": {"exact": {"type": "a"}, "keep": "latest"}}),
        (event("a", keep="all"), {"event": {"exact": {"type": "a"}, "keep": "all", "limit": 100}}),
        (at_least(2, a, b, c), {"at_least": {"n": 2, "of": [A, B, C]}}),
        (count(a, 3), {"count": {"n": 3, "of": A}}),
        (sequence(a, b, ordered=False), {"sequence": {"of": [A, B], "ordered": False}}),
        ((a & b).within("2h"), {"within": {"of": {"all": [A, B]}, "duration_ms": 7_200_000}}),
        (
            (a & ~b).within("2h", lateness="0s"),
            {"within": {"of": {"all": [A, {"not": B}]}, "duration_ms": 7_200_000, "lateness_ms": 0}},
        ),
        (
            (a & b).resets("0 0 * * *"),
            {"reset": {"of": {"all": [A, B]}, "cron": "0 0 * * *", "timezone": "UTC"}},
        ),
        (absent(a, "10m"), {"absent": {"of": A, "duration_ms": 600_000, "armed_by": "event"}}),
        (a.quiet("5m"), {"quiet": {"of": A, "duration_ms": 300_000}}),
        ((a | b).ordered(), {"ordered": {"any": [A, B]}}),
        (
            a.expires(after="1s", at="2026-11-20T18:00:00.500+01:00"),
            {"expires": {"of": A, "after_ms": 1000, "at": "2026-11-20T17:00:00.500Z"}},
        ),
        (a.expires(after="1s", armed_by="subscription"), {"expires": {"of": A, "after_ms": 1000}}),
        (
            a.expires(after="1s", armed_by="event"),
            {"expires": {"of": A, "after_ms": 1000, "armed_by": "event"}},
        ),
    ],
)
def test_each_node_and_member_has_its_form(condition: Condition, node: object) -> None:
    written = condition.to_json()
    assert written == form(node)
    assert from_json(written) == condition


WITHIN = {"of": {"all": [A, B]}, "duration_ms": 1000}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (None, "$.condition must be an object with one member: event, all, any, at_least"),
        ({}, "$.condition must be an object with one member"),
        ({"all": [A, B], "any": [A, B]}, "$.condition must be an object with one member"),
        ({"none": [A, B]}, "$.condition has the member 'none': give event, all, any"),
        ({"all": A}, "$.condition.all is a dict: give a list of conditions"),
        ({"all": [A, {"any": [A, A]}]}, "$.condition.all[1].any: AnyOf needs at least two"),
        ({"event": {}}, "$.condition.event: event() without a filter"),
        ({"event": {"exact": {}, "where": "true"}}, "$.condition.event.exact is empty: leave it out"),
        ({"event": {"exact": {"type": "a"}, "filters": []}}, "$.condition.event.filters is empty"),
        ({"event": {"exact": {"type": 1}}}, "$.condition.event: event(type=...) is an int"),
        ({"event": {"filters": {"x": 1}}}, "$.condition.event.filters is a dict: give a list"),
        ({"event": {"filters": [{"sql": 1}]}}, "$.condition.event.filters[0].sql: Sql() got an int"),
        ({"event": {"filters": [{"not": {"x": 1}}]}}, "$.condition.event.filters[0].not has the member 'x'"),
        ({"event": {"where": 1}}, "$.condition.event.where is a int: give a string"),
        ({"event": {"where": "data."}}, "$.condition.event.where: event(where="),
        ({"event": {"exact": {"type": "a"}, "by": ["x"]}}, "$.condition.event: event(by=[...]) has 1 path"),
        ({"event": {"exact": {"type": "a"}, "by": 1}}, "$.condition.event.by is a int"),
        ({"event": {"exact": {"type": "a"}, "keep": None}}, "$.condition.event.keep is a NoneType"),
        ({"event": {"exact": {"type": "a"}, "keep": "one"}}, "$.condition.event: event(keep='one')"),
        ({"event": {"exact": {"type": "a"}, "limit": 3}}, "$.condition.event: event(limit=...) needs"),
        ({"event": {"exact": {"type": "a"}, "limit": True}}, "$.condition.event.limit is a bool"),
        ({"event": {"exact": {"type": "a"}, "keeps": "all"}}, "unknown member 'keeps'"),
        ({"at_least": {"n": 3, "of": [A, B, C]}}, "$.condition.at_least: AtLeast(n) is 3: from 2 to 2"),
        ({"at_least": {"n": 2.5, "of": [A, B, C]}}, "$.condition.at_least.n is a float"),
        ({"at_least": {"n": float("inf"), "of": [A, B, C]}}, "$.condition.at_least.n is a float"),
        ({"at_least": {"n": float("nan"), "of": [A, B, C]}}, "$.condition.at_least.n is a float"),
        ({"at_least": {"of": [A, B, C]}}, "$.condition.at_least.n is missing"),
        ({"count": {"n": 1, "of": A}}, "ount(n) is 1: from 2 to 1000"),
        ({"count": {"n": 2, "of": {"all": [A, B]}}}, "$.condition.count: count() counts the events of one"),
        ({"count": {"n": 10**400, "of": A}}, "ount(n) is a large int: from 2 to 1000"),
        ({"sequence": {"of": [A, B]}}, "$.condition.sequence.ordered is missing"),
        ({"sequence": {"of": [A, B], "ordered": 1}}, "$.condition.sequence.ordered is a int"),
        ({"sequence": {"of": [A], "ordered": True}}, "$.condition.sequence: sequence needs at least two"),
        ({"within": WITHIN | {"x": 1}}, "$.condition.within has an unknown member 'x'"),
        ({"within": WITHIN | {"duration_ms": 0}}, "$.condition.within: within() is 0 ms"),
        ({"within": WITHIN | {"duration_ms": "1h"}}, "$.condition.within.duration_ms is a str"),
        ({"within": WITHIN | {"duration_ms": 31_622_400_001}}, "within.duration_ms is 31622400001: "),
        (
            {"within": WITHIN | {"duration_ms": 10**20}},
            "duration_ms is a large int: give milliseconds up to 31,622,400,000 (366 days)",
        ),
        ({"within": WITHIN | {"duration_ms": 1e308}}, "$.condition.within.duration_ms is a large int: "),
        ({"within": WITHIN | {"lateness_ms": -(10**400)}}, "$.condition.within.lateness_ms is a large int: "),
        ({"within": {"of": A, "duration": 1}}, "unknown member 'duration': did you mean duration_ms?"),
        ({"witin": WITHIN}, "$.condition has the member 'witin': did you mean within?"),
        ({"expires": {"of": A, "after_ms": 1, "armed_by": "x"}}, "$.condition.expires: expires(armed_by="),
        ({"expires": {"of": A, "after_ms": 1, "armed_by": None}}, "expires.armed_by is a NoneType"),
        ({"within": WITHIN | {"lateness_ms": -1}}, "$.condition.within: lateness is -1 ms"),
        ({"within": WITHIN | {"of": A}}, "$.condition.within: within() around"),
        ({"within": WITHIN | {"of": {"all": [{"not": A}, {"not": B}]}}}, "$.condition.within: "),
        ({"reset": {"of": {"all": [A, B]}, "cron": "x", "timezone": "UTC"}}, "$.condition.reset: cron 'x'"),
        ({"reset": {"of": {"all": [A, B]}, "cron": 1, "timezone": "UTC"}}, "$.condition.reset.cron is a int"),
        ({"reset": {"of": {"all": [A, B]}, "cron": "0 0 * * *"}}, "$.condition.reset.timezone is missing"),
        ({"reset": {"of": {"all": [A, B]}, "cron": "0 0 * * *", "timezone": "../x"}}, "$.condition.reset: "),
        ({"not": A}, "$.condition: ~event(type=\"a\"): ~ needs a window"),
        ({"all": [A, {"not": B}]}, "$.condition: event(type=\"a\") & ~event(type=\"b\"): ~ needs a window"),
        ({"not": {"all": [A, B]}}, "$.condition.not: ~ cannot be applied"),
        ({"absent": {"of": A, "duration_ms": 1, "armed_by": "x"}}, "$.condition.absent: absent(armed_by="),
        ({"absent": {"of": {"all": [A, B]}, "duration_ms": 1, "armed_by": "event"}}, "$.condition.absent: "),
        ({"quiet": {"of": {"quiet": {"of": A, "duration_ms": 1}}, "duration_ms": 1}}, "$.condition.quiet: "),
        ({"ordered": {"ordered": A}}, "$.condition.ordered: operand of ordered()"),
        ({"all": [{"ordered": A}, B]}, "$.condition.all: argument 1 of AllOf"),
        ({"expires": {"of": A}}, "$.condition.expires: expires() needs a time"),
        ({"expires": {"of": A, "at": 1}}, "$.condition.expires.at is a int"),
        ({"expires": {"of": A, "at": "2026-11-20"}}, "$.condition.expires.at is '2026-11-20': write"),
        ({"expires": {"of": A, "at": "2026-11-20T18:00:00"}}, "$.condition.expires.at is"),
        ({"expires": {"of": A, "at": "2026-02-30T18:00:00Z"}}, "$.condition.expires.at: "),
        ({"expires": {"of": A, "at": "1969-12-31T23:59:59Z"}}, "$.condition.expires.at: "),
        ({"all": [{"expires": {"of": A, "after_ms": 1}}, B]}, "$.condition.all: argument 1 of AllOf"),
    ],
)  # fmt: skip
def test_a_wrong_form_is_refused_with_its_path(node: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        from_json(form(node))
    assert message in str(caught.value)


def test_the_default_of_armed_by_may_be_written_out() -> None:
    read = from_json(form({"expires": {"of": A, "after_ms": 1000, "armed_by": "subscription"}}))
    assert read == a.expires(after="1s")
    assert "armed_by" not in text(read)


@pytest.mark.parametrize("given", [text(a), text(a).encode(), "x"])
def test_unparsed_json_is_an_error_that_says_how_to_parse_it(given: object) -> None:
    with pytest.raises(ConditionError, match=r"^\$ is a (str|bytes): parse it with json\.loads first$"):
        from_json(given)


def as_floats(obj: object) -> object:
    """The same form from a writer that has only floating-point numbers."""
    if isinstance(obj, dict):
        return {name: as_floats(value) for name, value in obj.items()}
    if isinstance(obj, list):
        return [as_floats(value) for value in obj]
    return float(obj) if isinstance(obj, int) and not isinstance(obj, bool) else obj


@settings(max_examples=30)
@given(conditions())
def test_whole_numbers_may_be_written_with_a_fraction_of_zero(condition: Condition) -> None:
    read = from_json(json.loads(json.dumps(as_floats(condition.to_json()))))
    assert read == condition
    assert text(read) == text(condition)  # with integers again


def test_a_part_of_a_condition_has_no_form() -> None:
    for part in (~a, a & ~b):
        with pytest.raises(ConditionError, match="~ needs a window"):
            part.to_json()


def nested(levels: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


# Made in the test: each process that collects the tests would hold these million objects.
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nested(100_000, lambda inner: {"all": [inner]}, {}), "more than 32 levels"),
        (lambda: nested(100_000, lambda inner: {"not": inner}, {}), "more than 32 levels"),
        (lambda: nested(100_000, lambda inner: {"count": {"of": inner, "n": 2}}, {}), "more than 32 levels"),
        (
            lambda: {"event": {"filters": [nested(100_000, lambda inner: {"not": inner}, {})]}},
            "too large together",
        ),
        (
            lambda: {"event": {"filters": [nested(100, lambda inner: {"all": [inner]}, {})]}},
            "more than 16 levels",
        ),
        (lambda: {"event": {"exact": nested(100_000, lambda inner: [inner], "x")}}, "too large together"),
        (lambda: {"event": {"by": nested(100_000, lambda inner: [inner], "x")}}, "too large together"),
        (lambda: {"all": [{"event": {"exact": {"type": "a"}}}] * 100_000}, "more than 256 nodes"),
        (lambda: {"event": {"filters": [{"any": [{"sql": "x"}] * 100_000}]}}, "too large together"),
        (lambda: {"event": {"exact": {"type": "x" * 2_000_000}}}, "too large together"),
        (lambda: {"event": {"exact": {"x" * 2_000_000: "x"}}}, "too large together"),
        (lambda: {"event": {"exact": {f"a{n}": "x" for n in range(100_000)}}}, "too large together"),
        (lambda: {"event": {"exact": {f"a{n}": "x" for n in range(300)}}}, "have 300 terms: at most 256"),
        (lambda: {"event": {"filters": [{"sql": " " * 5000}]}}, "too large together"),
        (
            lambda: {"all": [{"event": {"where": f"data.x == {n}{' ' * 900}"}} for n in range(5)]},
            "4,096 in where and sql",
        ),
        (
            lambda: {
                "all": [
                    {"event": {"filters": [{"any": [{"exact": {"type": f"{n}.{m}"}} for m in range(250)]}]}}
                    for n in range(99)
                ]
            },
            "16,384 members and items",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "node",
)  # fmt: skip
def test_reading_stops_at_the_limits(make: Callable[[], Any], message: str) -> None:
    node = make()
    try:
        with pytest.raises(ConditionError) as caught:
            from_json(form(node))
        assert message in str(caught.value)
        assert len(str(caught.value)) < 2000
    finally:
        waiting = [node]  # one level at a time, because CPython frees nested objects recursively
        while waiting:
            each = waiting.pop()
            if isinstance(each, dict):
                waiting += each.values()
                each.clear()
            elif isinstance(each, list):
                waiting += each
                each.clear()


def test_a_form_too_large_to_read_is_not_written() -> None:
    large = AllOf(*(event(f"{n}", where=f"data.x == {n}{' ' * 900}") for n in range(5)))
    with pytest.raises(ConditionError, match="4,096 in where and sql"):
        large.to_json()


def test_the_largest_condition_reads_back() -> None:
    largest = AllOf(
        *(
            Matcher([(f"a{m}", f"{n}" + "x" * 998) for m in range(4)], filters=[Prefix(source="s" * 999)])
            for n in range(200)
        )
    )
    assert from_json(largest.to_json()) == largest
    assert codec.MAX_CHARS > len(text(largest)) > 0.9 * 1_000_000
