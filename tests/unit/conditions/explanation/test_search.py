"""The search for near misses: which come first, how many are shown, and its limits."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from interlock.conditions import (
    EMPTY,
    Matcher,
    Seen,
    dag_run,
    day,
    event,
    explain,
)
from interlock.conditions.explanation import search
from interlock.conditions.filters import Prefix
from interlock.events import Event
from interlock.testing import dag_run_end

from .near_noon import DAY, NOON, NOON_MS, misses_of, rates, sent


def test_events_that_counted_before_do_not_crowd_out_the_one_that_a_term_refused() -> None:
    """A durable subscription of which a thousand events fired, and one failed a term."""
    matcher = event("com.bank.rates", where="data.rows > 0", label="rates")
    old = [sent(f"d{number}", minutes=number, data={"rows": 5}) for number in range(9)]
    refused = sent("refused", minutes=-60, data={"rows": 0})
    fired = {each.identity: "firing f" for each in old}
    explanation = explain(matcher, EMPTY, NOON_MS, [*old, refused], fired=fired)
    [found] = explanation.near_misses
    assert [miss.event.id for miss in found.misses] == ["refused", "d8", "d7"]
    assert found.counted == found.to_json()["counted"] == 7
    assert "  - 7 more that counted before\n" in str(explanation)


def test_the_closest_come_first_and_of_these_the_latest() -> None:
    matcher = event("com.bank.rates", subject="eur", tenant="x", by="data.day")
    today = {"data": {"day": DAY}}
    events = [
        sent("two terms", subject="usd", tenant="y", **today),
        sent("one term", minutes=1, subject="usd", tenant="x", **today),
        sent("one term, later", minutes=2, subject="usd", tenant="x", **today),
        sent("another type", "com.bank.rate", minutes=3, subject="eur", tenant="x", **today),
        sent("another key", subject="eur", tenant="x", data={"day": 1}),
        sent("no key", subject="eur", tenant="x"),
        sent("fits", subject="eur", tenant="x", **today),
    ]
    ids = [miss.event.id for miss in misses_of(matcher, events, DAY, most=9)]
    assert ids == [
        "fits", "no key", "another key", "one term, later", "one term", "two terms", "another type",
    ]  # fmt: skip


def test_events_of_other_keys_do_not_crowd_out_the_one_that_a_term_refused() -> None:
    matcher = event("com.bank.rates", by="data.day", where="data.rows > 0", label="rates")
    days = [
        sent(f"d{day}", minutes=30 + day, data={"day": f"2026-11-{day:02}", "rows": 5}) for day in range(1, 9)
    ]
    empty = sent("yesterday, empty", data={"day": "2026-11-19", "rows": 0})
    today = sent("today", data={"day": DAY, "rows": 0})
    explanation = explain(matcher, EMPTY, NOON_MS, [*days, empty, today], DAY)
    [found] = explanation.near_misses
    assert [miss.event.id for miss in found.misses] == ["today", "d8", "d7"]
    assert found.other_keys == found.to_json()["other_keys"] == 7
    assert "  - 7 more of other keys\n" in str(explanation)
    nothing = explain(matcher, EMPTY, NOON_MS, days, DAY, near_misses=0)
    assert "near misses of rates:\n  - 8 of other keys\n" in str(nothing)


@pytest.mark.parametrize(
    "wanted",
    [
        event("com.bank.rates", source="/bank", where="data.rows > 0"),
        event("com.bank.rates", source="/bank", filters=[Prefix(subject="eur/")]),
        event("com.bank.rates", source="/bank", subject="eur"),
        event("com.bank.rates", source="/bank", subject="eur", tenant="x", where="data.rows > 0"),
    ],
    ids=["where", "prefix", "subject", "two terms"],
)
def test_events_of_another_source_do_not_crowd_out_the_one_that_a_term_refused(wanted: Matcher) -> None:
    """Many events of the same type from another source, and an earlier one of the right source."""
    others = [
        Event.of(
            "com.bank.rates", "/other", id=str(n), time=NOON + timedelta(minutes=n), subject="eur/1",
            data={"rows": 0},
        )
        for n in range(1, 20)
    ]  # fmt: skip
    right = sent("right", subject="usd", data={"rows": 0})
    assert misses_of(wanted, [*others[::-1], right])[0].event.id == "right"


def test_events_of_another_subject_do_not_crowd_out_the_one_that_a_predicate_refused() -> None:
    """A predicate is evaluated for the right subject alone, so it counts as refused for others."""
    matcher = event("com.bank.rates", subject="eur", where="data.rows > 0")
    others = [sent(str(n), minutes=n, subject="usd", data={"rows": 5}) for n in range(1, 20)]
    right = sent("right", subject="eur", data={"rows": 0})
    assert misses_of(matcher, [*others, right])[0].event.id == "right"


def test_a_value_that_looks_like_the_wanted_one_is_not_crowded_out() -> None:
    """Events refused by a predicate every minute, and one whose subject has a space too many."""
    matcher = event("com.bank.rates", subject="eur", where="data.rows > 0")
    refused = [sent(str(n), minutes=n, subject="eur", data={"rows": 0}) for n in range(1, 20)]
    right = sent("right", subject="eur ", data={"rows": 5})
    assert "right" in [miss.event.id for miss in misses_of(matcher, [*refused, right])]


def test_runs_of_the_awaited_dag_come_before_those_of_other_dags_and_the_nearest_days_first() -> None:
    """Other DAGs end on the awaited day as well: their runs hid the days around it."""
    awaited = dag_run("rates", by=day("logical_date", tz="UTC"))
    days = ["2026-11-19", "2026-11-21", "2026-09-01", "2026-09-02"]
    own = [dag_run_end("rates", logical_date=f"{each}T05:00:00Z", run_id=each, at=NOON) for each in days]
    others = [dag_run_end(f"dag_{n}", logical_date=f"{DAY}T05:00:00Z", at=NOON) for n in range(9)]
    found = misses_of(awaited, [*own, *others], DAY)
    assert {miss.key for miss in found[:2]} == {"2026-11-19", "2026-11-21"}
    assert [miss.attribute for miss in found[2:]] == ["subject"] * 3


def test_a_mistyped_dag_is_not_crowded_out_by_others() -> None:
    awaited = dag_run("orders_load", by=day("logical_date", tz="UTC"))
    meant = dag_run_end("orders_loads", logical_date=f"{DAY}T05:00:00Z", at=NOON)
    others = [dag_run_end(f"dag_{n}", logical_date=f"{DAY}T06:00:00Z", at=NOON) for n in range(9)]
    assert misses_of(awaited, [*others, meant], DAY)[0].value == "orders_loads"


@pytest.mark.parametrize(
    ("near", "far", "wanted"),
    [
        ("2026-W46", "2026-W40", "2026-W47"),
        ("2026-10", "2026-01", "2026-11"),
        ("2026-11-20T04:00:00Z", "2026-11-19T05:00:00Z", "2026-11-20T05:00:00Z"),
        ("8", "-9", "7"),
    ],
)
def test_of_other_keys_the_nearest_are_shown(near: str, far: str, wanted: str) -> None:
    events = [sent(f"{far} {n}", minutes=n + 1, data={"day": far}) for n in range(3)]
    assert misses_of(rates, [*events, sent("near", data={"day": near})], wanted)[0].event.id == "near"


def test_a_key_that_looks_like_the_wanted_one_comes_before_other_keys() -> None:
    """Two events of other keys are shown: not two of yesterday, but the one with a space too many."""
    matcher = event("com.bank.rates", by="subject")
    others = [sent(str(n), minutes=n, subject=f"k{n}") for n in range(1, 20)]
    assert misses_of(matcher, [*others, sent("right", subject="k ")], "k")[0].event.id == "right"


def test_of_several_records_with_one_id_the_closest_is_shown() -> None:
    """A later record of another source's form does not hide the one that a single term refused."""
    matcher = event("com.bank.rates", subject="eur", tenant="x")
    latest, first = sent(subject="usd", tenant="y"), sent(subject="usd", tenant="x")
    assert [miss.refused for miss in misses_of(matcher, [latest, first])] == [1]


