"""Matchers that accept no event (M13): they parsed, and waited for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interlock import Event, absent, at_least, count, event, param
from interlock.conditions import Condition, ConditionError
from interlock.conditions.filters import All, Exact, Filter, Not, Prefix, Sql, Suffix
from interlock.conditions.filters import Any as AnyOf
from interlock.conditions.filters.together import why_none_passes
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
    "two Sql": lambda: event("t", filters=[Sql("subject = 'a'"), Sql("subject = 'b'")]),
    "a prefix and Sql": lambda: event("t", filters=[Prefix(subject="eu/"), Sql("subject = 'us/1'")]),
    "a suffix with signs and Sql": lambda: event("t", filters=[Suffix(subject="_%"), Sql("subject = 'a_b'")]),
    "Not and Sql": lambda: event("t", filters=[Not(Exact(level="5")), Sql("level LIKE '5'")]),
    "Any and Sql": lambda: event(
        "t", filters=[AnyOf(Exact(level="5"), Prefix(level="6")), Sql("level = 'x'")]
    ),
    "values, All and Sql": lambda: event(
        "t", level="5", filters=[All(Prefix(subject="a"), Sql("level > 5 OR subject = 'b'"))]
    ),
    "arithmetic of two Sql": lambda: event("t", filters=[Sql("level >= 6"), Sql("level * 2 = 10")]),
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
    "where with a loop whose variable is event": lambda: event(
        "t", where="event.type == 't' && data.l.exists(event, event.type == 'u')"
    ),
    "where with has of the value": lambda: event("t", where="has(event.type) && event.type == 't'"),
    "where or": lambda: event("t", where="event.type == 'u' || data.x == 1"),
    "Sql with the value": lambda: event("t", filters=[Sql("type = 't'")]),
    "Sql or": lambda: event("t", filters=[Sql("type = 'u' OR level = 1")]),
    "a value with a quote": lambda: event("it's", filters=[Sql("type = 'it\\'s'")]),
    "Not of Sql, a value with a quote": lambda: event("it's", filters=[Not(Sql("type = 'u'"))]),
    "a parameter": lambda: event(param("t"), filters=[Prefix(type="u")]),
    "two Sql": lambda: event("t", filters=[Sql("subject LIKE 'a%'"), Sql("subject LIKE '%b'")]),
    "a prefix and Sql": lambda: event("t", filters=[Prefix(subject="eu/"), Sql("subject = 'eu/1'")]),
    "a prefix with a backslash at its end": lambda: event(
        "t", filters=[Prefix(subject="a\\"), Sql("subject LIKE '%x'")]
    ),
    "a prefix with signs": lambda: event("t", filters=[Prefix(subject="a_%"), Sql("subject = 'a_%b'")]),
    "Not of a missing attribute": lambda: event(
        "t", filters=[Not(Prefix(level="5")), Sql("NOT EXISTS level")]
    ),
    "Not of Sql that may fail": lambda: event("t", filters=[Not(Sql("level > 5")), Sql("level = 'x'")]),
    "Any of Sql that may fail": lambda: event(
        "t", filters=[AnyOf(Sql("level > 5"), Exact(level="x")), Sql("level = 'x'")]
    ),
    "a parameter and Sql": lambda: event("t", subject=param("p"), filters=[Sql("subject = 'x'")]),
    "an empty extension": lambda: event("t", filters=[Sql("level = ''")]),
    "an extension that stands for a number": lambda: event(
        "t", level="5", filters=[Sql("'05' = level AND EXISTS foo")]
    ),
    "an extension that stands for a Boolean": lambda: event(
        "t", level="1", filters=[Sql("level AND EXISTS foo")]
    ),
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
    ("condition", "values", "key", "expected_text"),
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
    condition: Condition, values: Mapping[str, Any], key: str | None, expected_text: str
) -> None:
    given: dict[str, Any] = {} if key is None else {"key": key}
    with pytest.raises(ConditionError, match=expected_text):
        EventSensor(task_id="wait", condition=condition, param_values=values, **given)
    unknown = dict.fromkeys(values, "{{ dag_run.conf['p'] }}")
    EventSensor(task_id="wait", condition=condition, param_values=unknown, **given)


X, A, B = event("a", subject="x"), event("a"), event("b")
REFUTED: dict[str, Callable[[], Condition]] = {
    "attributes": lambda: (X & ~A).within("1h"),
    "in a period": lambda: (X & ~A).resets("@daily"),
    "a prefix": lambda: (X & ~event(filters=[Prefix(subject="x")])).within("1h"),
    "the same filter and less": lambda: (
        event("a", filters=[Sql("level > 5"), Prefix(subject="x")]) & ~event("a", filters=[Sql("level > 5")])
    ).within("1h"),
    "the same predicate": lambda: (
        event("a", subject="x", where="data.n > 1") & ~event("a", where="data.n > 1")
    ).within("1h"),
    "keys": lambda: (event("a", subject="x", by="data.k") & ~event("a", by="data.k")).within("1h"),
    "one of two": lambda: ((X & B) & ~A).within("1h"),
    "each side of |": lambda: ((X | event("a", subject="y")) & ~A).within("1h"),
    "too few are left": lambda: (at_least(2, X, event("a", subject="y"), B) & ~A).within("1h"),
    "several events": lambda: (count(X, 2) & ~A).within("1h"),
    "one of several negated": lambda: (X & ~(B | A)).within("1h"),
}
NOT_REFUTED: dict[str, Callable[[], Condition]] = {
    "another type": lambda: (X & ~B).within("1h"),
    "more attributes": lambda: (A & ~X).within("1h"),
    "another predicate": lambda: (X & ~event("a", where="data.n > 1")).within("1h"),
    "other keys": lambda: (event("a", subject="x", by="data.k") & ~event("a", by="data.l")).within("1h"),
    "one side of |": lambda: ((X | B) & ~A).within("1h"),
    "enough are left": lambda: (at_least(1, X, B) & ~A).within("1h"),
    "a filter": lambda: (X & ~event("a", filters=[Sql("level > 5")])).within("1h"),
}


@pytest.mark.parametrize("name", REFUTED)
def test_a_window_whose_negation_accepts_what_it_requires_is_an_error(name: str) -> None:
    """E10: an event that both accept refutes its own window (E5), so it never fired."""
    with pytest.raises(ConditionError, match=r"could never be met: its ~ also negates each event of"):
        check_can_be_met(REFUTED[name]())


@pytest.mark.parametrize("name", NOT_REFUTED)
def test_a_window_whose_negation_leaves_some_events_is_none(name: str) -> None:
    check_can_be_met(NOT_REFUTED[name]())


TOO_SHORT: dict[str, Callable[[], Condition]] = {
    "quiet": lambda: A.quiet("2h").expires("1h", armed_by="event"),
    "absent": lambda: absent(A, "2h").expires("1h", armed_by="event"),
    "beside another": lambda: (A.quiet("2h") & B).expires("1h", armed_by="event"),
    "both sides": lambda: (A.quiet("2h") | absent(B, "3h")).expires("1h", armed_by="event"),
    "two of three": lambda: at_least(2, A.quiet("2h"), absent(B, "3h"), X).expires("1h", armed_by="event"),
    "ordered": lambda: A.quiet("2h").ordered().expires("1h", armed_by="event"),
}
LONG_ENOUGH: dict[str, Callable[[], Condition]] = {
    "as long": lambda: A.quiet("1h").expires("1h", armed_by="event"),
    "from the start of the wait": lambda: A.quiet("2h").expires("1h"),
    "watched from the start": lambda: absent(A, "2h", armed_by="subscription").expires(
        "1h", armed_by="event"
    ),
    "another side": lambda: (A.quiet("2h") | B).expires("1h", armed_by="event"),
    "a window, by the times of events": lambda: (A & ~B).within("2h").expires("1h", armed_by="event"),
    "at": lambda: A.quiet("2h").expires(at="2026-11-20T00:00:00Z", armed_by="event"),
}


@pytest.mark.parametrize("name", TOO_SHORT)
def test_an_expiry_that_always_comes_before_its_condition_is_an_error(name: str) -> None:
    with pytest.raises(ConditionError, match=r"so it would always expire\. Give at least after="):
        check_can_be_met(TOO_SHORT[name]())


@pytest.mark.parametrize("name", LONG_ENOUGH)
def test_an_expiry_after_which_the_condition_may_be_met_is_none(name: str) -> None:
    check_can_be_met(LONG_ENOUGH[name]())


VALUES = st.sampled_from(["a", "ab", "b", "5", "a_", "%b", "a\\"])
NAMES = st.sampled_from(["subject", "level"])
COMPARED = st.builds(
    lambda kind, name, value: kind({name: value}), st.sampled_from([Exact, Prefix, Suffix]), NAMES, VALUES
)
EXPRESSIONS = st.sampled_from(
    [
        Sql(text)
        for text in (
            "subject = 'a'", "level > 4", "level = 5", "level LIKE 'a%'", "NOT EXISTS level",
            "subject != 'ab'", "level IN ('a', 'b')", "NOT (subject LIKE '%b')", "level = subject",
        )
    ]
)  # fmt: skip
FILTERS = st.recursive(
    COMPARED | EXPRESSIONS,
    lambda inner: st.builds(Not, inner) | st.builds(All, inner, inner) | st.builds(AnyOf, inner, inner),
    max_leaves=4,
)
TEXTS = [None, "a", "ab", "b", "5", "6", "a_", "a_b", "%b", "a\\", "a\\b", "a%", "x"]
SENT = [
    Event.of("t", "/s", id="1", **{name: value for name, value in given.items() if value is not None})
    for given in ({"subject": subject, "level": level} for subject in TEXTS for level in TEXTS)
]


@given(st.lists(FILTERS, min_size=2, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_filters_that_an_event_passes_are_never_refused(filters: list[Filter]) -> None:
    if why_none_passes({"type": "t"}, filters) is not None:
        assert not any(all(each.accepts(sent) for each in filters) for sent in SENT)
