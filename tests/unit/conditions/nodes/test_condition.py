"""Building conditions, their equality and forms. Case ids: docs/use/conditions.md."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions import AllOf, AnyOf, Condition, ConditionError, Matcher, event, from_json
from interlock.conditions.filters import Exact
from interlock.conditions.nodes.condition import MAX_DEPTH, MAX_NODES
from interlock.events import Event

a, b, c = event("a"), event("b"), event("c")


def test_nested_conditions_of_one_kind_are_one_condition() -> None:
    """A4, O4"""
    assert (a & b) & c == a & (b & c) == AllOf(a, b, c) == AllOf(a, AllOf(b, c))
    assert (a | b) | c == a | (b | c) == AnyOf(a, b, c) == AnyOf(a, AnyOf(b, c))
    assert hash((a & b) & c) == hash(a & (b & c))
    assert (a | b) & c != a | (b & c)


def test_a_repeated_operand_counts_once_at_its_first_position() -> None:
    """A5, O5"""
    assert a & a == a
    assert (a & b) & (b & c) == AllOf(a, b, c)
    assert (a | b) | a == AnyOf(a, b)


@pytest.mark.parametrize("kind", [AllOf, AnyOf])
def test_a_combination_of_fewer_than_two_is_refused(kind: type[AllOf]) -> None:
    """A7, O6"""
    for operands in ((), (a,), (a, a)):
        with pytest.raises(ConditionError, match="at least two"):
            kind(*operands)


def test_conditions_with_another_order_of_operands_are_different() -> None:
    assert a & b != b & a
    assert (b & a).matchers == (b, a)


@pytest.mark.parametrize(
    "use",
    [lambda: bool(a), lambda: a and b, lambda: a or b, lambda: not a, lambda: 1 if a & b else 0],
    ids=["bool", "and", "or", "not", "if"],
)
def test_python_logic_on_a_condition_tells_to_use_the_operators(use: Any) -> None:
    with pytest.raises(ConditionError, match=r"with & and \|"):
        use()


def test_an_error_about_negation_says_what_to_write() -> None:
    with pytest.raises(ConditionError, match=r"absent\(b"):
        (~a).check()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: a & "b", "right side of &"),
        (lambda: "a" | b, "left side of |"),
        (lambda: None & b, "left side of &"),
        (lambda: AllOf(a, None), "argument 2 of AllOf"),
    ],
)
def test_joining_with_something_else_names_the_side(use: Any, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        use()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at least a type"),
        ({"type": ""}, "event(type='') is empty"),
        ({"type": 1}, "event(type=...) is an int"),
        ({"type": "x" * 2049}, "at most 2048"),
        ({"type": "\ud800"}, "is not valid Unicode"),
        ({"urgent": True}, "event(urgent=...) is a bool"),
        ({"urgent": 10**5000}, "event(urgent=...) is an int"),
        ({"Tenant": "x"}, "event(Tenant=...) is not the name of an attribute"),
        ({"my_ext": "x"}, "event(my_ext=...) is not the name of an attribute"),
        ({"type": "x", "topic": "y"}, "event(topic=...) is reserved"),
        ({"type": "x", "where": 1}, "event(where=...) is an int"),
        ({"type": "x", "data": "y"}, "event(data=...) is reserved"),
        ({"type": "x", "by": "data"}, "is not a path"),
        ({"type": "x", "by": "data."}, "empty member"),
        ({"type": "x", "by": "data.a..b"}, "empty member"),
        ({"type": "x", "by": "Subject"}, "is not a path"),
        ({"type": "x", "by": ""}, "by=''"),
        ({"type": "x", "by": ["subject"]}, "event(by=[...]) has 1 path:"),
        ({"type": "x", "label": ""}, "label=''"),
        ({"type": "x", "label": "x" * 129}, "at most 128"),
    ],
)  # fmt: skip
def test_a_bad_argument_of_event_is_named(arguments: dict[str, Any], message: str) -> None:
    """M2, M3, M5, M6"""
    with pytest.raises(ConditionError) as caught:
        event(**arguments)
    assert message in str(caught.value)


def test_a_matcher_accepts_exactly_the_attributes_it_names() -> None:
    """M1, M3, M4"""
    matcher = event("t", tenant="bank", urgent="true")
    assert matcher.accepts(Event.of("t", "/s", tenant="bank", urgent=True, subject="any"))
    assert not matcher.accepts(Event.of("t", "/s", tenant="bank"))
    assert not matcher.accepts(Event.of("t", "/s", tenant="bank ", urgent=True))


@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("subject", "2026-11-20"), ("time", "2026-11-20T05:00:00Z"), ("tenant", "bank"), ("nothing", None),
        ("data.day", "2026-11-20"), ("data.order.n", "7"), ("data.order", None), ("data.list", None),
        ("data.null", None), ("data.empty", None), ("data.day.x", None), ("data.flag", "false"),
        ("data.long", None), ("data.zero", "0"),
    ],
)  # fmt: skip
def test_the_key_is_read_at_the_path(by: str, key: str | None) -> None:
    """M6, K20"""
    data = {
        "day": 20261120, "order": {"n": 7.0}, "list": [1], "null": None, "empty": "", "flag": False,
        "long": "x" * 513, "zero": 0,
    }  # fmt: skip
    sent = Event.of("t", "/s", subject="20261120", time="2026-11-20T06:00:00+01:00", tenant="bank", data=data)
    assert event("t", by=by).key_of(sent) == key


@pytest.mark.parametrize(
    "data", [None, b"{", b"[" * 100_000, b"[1]", b'"x"'], ids=["none", "bad", "deep", "list", "text"]
)
def test_data_without_the_member_has_no_key(data: bytes | None) -> None:
    """K20"""
    assert event("t", by="data.a").key_of(Event.of("t", "/s", data=data)) is None
    typed = Event.of("t", "/s", data=b'{"a":1}', datacontenttype="application/xml")
    assert event("t", by="data.a").key_of(typed) is None


def test_labels_are_given_or_made_and_always_distinct() -> None:
    """M7"""
    condition = (
        event("com.bank.rates.published")
        & event("org.rates.published")
        & event("x", subject="eur")
        & event(source="/jobs")
        & event("y", label="rates.published#2")
    )
    assert condition.labels == ("rates.published", "rates.published#3", "eur", "/jobs", "rates.published#2")


def test_a_label_given_to_two_matchers_is_refused() -> None:
    """M7"""
    with pytest.raises(ConditionError, match="label 'x' names two matchers"):
        event("a", label="x") & event("b", label="x")
    same = event("a", label="x")
    assert (same & (event("a", label="x") | b)).matchers == (same, b)


def test_matchers_that_differ_in_label_alone_are_two_parts() -> None:
    """M8"""
    left, right = event("a", label="l"), event("a", label="r")
    assert (left & right).matchers == (left, right)
    assert (left.exact, left.by) == (right.exact, right.by)


def test_a_key_given_to_an_unkeyed_condition_is_refused() -> None:
    """K21"""
    (a & b).check_key(False)
    with pytest.raises(ConditionError, match="no matcher reads one"):
        (a & b).check_key(True)


def test_keyed_beside_unkeyed_matchers_need_a_key() -> None:
    """K22, K23"""
    mixed = a & event("b", by="subject")
    assert mixed.keyed
    mixed.check_key(True)
    with pytest.raises(ConditionError, match="reads no key, but"):
        mixed.check_key(False)
    (event("a", by="subject") & event("b", by="data.x")).check_key(False)


def test_a_condition_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        a.by = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        (a & b).operands = ()  # type: ignore[misc]


def test_a_condition_is_limited_in_nodes() -> None:
    many = [event(f"t{n}") for n in range(MAX_NODES - 1)]
    assert AllOf(*many).nodes == MAX_NODES
    with pytest.raises(ConditionError, match="257 nodes: at most 256"):
        AllOf(*many, a)
    with pytest.raises(ConditionError, match="more than 256 nodes"):
        from_json(
            {"v": 1, "condition": {"all": [{"event": {"exact": {"type": f"{n}"}}} for n in range(300)]}}
        )


def test_a_condition_is_limited_in_depth() -> None:
    condition: Condition = a
    for level in range(MAX_DEPTH - 1):
        other = event(f"t{level}")
        condition = condition & other if level % 2 else condition | other
    assert condition.depth == MAX_DEPTH
    assert from_json(condition.to_json()) == condition
    with pytest.raises(ConditionError, match="33 levels deep: at most 32"):
        condition | b if MAX_DEPTH % 2 else (condition & b) | c
    deep: Any = {}
    for _ in range(100_000):
        deep = {"all": [deep]}
    with pytest.raises(ConditionError, match="more than 32 levels"):
        from_json({"v": 1, "condition": deep})
    while deep:  # taken apart here: CPython frees nested objects recursively
        deep = deep["all"][0]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "$ is a NoneType"),
        ({"condition": {}}, "$.v is missing"),
        ({"v": 2, "condition": {}}, "$.v is 2: this release reads version 1"),
        ({"v": True, "condition": {}}, "$.v"),
        ({"v": 10**5000, "condition": {}}, "$.v"),
        ({"v": 1, "condition": {}}, "$.condition must be"),
        ({"v": 1, "condition": {"none": []}}, "$.condition has the member 'none'"),
        ({"v": 1, "condition": {"all": {}}}, "$.condition.all is a dict"),
        ({"v": 1, "condition": {"all": [{"event": {"exact": {"type": "x"}}}]}}, "$.condition.all: AllOf"),
        ({"v": 1, "condition": {"all": [{"event": {}}]}}, "$.condition.all[0].event: event() without"),
        ({"v": 1, "condition": {"event": {"exact": {}}}}, "$.condition.event.exact is empty: leave it out"),
        ({"v": 1, "condition": {"event": {"exact": ["x"]}}}, "$.condition.event.exact is a list"),
        ({"v": 1, "condition": {"event": {"exact": {"type": "x"}, "by": None}}}, "$.condition.event.by"),
        ({"v": 1, "condition": {"event": {"exact": {"type": "x"}, "n": 1}}}, "unknown member 'n'"),
        ({"v": 1, "condition": {"event": {"exact": {"type": "x"}}}, "x": 1}, "$ has an unknown member 'x'"),
    ],
)
def test_bad_json_is_refused_with_its_path(obj: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        from_json(obj)
    assert message in str(caught.value)


names = st.sampled_from(["type", "source", "subject", "tenant", "x1"])
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
matchers = st.builds(
    Matcher,
    st.dictionaries(names, texts, min_size=1, max_size=3).map(lambda wanted: tuple(wanted.items())),
    st.none() | st.sampled_from(["subject", "data.a.b", "time"]),
)


def _join(parts: tuple[Condition, Condition, bool]) -> Condition:
    left, right, all_ = parts
    return left & right if all_ else left | right


conditions = st.recursive(
    matchers, lambda inner: st.tuples(inner, inner, st.booleans()).map(_join), max_leaves=8
)


@given(conditions)
def test_every_form_of_a_condition_builds_it_again(condition: Condition) -> None:
    form = json.loads(json.dumps(condition.to_json()))
    assert from_json(form) == condition
    assert hash(from_json(form)) == hash(condition)
    assert eval(str(condition), {"event": event, "Exact": Exact}) == condition
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert copy.deepcopy(condition) == condition
    assert len(set(condition.labels)) == len(condition.matchers)


@given(conditions, conditions)
def test_conditions_are_equal_exactly_when_their_json_is(one: Condition, other: Condition) -> None:
    assert (one == other) == (json.dumps(one.to_json()) == json.dumps(other.to_json()))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["v", "condition", "all", "any", "event", "exact", "by", "label", "type"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=500)
@given(json_values, json_values)
def test_any_json_gives_a_condition_or_a_condition_error(whole: object, inner: object) -> None:
    for obj in (whole, {"v": 1, "condition": inner}, {"v": 1, "condition": {"all": [inner, inner]}}):
        with contextlib.suppress(ConditionError):
            from_json(obj)


def test_the_first_published_form_still_loads() -> None:
    form = {
        "v": 1,
        "condition": {
            "any": [
                {
                    "all": [
                        {
                            "event": {
                                "exact": {"type": "com.shop.orders.done"},
                                "by": "data.date",
                                "label": "orders",
                            }
                        },
                        {"event": {"exact": {"type": "com.bank.rates.published"}, "by": "data.day"}},
                    ]
                },
                {"event": {"exact": {"type": "com.ops.override", "tenant": "bank"}, "by": "subject"}},
            ]
        },
    }
    orders = event("com.shop.orders.done", by="data.date", label="orders")
    rates = event("com.bank.rates.published", by="data.day")
    built = (orders & rates) | event("com.ops.override", tenant="bank", by="subject")
    assert from_json(form) == built
    assert built.to_json() == form