def test_near_misses_of_a_matcher_are_limited() -> None:
    matcher = event("com.bank.rates", subject="eur")
    events = [sent(str(number), minutes=number) for number in range(20)]
    assert len(misses_of(matcher, events)) == 5
    assert [miss.event.id for miss in misses_of(matcher, events, most=2)] == ["19", "18"]
    assert not misses_of(matcher, events, most=0)


def test_a_repeated_event_is_shown_once() -> None:
    assert len(misses_of(event("com.bank.rates", subject="eur"), [sent(), sent(), sent()])) == 1


def test_a_million_events_stop_at_the_bound_and_the_text_says_so() -> None:
    events = (sent(str(number)) for number in itertools.count())
    explanation = explain(event("com.bank.rates", subject="eur"), EMPTY, NOON_MS, events)
    assert (explanation.looked_at, explanation.complete) == (search.MAX_EVENTS, False)
    assert str(explanation).endswith("10000 events searched, and there are more")


def test_costly_terms_end_the_search_earlier() -> None:
    events = (sent(str(number), data={"rows": 0}) for number in itertools.count())
    explanation = explain(event("com.bank.rates", where="data.rows > 0"), EMPTY, NOON_MS, events)
    assert explanation.looked_at < search.MAX_TERMS / search.EXPRESSION_TERMS
    assert not explanation.complete


