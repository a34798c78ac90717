"""Matchers that accept no event (M13): they parsed, and waited for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from interlock import event, param
from interlock.conditions import Condition, ConditionError
from interlock.conditions.filters import All, Exact, Not, Prefix, Sql, Suffix
from interlock.conditions.filters import Any as AnyOf
from interlock.conditions.nodes.reachable import check_can_be_met
from interlock.operators import EventSensor, dispatch_dag
from interlock.triggers.asset import ConditionTrigger

NEVER: dict[str, Callable[[], Condition]] = {
    "a time that is none": lambda: event("t", time="2026-11-20"),
    "a source that is none": lambda: event("t", source="a b"),
    "a schema that is none": lambda: event("t", dataschema="v1"),
    "a content type that is none": lambda: event("t", datacontenttype="JSON"),
    "another version": lambda: event("t", specversion="0.3"),
    "a line break": lambda: event("t", subject="a\nb"),
    "a value and a prefix": lambda: event("t", subject="a", filters=[Prefix(subject="b")]),
    "a value and a suffix": lambda: event("t", subject="a", filters=[Suffix(subject="b")]),
    "a value and its Not": lambda: event("t", subject="a", filters=[Not(Exact(subject="a"))]),
    "a value and Any": lambda: event("t", filters=[AnyOf(Exact(type="u"), Exact(type="v"))]),
    "a value in All of Any": lambda: event("t", filters=[AnyOf(All(Exact(type="u"), Exact(subject="a")))]),
    "a value and where": lambda: event("t", where="event.type == 'u'"),
    "a value and a part of where": lambda: event("t", where="data.x == 1 && event.type.startsWith('u')"),
    "a value and Sql": lambda: event("t", filters=[Sql("type = 'u'")]),
    "a value and a part of Sql": lambda: event("t", filters=[Sql("level = 1 AND type LIKE 'u%'")]),
    "a value with a quote and Sql": lambda: event("it's", filters=[Sql("type = 'u'")]),
    "two prefixes": lambda: event("t", filters=[Prefix(subject="a"), Prefix(subject="b")]),
    "two suffixes": lambda: event("t", filters=[Suffix(subject=".csv"), Suffix(subject=".txt")]),
    "a third prefix": lambda: event(
        "t", filters=[Prefix(subject="a"), Prefix(subject="ab"), Prefix(subject="ac")]
    ),
    "below other nodes": lambda: (event("t", time="noon") & event("u")).within("1h").expires(after="1h"),
}
MAY: dict[str, Callable[[], Condition]] = {
    "valid values": lambda: event(
        "t", source="/a", time="2026-11-20T00:00:00Z", dataschema="urn:a", datacontenttype="text/plain"
    ),
    "a content type of a plain record": lambda: event("t", datacontenttype="a/b; odd thing"),
    "a value and its prefix": lambda: event("t", subject="ab", filters=[Prefix(subject="a")]),
    "a longer prefix": lambda: event("t", filters=[Prefix(subject="a"), Prefix(subject="ab")]),
    "a prefix and a suffix": lambda: event("t", filters=[Prefix(subject="a"), Suffix(subject="b")]),
    "another Not": lambda: event("t", subject="a", filters=[Not(Exact(subject="b"))]),
    "Any with the value": lambda: event("t", filters=[AnyOf(Exact(type="u"), Exact(type="t"))]),
    "where with the value": lambda: event("t", where="event.type == 't' || data.x == 1"),
    "where or": lambda: event("t", where="event.type == 'u' || data.x == 1"),
    "Sql with the value": lambda: event("t", filters=[Sql("type = 't'")]),
    "Sql or": lambda: event("t", filters=[Sql("type = 'u' OR level = 1")]),
    "a value with a quote": lambda: event("it's", filters=[Sql("type = 'it\\'s'")]),
    "Not of Sql, a value with a quote": lambda: event("it's", filters=[Not(Sql("type = 'u'"))]),
    "a parameter": lambda: event(param("t"), filters=[Prefix(type="u")]),
    "an empty extension": lambda: event("t", filters=[Sql("level = ''")]),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_matcher_that_accepts_no_event_is_an_error(name: str) -> None:
    with pytest.raises(ConditionError, match="accepts no event: "):
        check_can_be_met(NEVER[name]())


@pytest.mark.parametrize("name", MAY)
def test_a_matcher_that_may_accept_an_event_is_none(name: str) -> None:
    check_can_be_met(MAY[name]())


@pytest.mark.parametrize(
    "make",
    [
        lambda never: EventSensor(task_id="wait", condition=never),
        lambda never: EventSensor(task_id="wait", condition=event("t"), fail_on=never),
        lambda never: EventSensor.partial(task_id="wait").expand(condition=[never]),
        lambda never: dispatch_dag("d", condition=never, trigger_dag_id="x"),
        lambda never: ConditionTrigger(name="n", condition=never),
    ],
    ids=["condition", "fail_on", "mapped", "dispatch_dag", "ConditionTrigger"],
)
def test_it_is_an_import_error_of_the_dag_file(make: Callable[[Condition], object]) -> None:
    with pytest.raises(ConditionError, match="accepts no event: Prefix"):
        make(event("t", subject="a", filters=[Prefix(subject="b")]))


@pytest.mark.parametrize(
    ("condition", "values", "key", "told"),
    [
        (event(param("p"), tenant="x"), {"p": "org.apache.kafka.record"}, None, "has no attribute tenant"),
        (event("t", subject=param("p"), filters=[Prefix(subject="a")]), {"p": "b"}, None, "accepts no event"),
        (event("t", source=param("p")), {"p": "a b"}, None, "accepts no event"),
        (
            event(param("p"), by="data.logical_date"),
            {"p": "interlock.airflow.dag_run.succeeded"},
            "{{ ds }}",
            "they are never equal",
        ),
        (event("t", subject=param("p"), by="subject"), {"p": "eu"}, "us", "they are never equal"),
    ],
)
def test_values_of_parameters_that_are_known_are_checked_as_if_they_were_written(
    condition: Condition, values: Mapping[str, Any], key: str | None, told: str
) -> None:
    given: dict[str, Any] = {} if key is None else {"key": key}
    with pytest.raises(ConditionError, match=told):
        EventSensor(task_id="wait", condition=condition, param_values=values, **given)
    unknown = dict.fromkeys(values, "{{ dag_run.conf['p'] }}")
    EventSensor(task_id="wait", condition=condition, param_values=unknown, **given)
