"""The fold has the same result as a plain loop of `step`, and as `rehearse`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from hypothesis import given
from interlock.conditions import Condition, Part, Seen, event, explain_rehearsal, rehearse
from interlock.events import Event
from interlock.spark.pipeline.backtest.question import TTL_MS, Question

from tests.unit.conditions.property.runs import examples

from .logs import EPOCH, Case, Entry, cases, fired, folded, loop


@examples(80)
@given(cases())
def test_the_fold_fires_as_a_loop_of_step_does(case: Case) -> None:
    found = fired(folded(case))
    assert found == loop(case)


@examples(80)
@given(cases().filter(lambda case: case.ascending))
def test_the_fold_fires_as_a_rehearsal_of_the_same_events_does(case: Case) -> None:
    question = case.question
    events = [
        Seen(each.event, each.topic, each.partition, each.offset, each.stamp_ms)
        for each in sorted(case.entries, key=place)
    ]
    rehearsed = rehearse(
        question.condition,
        events,
        key=question.key,
        start=None if not question.runs_from_the_start else moment(question.since_ms),
        since=None if question.since_ms is None else moment(question.since_ms),
        until=moment(case.end_ms),
    )
    wanted = [
        (each.key, each.outcome, each.fired_at, each.timer_ms, each.missing, identities(each.taking_part))
        for each in (rehearsed[:1] if question.key is not None else rehearsed)
    ]
    found = [
        (
            each.key,
            each.outcome,
            moment(each.fired_ms),
            each.timer_ms,
            each.missing,
            [part[:3] for part in each.parts],
        )
        for each in fired(folded(case))
    ]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


@examples(60)
@given(cases().filter(lambda case: case.ascending and case.question.key is None))
def test_a_pending_key_lacks_what_an_explanation_says(case: Case) -> None:
    question = case.question
    condition = question.condition
    found = folded(case)
    for row in found:
        if row["kind"] != "pending":
            continue
        explained = explain_rehearsal(
            condition,
            [
                Seen(each.event, each.topic, each.partition, each.offset, each.stamp_ms)
                for each in sorted(case.entries, key=place)
            ],
            open_key=row["key"] if condition.keyed else None,
            start=moment(question.since_ms) if question.runs_from_the_start else None,
            since=None if question.since_ms is None else moment(question.since_ms),
            until=moment(case.end_ms),
        )
        assert tuple(row["missing"]) == explained.missing
        assert (row["waiting"], row["due_ms"]) == (explained.waiting_count, explained.due_ms)
        assert row["events"] or row["waiting"] or row["due_ms"] is not None


PAIR = event("a", by="subject", label="a") & event("b", by="subject", label="b")
DAY_MS = 24 * 3600 * 1000


def test_a_pending_key_has_its_events_what_is_missing_and_until_when() -> None:
    condition = PAIR.expires(after="1h")
    [row] = folded(of(condition, [entry("a", 1, 1000)], 2000))
    assert (row["kind"], row["key"], row["missing"]) == ("pending", "k", ["b"])
    assert [(part["label"], part["id"], part["appended_ms"]) for part in row["events"]] == [("a", "1", 1000)]
    assert (row["since_ms"], row["expires_ms"], row["due_ms"]) == (1000, 3_601_000, 3_601_000)


def test_a_key_is_forgotten_after_its_ttl() -> None:
    late = [entry("a", 1, 1000), entry("b", 2, 1000 + 30 * DAY_MS)]
    assert fired(folded(of(PAIR, late, 1001 + 30 * DAY_MS))) == []
    intime = [entry("a", 1, 1001), entry("b", 2, 1000 + 30 * DAY_MS)]
    assert len(fired(folded(of(PAIR, intime, 1001 + 30 * DAY_MS)))) == 1
    forever = of(PAIR, late, 1001 + 30 * DAY_MS, ttl_ms=None)
    assert len(fired(folded(forever))) == 1


def test_a_key_whose_events_were_released_and_that_cannot_expire_is_not_pending() -> None:
    """X3: the time of the expiry was over before the first event (the smallest case of a long search)."""
    hour_ms = 3_600_000
    condition = PAIR.within("1h").expires(at="1970-01-01T02:00:00Z", armed_by="event")
    [held] = folded(of(condition, [entry("a", 1, 3 * hour_ms)], 4 * hour_ms))
    assert (held["kind"], held["missing"], held["due_ms"]) == ("pending", ["b"], None)
    assert folded(of(condition, [entry("a", 1, 3 * hour_ms)], 30 * hour_ms)) == []


def test_a_forgotten_key_is_not_pending() -> None:
    assert folded(of(PAIR, [entry("a", 1, 1000)], 1000 + 30 * DAY_MS)) == []


def entry(type_: str, number: int, stamp_ms: int) -> Entry:
    return Entry(Event.of(type_, "/s", id=str(number), subject="k"), "t", 0, number, stamp_ms)


def of(condition: Condition, entries: list[Entry], end_ms: int, ttl_ms: int | None = TTL_MS) -> Case:
    return Case(Question.of(condition, ttl_ms=ttl_ms), tuple(entries), True, end_ms)


def place(each: Entry) -> tuple[int, str, int, int]:
    return (each.stamp_ms, each.topic, each.partition, each.offset)


def moment(ms: int | None) -> datetime:
    assert ms is not None
    return EPOCH + timedelta(milliseconds=ms)


def identities(parts: Iterable[Part]) -> list[tuple[str, ...]]:
    return [(part.label, *part.match.identity) for part in parts]
