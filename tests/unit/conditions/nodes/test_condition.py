"""Building conditions, their equality and forms. Case ids: docs/use/conditions.md."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.conditions import AllOf, AnyOf, ConditionError, event, from_json
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
def test_python_logic_on_a_condition_is_an_error_that_names_the_operators(use: Any) -> None:
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


def test_a_condition_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        a.by = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        (a & b).operands = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "$ is a NoneType"),
        ({"condition": {}}, "$.v is missing"),
        ({"v": 2, "condition": {}}, "$.v is 2: this release reads version 1"),
        ({"v": True, "condition": {}}, "$.v"),
        ({"v": 10**5000, "condition": {}}, "$.v"),
        ({"v": 1, "condition": {"all": [{"event": {}}]}}, "$.condition.all[0].event: event() without"),
        ({"v": 1, "condition": {"event": {"exact": ["x"]}}}, "$.condition.event.exact is a list"),
        ({"v": 1, "condition": {"event": {"exact": {"type": "x"}, "by": None}}}, "$.condition.event.by"),
        ({"v": 1, "condition": {"event": {"exact": {"type": "x"}}}, "x": 1}, "$ has an unknown member 'x'"),
    ],
)
def test_bad_json_is_refused_with_its_path(obj: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        from_json(obj)
    assert message in str(caught.value)