def test_large_data_stops_the_search_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_DATA_BYTES", 1000)
    events = [sent(str(number), data={"day": "x" * 400}) for number in range(10)]
    assert explain(rates, EMPTY, NOON_MS, events, DAY).looked_at == 3
    assert explain(event("other", label="x"), EMPTY, NOON_MS, events).looked_at == 10


def test_data_that_no_term_reads_stops_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter whose text looks like a `where` counted as one."""
    monkeypatch.setattr(search, "MAX_DATA_BYTES", 1000)
    matcher = event("com.bank.rates", filters=[Prefix(subject="Where(")])
    events = [sent(str(number), data={"day": "x" * 400}) for number in range(10)]
    assert explain(matcher, EMPTY, NOON_MS, events).looked_at == 10


def test_exactly_as_many_events_as_the_bound_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_EVENTS", 3)
    events = [sent(str(number)) for number in range(3)]
    assert explain(rates, EMPTY, NOON_MS, events).complete


@pytest.mark.parametrize(
    "thing",
    [None, 3, "x", object(), Event({"id": "1"}), Event({"id": 1, "source": "/s"}), Seen(None)],  # type: ignore[arg-type]
)
def test_a_thing_that_is_not_an_event_is_counted_and_skipped(thing: object) -> None:
    explanation = explain(event("com.bank.rates", subject="e"), EMPTY, NOON_MS, [thing, sent()])
    assert (explanation.unreadable, explanation.looked_at) == (1, 1)
    assert "1 event searched, 1 unreadable" in str(explanation)


def test_the_failure_of_the_run_whose_success_is_awaited_is_shown() -> None:
    """A wait for a DAG whose run had failed said that nothing nearly matched."""
    awaited = dag_run("load", by="ds")
    runs = [
        dag_run_end("load", "failed", logical_date=f"2026-11-{day}T00:00:00Z", run_id=str(day), at=NOON)
        for day in (19, 20)
    ]
    other = dag_run_end("save", "failed", logical_date="2026-11-20T00:00:00Z", at=NOON)
    [miss] = misses_of(awaited, [*runs, other], DAY)
    assert (miss.attribute, miss.value) == ("type", "interlock.airflow.dag_run.failed")
    assert miss.event.id == runs[1].id
    orders = event(
        "com.shop.orders.done", by="data.day", label="orders"
    )  # it names neither subject nor source
    assert misses_of(orders, [sent(type_="com.shop.orders.made", data={"day": DAY})], DAY) == ()
