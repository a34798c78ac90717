"""The filter dialects of CloudEvents Subscriptions, from Python and from their JSON form."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import ConditionError, event, filters
from interlock.conditions.filters import All, Exact, Filter, Not, Prefix, Sql, Suffix, Where, filter_from_json
from interlock.conditions.filters import Any as AnyOf
from interlock.conditions.filters.filter import MAX_FILTER_DEPTH, MAX_FILTER_TERMS
from interlock.events import Event

NAMES = {name: getattr(filters, name) for name in filters.__all__}
SENT = Event.of("com.shop.order", "/shop", subject="orders/1.parquet", level=4, urgent=True)


@pytest.mark.parametrize(
    ("each", "accepted"),
    [
        (Exact(type="com.shop.order"), True),
        (Exact(type="com.shop.order", urgent="true", level="4"), True),
        (Exact(type="com.shop.order", urgent="True"), False),
        (Exact(type="COM.shop.order"), False),
        (Exact(tenant="bank"), False),
        (Prefix(type="com.", subject="orders/"), True),
        (Prefix(type="com.", subject="order/"), False),
        (Prefix(type="com.shop.order."), False),
        (Prefix(tenant="b"), False),
        (Suffix(type=".order", subject=".parquet"), True),
        (Suffix(type=".order", subject=".csv"), False),
        (Suffix(tenant="k"), False),
        (All(Exact(level="4"), Prefix(type="com.")), True),
        (All(Exact(level="4"), Prefix(type="org.")), False),
        (AnyOf(Exact(level="5"), Prefix(type="com.")), True),
        (AnyOf(Exact(level="5"), Prefix(type="org.")), False),
        (Not(Exact(level="5")), True),
        (Not(Exact(level="4")), False),
        (Not(Exact(tenant="bank")), True),
        (Not(AnyOf(Exact(level="5"), Exact(level="6"))), True),
        (Sql("subject LIKE 'orders/%' AND INT(level) > 3"), True),
        (Sql("INT(level) > 4"), False),
        (Sql("level"), False),
        (Sql("INT(tenant) > 4"), False),
    ],
    ids=str,
)
def test_a_filter_accepts_or_refuses(each: Filter, accepted: bool) -> None:
    assert each.accepts(SENT) is accepted
    assert each.verdict(SENT).accepted is accepted
    assert filter_from_json(json.loads(json.dumps(each.to_json()))) == each


@pytest.mark.parametrize(
    ("each", "term", "attribute"),
    [
        (Exact(level="4", type="x"), 'Exact(type="x")', "type"),
        (All(Exact(level="4"), Prefix(subject="a/")), 'Prefix(subject="a/")', "subject"),
        (AnyOf(Exact(level="5"), Suffix(type="x")), 'Any(Exact(level="5"), Suffix(type="x"))', None),
        (Not(All(Exact(level="4"))), 'Not(All(Exact(level="4")))', None),
        (Sql("INT(level) > 4"), 'Sql("INT(level) > 4")', None),
    ],
)  # fmt: skip
def test_a_verdict_names_the_term_that_refused(each: Filter, term: str, attribute: str | None) -> None:
    assert each.verdict(SENT) == (False, None, term, attribute)
    assert not eval(term, NAMES).accepts(SENT)


def test_an_expression_that_fails_refuses_with_the_reason() -> None:
    failing = Sql("INT(subject) > 4")
    verdict = failing.verdict(SENT)
    assert not verdict.accepted
    assert verdict.term == 'Sql("INT(subject) > 4")'
    assert verdict.error is not None
    assert "'orders/1.parquet' is not an Integer" in verdict.error


def test_an_error_is_reported_even_if_another_filter_decides() -> None:
    """The dialects count a failing expression as false, so that `not` of it is true."""
    failing = Sql("INT(subject) > 4")
    error = failing.verdict(SENT).error
    assert Not(failing).verdict(SENT) == (True, error, None, None)
    assert AnyOf(failing, Exact(level="4")).verdict(SENT) == (True, error, None, None)
    assert All(Not(failing), Exact(level="5")).verdict(SENT) == (False, error, 'Exact(level="5")', "level")


def test_the_order_of_attributes_does_not_matter() -> None:
    assert Exact(type="a", source="b") == Exact(source="b", type="a") == Exact({"type": "a"}, source="b")
    assert hash(Exact(type="a", source="b")) == hash(Exact(source="b", type="a"))
    assert Exact(type="a") != Prefix(type="a")
    assert All(Exact(type="a")) != AnyOf(Exact(type="a"))


def test_an_attribute_that_is_no_keyword_of_python_is_named_in_a_dict() -> None:
    each = Prefix({"class": "a", "1st": "b", "type": "c"})
    assert str(each) == 'Prefix({"1st": "b", "class": "a", "type": "c"})'
    assert eval(str(each), NAMES) == each


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Exact(), "Exact() has no attribute"),
        (lambda: Exact({}), "Exact() has no attribute"),
        (lambda: Exact("type"), "Exact() got a str"),
        (lambda: Prefix(subject=""), "Prefix(subject='') is empty"),
        (lambda: Prefix(subject=1), "Prefix(subject=...) is an int"),
        (lambda: Suffix(subject="x" * 2049), "at most 2048"),
        (lambda: Suffix(subject="\ud800"), "is not valid Unicode"),
        (lambda: Exact(My_Ext="x"), "Exact(My_Ext=...) is not the name of an attribute"),
        (lambda: Exact({1: "x"}), "Exact(1=...) is not the name of an attribute"),
        (lambda: Exact({"data": "x"}), "Exact(data=...) is not the name of an attribute"),
        (lambda: Exact({"type": "x"}, type="y"), "attribute type is filtered twice by Exact()"),
        (lambda: All(), "All() holds no filter"),
        (lambda: AnyOf(), "Any() holds no filter"),
        (lambda: All(Exact(type="x"), {"exact": {}}), "the argument 2 of All is a dict"),
        (lambda: Not("x"), "the argument of Not is a str"),
        (lambda: Sql(1), "Sql() got an int"),
        (lambda: Sql("type ="), "type ="),
        (lambda: Sql("LENGTH(type)"), "gives a number, never true"),
        (lambda: Sql("LOWER(type)"), "gives a string, never true"),
        (lambda: Sql("NOSUCH(type)"), "fails on every event"),
        (lambda: Sql("id"), "gives a string, never true: write a comparison"),
        (lambda: Sql("(time)"), "gives a string, never true: write a comparison"),
        (lambda: Sql("level = 1 AND FALSE"), "is never true: FALSE is never true: leave it out"),
        (lambda: Sql("type = 'a' AND type = 'b'"), "type = 'a' and type = 'b' exclude each other"),
        (lambda: Sql("time > '2026-01-01T00:00:00Z'"), "Texts and times have an order in where"),
        (lambda: Sql("INT('x') = level"), "fails on every event: CastError: 'x' is not an Integer"),
        (lambda: Sql("1 = 2"), 'Sql("1 = 2") reads no attribute, so it is the same for every event'),
        (lambda: Sql("NOT TRUE"), "reads no attribute"),
        (lambda: Sql("subject = NULL"), "CESQL has no NULL: write NOT EXISTS subject for a"),
        (lambda: Sql("subject != null AND level > 3"), "CESQL has no NULL"),
        (lambda: Exact(None, type=None), "Exact(type=...) is None: give a string; booleans and integers"),
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(build: Any, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        build()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "$ must be an object with one member"),
        ({}, "$ must be an object with one member"),
        ({"exact": {"type": "x"}, "prefix": {"type": "x"}}, "$ must be an object with one member"),
        ({"regex": {"type": "x"}}, "$ has the member 'regex', which is not a filter dialect"),
        ({1: {}}, "$ has the member 1"),
        ({"exact": []}, "$.exact is a list: give an object"),
        ({"exact": {}}, "$.exact: Exact() has no attribute"),
        ({"exact": {"type": ""}}, "$.exact: Exact(type='') is empty"),
        ({"exact": {"": "x"}}, "$.exact: Exact(=...) is not the name of an attribute"),
        ({"prefix": {"type": 1}}, "$.prefix: Prefix(type=...) is an int"),
        ({"all": []}, "$.all: All() holds no filter"),
        ({"any": []}, "$.any: Any() holds no filter"),
        ({"all": {"exact": {"type": "x"}}}, "$.all is a dict: give a list of filters"),
        (
            {"all": [{"any": [{"not": {"suffix": {"type": ""}}}]}]},
            "$.all[0].any[0].not.suffix: Suffix(type='')",
        ),
        ({"not": [{"exact": {"type": "x"}}]}, "$.not must be an object"),
        ({"sql": {"expression": "TRUE"}}, "$.sql: Sql() got a dict"),
        ({"sql": "TRUE AND"}, "$.sql: "),
    ],
)
def test_bad_json_is_refused_with_its_path(obj: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        filter_from_json(obj)
    assert str(caught.value).startswith(message)


def test_filters_are_limited_in_terms() -> None:
    many = [Exact(subject=str(number)) for number in range(MAX_FILTER_TERMS - 1)]
    assert AnyOf(*many).terms == MAX_FILTER_TERMS
    with pytest.raises(ConditionError, match="257 terms: at most 256"):
        AnyOf(*many, Exact(type="x"))
    with pytest.raises(ConditionError, match="257 terms"):
        Exact({f"a{number}": "x" for number in range(257)})
    with pytest.raises(ConditionError, match="more than 256 terms"):
        filter_from_json({"any": [{"exact": {"type": "x"}}] * 100_000})


def test_filters_are_limited_in_depth() -> None:
    each: Filter = Exact(type="x")
    for _ in range(MAX_FILTER_DEPTH - 1):
        each = Not(each)
    assert each.depth == MAX_FILTER_DEPTH
    for build in (Not, All, AnyOf):
        with pytest.raises(ConditionError, match="17 levels deep: at most 16"):
            build(each)
    deep: Any = {"exact": {"type": "x"}}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(ConditionError, match="more than 16 levels"):
        filter_from_json(deep)
    while "not" in deep:  # one level at a time, because CPython frees nested objects recursively
        deep = deep["not"]


def test_a_filter_cannot_be_changed() -> None:
    held = (Exact(type="x"), "pairs"), (Not(Exact(type="x")), "filter"), (All(Exact(type="x")), "filters")
    for each, name in (*held, (Sql("EXISTS a"), "expression")):
        with pytest.raises(AttributeError):
            setattr(each, name, None)


names = st.sampled_from(["type", "source", "subject", "tenant", "class", "1st", "x1"])
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)
wanted = st.dictionaries(names, texts, min_size=1, max_size=3)
leaves = st.one_of(
    *(wanted.map(kind) for kind in (Exact, Prefix, Suffix)),
    st.sampled_from(["EXISTS id", "INT(tenant) > 1", "EXISTS subject", "type = 'a'"]).map(Sql),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: All(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(*parts)),
    ),
    max_leaves=8,
)


@given(trees)
def test_every_form_of_a_filter_builds_it_again(each: Filter) -> None:
    assert filter_from_json(json.loads(json.dumps(each.to_json()))) == each
    assert eval(str(each), NAMES) == each
    assert pickle.loads(pickle.dumps(each)) == copy.deepcopy(each) == each
    assert hash(filter_from_json(each.to_json())) == hash(each)


events = st.dictionaries(st.sampled_from(["subject", "tenant", "class", "1st"]), texts, max_size=3)


@given(trees, events, texts)
def test_accepts_and_the_verdict_agree_and_nothing_is_raised(
    each: Filter, attributes: dict[str, str], event_type: str
) -> None:
    sent = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": event_type, **attributes})
    verdict = each.verdict(sent)
    assert each.accepts(sent) == verdict.accepted
    assert (verdict.term is None) == verdict.accepted
    if verdict.term is not None:
        assert not eval(verdict.term, NAMES).accepts(sent)


@pytest.mark.parametrize("group", [All, AnyOf, Not])
def test_a_where_has_no_place_among_the_dialects(group: type[Filter]) -> None:
    with pytest.raises(ConditionError, match=r"CloudEvents has no dialect.*event\(where="):
        group(Where("data.x > 1"))  # type: ignore[call-arg]


def test_an_expression_with_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ConditionError, match="is not valid Unicode"):
        Sql("type = '\ud800'")


A, B, C = Prefix(subject="a"), Suffix(subject="b"), Exact(type="c")


@pytest.mark.parametrize(
    ("joined", "meant"),
    [
        (A & B, All(A, B)),
        (A | B, AnyOf(A, B)),
        (~A, Not(A)),
        (~~A, A),
        (A & B & C, All(A, B, C)),
        (A | (B | C), AnyOf(A, B, C)),
        (A & (B | ~C), All(A, AnyOf(B, Not(C)))),
    ],
)
def test_operators_build_groups(joined: Filter, meant: Filter) -> None:
    assert joined == meant


@pytest.mark.parametrize(
    "use", [bool, lambda each: each and A, lambda each: each or A, lambda each: not each]
)
def test_a_filter_is_neither_true_nor_false(use: Any) -> None:
    for each in (A, Not(A), A | B, Sql("EXISTS a"), Where("data.x")):
        with pytest.raises(ConditionError, match=r"neither true nor false.*join filters with & and \|.* ~"):
            use(each)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: A & event("t"), "the right side of & is a condition, and the other side a filter"),
        (lambda: A | event("t"), "the right side of | is a condition"),
        (lambda: A & 5, "the right side of & is an int: give a filter"),
        (lambda: None | A, "the left side of | is None: give a filter"),
        (lambda: {"exact": {"type": "x"}} & A, "the left side of & is a dict: give a filter"),
        (lambda: A & Where("data.x"), "event(where=...) beside filters"),
        (lambda: Where("data.x") | A, "event(where=...) beside filters"),
        (lambda: ~Where("data.x"), "event(where=...) beside filters"),
        (lambda: All(A, event("t")), "put the filter into a matcher, event(filters=[...])"),
    ],
)  # fmt: skip
def test_operators_take_filters_only(build: Any, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        build()
    assert message in str(caught.value)


def test_a_condition_takes_no_filter_as_its_operand() -> None:
    for build in (lambda: event("t") & A, lambda: event("t") | A):  # type: ignore[operator]
        with pytest.raises(ConditionError, match="right side of"):
            build()
