"""Matching: keys, matchers, near misses; and the columns it reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interlock.conditions import Condition, event
from interlock.conditions.filters.dialects import Exact, Not, Prefix, Sql
from interlock.events import Event
from interlock.spark.pipeline.backtest.columns import ReadColumns
from interlock.spark.pipeline.backtest.misses import Misses
from interlock.spark.pipeline.backtest.question import Question
from interlock.spark.pipeline.rows import type_key

from .logs import Entry, read

ORDERS = event("orders", by="data.day", label="orders")
RATES = event("rates", by="subject", label="rates", where="data.amount > 10")


def entry(number: int, type_: str, data: object = None, **more: Any) -> Entry:
    return Entry(Event.of(type_, "/s", id=str(number), data=data, **more), "t", 0, number, 1000 + number)


def notes(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [json.loads(row[-1]) for row in rows if row[-1] is not None]


def reached(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """(key, id, numbers)"""
    return [(row[0], row[7], row[5]) for row in rows if row[-1] is None]


def asked(condition: Condition, key: str | None = None, near_misses: int = 5) -> Question:
    return Question.of(condition, key, near_misses=near_misses)


def test_an_event_has_a_row_for_each_key_with_the_matchers_that_accept_it() -> None:
    both = event("orders", by="subject", label="by subject") & event("orders", by="data.day", label="by day")
    rows = read(
        asked(both),
        [entry(1, "orders", {"day": "d1"}, subject="s1"), entry(2, "orders", {"day": "d2"}, subject="d2")],
    )
    assert sorted(reached(rows)) == [("d1", "1", "1"), ("d2", "2", "0,1"), ("s1", "1", "0")]


def test_a_wait_for_a_key_matches_events_of_that_key_and_events_without_one() -> None:
    condition = ORDERS & event("go", label="go")
    rows = read(
        asked(condition, "d1"),
        [entry(1, "orders", {"day": "d1"}), entry(2, "orders", {"day": "d2"}), entry(3, "go")],
    )
    assert sorted(reached(rows)) == [("d1", "1", "0"), ("d1", "3", "1")]
    [miss] = notes(rows)
    assert (miss["label"], miss["why"], miss["count"]) == ("orders", "key", 1)


def test_near_misses_are_the_first_of_each_reason_and_the_count_of_all() -> None:
    rows = read(
        asked(ORDERS & RATES, near_misses=2),
        [entry(n, "rates", {"amount": n}, subject="s") for n in (5, 3, 4, 2, 11)]
        + [entry(20, "orders", {"no day": 1}), entry(21, "Orders", {"day": "d"}), entry(22, "other")],
    )
    found = {(note["label"], note["why"]): note["count"] for note in notes(rows) if note["count"]}
    assert found == {("rates", "term"): 4, ("orders", "no key"): 1, ("orders", "term"): 1}
    kept = [(row[7], json.loads(row[-1])["text"]) for row in rows if row[-1] is not None]
    assert kept == [
        ("2", 'Where("data.amount > 10") refused it'),
        ("3", 'Where("data.amount > 10") refused it'),
        ("20", "no key at data.day"),
        (
            "21",
            'Exact(type="orders") refused its type, Orders; its type differs only in upper and lower case',
        ),
    ]


def test_near_misses_are_not_collected_when_none_are_requested() -> None:
    rows = read(asked(RATES, near_misses=0), [entry(1, "rates", {"amount": 1}, subject="s")])
    assert rows == []


def test_an_event_whose_filter_fails_is_a_near_miss_with_the_error() -> None:
    rows = read(asked(RATES), [entry(1, "rates", {"amount": "much"}, subject="s")])
    [miss] = notes(rows)
    assert (miss["label"], miss["why"], miss["term"]) == ("rates", "error", 'Where("data.amount > 10")')
    assert "could not be evaluated" in miss["text"]


def test_errors_of_one_class_are_one_reason_whatever_their_messages() -> None:
    misses = Misses(asked(RATES, near_misses=2))
    for number in range(100):
        event_, place = entry(number, "rates").event, (1000 + number, "t", 0, number)
        misses.failed(event_, ValueError(f"{number} is too much"), place)
    notes = [json.loads(kept.note) for kept in misses.kept()]
    assert [(note["term"], note["text"], note["count"]) for note in notes] == [
        ("ValueError", "ValueError: 0 is too much", 100),
        ("ValueError", "ValueError: 1 is too much", 0),
    ]


def test_events_of_its_source_are_near_to_a_matcher_without_a_type() -> None:
    condition = event(source="/s", subject="x")
    rows = read(asked(condition), [entry(1, "any", subject="y"), entry(2, "any", subject="x")])
    assert [note["label"] for note in notes(rows)] == ["x"]
    assert reached(rows) == [("", "2", "0")]


DISJUNCTION = Not(Prefix(subject="x")) | Exact(zone="y")
READ = {
    "type alone": (event("a"), ReadColumns(("time",), False, ("a",))),
    "by": (event("a", by="subject", tenant="x"), ReadColumns(("subject", "tenant", "time"), False, ("a",))),
    "key in data": (event("a", by="data.day"), ReadColumns(("datacontenttype", "time"), True, ("a",))),
    "one without a type": (event("b") & event(source="/s"), ReadColumns(("time",), False, None)),
    "filters": (event("a", filters=[DISJUNCTION]), ReadColumns(("subject", "time", "zone"), False, ("a",))),
    "CEL may read all": (event("a", where="data.n > 1"), ReadColumns(None, True, ("a",))),
    "CESQL may read all": (event("a", filters=[Sql("level = 'x'")]), ReadColumns(None, False, ("a",))),
    "composite key": (
        event("b", by=("subject", "data.x")),
        ReadColumns(("datacontenttype", "subject", "time"), True, ("b",)),
    ),
}


@pytest.mark.parametrize(("condition", "columns"), READ.values(), ids=READ)
def test_only_what_matchers_read_is_fetched(condition: Condition, columns: ReadColumns) -> None:
    assert ReadColumns.of(condition) == columns


@pytest.mark.parametrize("name", ["com.acme", "com/acme", "com/acme.", "é.acme", "a" * 101])
def test_types_that_differ_only_in_case_are_fetched_and_others_are_not(name: str) -> None:
    """Regression: those whose folder's name has a digest were not, since it differs with the case."""
    keys, starts = ReadColumns.of(event(name)).type_keys

    def fetched(type_: str) -> bool:
        key = type_key(type_).lower()
        return key in keys or key.startswith(tuple(starts))

    assert all(map(fetched, (name, name.upper(), name.title())))
    assert not any(map(fetched, ("other", "com", "com.acme.more", "com/acme.more", "com/other", "a" * 20)))
