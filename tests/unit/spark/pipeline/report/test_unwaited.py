"""Which types a matcher could accept, decided by what it requires of the type."""

from __future__ import annotations

import json

import pytest
from interlock.conditions import Condition, event, from_json
from interlock.conditions.filters import (
    All,
    Any,
    Exact,
    Not,
    Prefix,
    Sql,
    Suffix,
)
from interlock.events.plain import TYPE as PLAIN
from interlock.spark.pipeline.report.unwaited import could_accept, names_no_type, read_filters, required_types

TYPE = "com.shop.orders.done"


def accepted(condition: Condition, type_: str, source: str = "/shop") -> bool:
    """Whether one of its matchers could accept the type from the source."""
    return any(
        exact == type_ if exact is not None else could_accept(read_filters(filters or ""), type_, source)
        for exact, filters in required_types(json.dumps(condition.to_json()))
    )


@pytest.mark.parametrize(
    ("condition", "could"),
    [
        (event(TYPE), True),
        (event("another"), False),
        (event(TYPE, source="/nobody"), True),
        (event(source="/shop"), True),
        (event(filters=[Prefix(type="com.shop.")]), True),
        (event(filters=[Prefix(type="com.bank.")]), False),
        (event(filters=[Suffix(type=".done")]), True),
        (event(filters=[Prefix(type="com.bank.", source="/x")]), False),
        (event(filters=[Any(Exact(type="another"), Exact(type=TYPE))]), True),
        (event(filters=[Any(Exact(type="another"), Exact(type="third"))]), False),
        (event(filters=[Any(Exact(type="another"), Exact(source="/shop"))]), True),
        (event(filters=[Any(All(Exact(type="another"), Exact(source="/shop")), Prefix(type="org."))]), False),
        (event(filters=[Not(Exact(type=TYPE))]), False),
        (event(filters=[Not(Exact(type="another"))]), True),
        (event(filters=[Not(Exact(type=TYPE, source="/shop"))]), False),
        (event(filters=[Not(Exact(type=TYPE, source="/elsewhere"))]), True),
        (event(filters=[Not(Any(Prefix(type="com."), Exact(source="/shop")))]), False),
        (event(filters=[Sql("type = 'another'")]), False),
        (event(filters=[Sql("type = 'another' AND level > 3")]), False),
        (event(filters=[Sql(f"TYPE IN ('another', '{TYPE}') AND level > 3")]), True),
        (event(filters=[Sql("type LIKE 'com.bank.%' OR EXISTS subject")]), True),
        (event(filters=[Sql("type LIKE 'com.bank.%' AND EXISTS type")]), False),
        (event(filters=[Not(Sql(f"type = '{TYPE}'"))]), False),
        (event(filters=[Not(Sql("type = 'another'"))]), True),
        (event(filters=[Sql("source = '/bank' AND subject = 'type'")]), False),
        (event(where="event.type.startsWith('com.bank.') && data.n > 1"), False),
        (event(where="event['type'].startsWith('com.shop.') && data.n > 1"), True),
        (event(where="event.type == 'another' || event.type == 'third'"), False),
        (event(where="event.type in ['another', 'third'] && data.n > 1"), False),
        (event(where="event.source == '/bank' && data.n > 1"), False),
        (event(where="has(event.type) && data.x == 'event.type'"), True),
        (event(source="/bank"), False),
        (event(filters=[Prefix(source="/bank")]), False),
        (event(subject="x"), False),
        (event(filters=[Suffix(subject=".csv")]), False),
        (event(PLAIN, source="orders"), False),
        (event(filters=[Not(Sql("type = 'another'")), Exact(type="another")]), False),
        (event(where="event.type == 'another'"), False),
        (event(where=f"event.type == '{TYPE}' && data.n > 1"), True),
        (event(where="data.n > 1"), False),
        ((event("another") & event(TYPE)).within("1h"), True),
        ((event("another") & ~event(TYPE)).within("1h"), True),
    ],
    ids=str,
)
def test_a_type_is_waited_for_unless_no_event_of_it_could_pass(condition: Condition, could: bool) -> None:
    assert accepted(condition, TYPE) is could


@pytest.mark.parametrize(
    ("condition", "names_none"),
    [
        (event(TYPE), False),
        (event(source="/shop"), False),
        (event(subject="x"), True),
        (event(where="data.n > 1"), True),
        (event(where="event.type == 'a'"), False),
        (event(filters=[Sql("level > 3")]), True),
        (event(filters=[Sql("type LIKE 'a%'")]), False),
        ((event(TYPE) & event(subject="x")).within("1h"), True),
    ],
    ids=str,
)
def test_a_matcher_without_type_and_source_hides_no_type_and_is_counted(
    condition: Condition, names_none: bool
) -> None:
    """Regression: one matcher without a type blinded "types nobody waits for"."""
    assert names_no_type(json.dumps(condition.to_json())) is names_none
    if names_none:
        assert not accepted(condition, "com.shop.cart.touched")


@pytest.mark.parametrize(
    ("condition", "topics"),
    [
        (event(PLAIN, source="orders"), ["orders"]),
        (event(PLAIN), ["orders", "users"]),
        (event(source="users"), ["users"]),
        (event(PLAIN, filters=[Prefix(source="u")]), ["users"]),
        (event(PLAIN, where="event.source == 'orders'"), ["orders"]),
        (event(TYPE, source="orders"), []),
    ],
    ids=str,
)
def test_a_plain_topic_is_waited_for_by_its_name(condition: Condition, topics: list[str]) -> None:
    """Regression: all plain topics were one type."""
    assert [topic for topic in ("orders", "users") if accepted(condition, PLAIN, topic)] == topics


def test_an_unreadable_condition_requires_nothing() -> None:
    assert list(required_types('{"v": 99}')) == []
    assert list(required_types("no JSON")) == []


def test_a_stored_condition_is_read_whatever_new_ones_may_have() -> None:
    """A parameter's value may be longer than a source."""
    long = event(where="event.type == 'a' || data.name == param.name").bind(name="x" * 1500)
    assert accepted(long, "a")
    old = event(where="event.type == 'a' || has(event.time)").to_json()
    ordered = json.loads(json.dumps(old).replace("has(event.time)", "event.time > '2026'"))
    assert accepted(from_json(ordered), "a")
