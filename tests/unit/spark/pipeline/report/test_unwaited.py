"""Which types a matcher could accept, decided by what it requires of the type."""

from __future__ import annotations

import json

import pytest
from interlock.conditions import Condition, event
from interlock.conditions.filters import All, Any, Exact, Not, Prefix, Sql, Suffix, filter_from_json
from interlock.spark.pipeline.report.unwaited import could_accept, required_types

TYPE = "com.shop.orders.done"


def accepted(condition: Condition, type_: str) -> bool:
    """Whether one of its matchers could accept the type."""
    return any(
        exact == type_
        if exact is not None
        else could_accept(map(filter_from_json, json.loads(filters or "")), type_)
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
        (event(filters=[Not(Exact(type=TYPE, source="/shop"))]), True),
        (event(filters=[Not(Any(Prefix(type="com."), Exact(source="/shop")))]), False),
        (event(filters=[Sql("type = 'another'")]), True),
        (event(filters=[Not(Sql("type = 'another'")), Exact(type="another")]), False),
        (event(where="event.type == 'another'"), False),
        (event(where=f"event.type == '{TYPE}' && data.n > 1"), True),
        (event(where="data.n > 1"), True),
        ((event("another") & event(TYPE)).within("1h"), True),
        ((event("another") & ~event(TYPE)).within("1h"), True),
    ],
    ids=str,
)
def test_a_type_is_waited_for_unless_no_event_of_it_could_pass(condition: Condition, could: bool) -> None:
    assert accepted(condition, TYPE) is could


def test_an_unreadable_condition_requires_nothing() -> None:
    assert list(required_types('{"v": 99}')) == []
    assert list(required_types("no JSON")) == []
