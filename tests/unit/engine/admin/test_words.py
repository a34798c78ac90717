"""A wait and its firing in sentences, which the page and the commands show."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import any_of, at_least, count, event, sequence
from interlock.conditions import EMPTY, Condition, Explanation, Match, Seen, explain, opened, step
from interlock.engine.admin.explaining import OpenKey, SubscriptionReport
from interlock.engine.admin.words import (
    demand,
    late_words,
    near_words,
    not_taken_words,
    parts_of,
    words_of,
    words_of_firing,
)
from interlock.engine.following.fired import EventPlace, Fired
from interlock.engine.records import Registration
from interlock.engine.records.registration import Kind
from interlock.engine.registry.registry import Registered
from interlock.events import Event

NINE_MS = 1_795_165_920_000  # 2026-11-20T09:12:00Z
MINUTE_MS = 60_000
ORDERS, RATES, FX = (event(name, by="data.day", label=name) for name in ("orders", "rates", "fx"))
BOTH = ORDERS & RATES
DAY = "2026-11-20"


def happened(event_type: str, number: int, source: str = "/spark/orders") -> Event:
    return Event.of(event_type, source, id=f"e{number}", data={"day": DAY})


def explained(
    condition: Condition, *types: str, near: tuple[Event, ...] = (), now_ms: int = NINE_MS + 10 * MINUTE_MS
) -> Explanation:
    state = opened(condition, NINE_MS)
    for number, event_type in enumerate(types):
        came = happened(event_type, number)
        matchers = tuple(n for n, each in enumerate(condition.matchers) if each.accepts(came))
        at_ms = NINE_MS + (3 + number) * MINUTE_MS
        state, _ = step(condition, state, Match(came, matchers, "bus-event", 0, number, at_ms))
    seen = [Seen(each, "bus-event", 0, 9, NINE_MS) for each in near]
    return explain(condition, state, now_ms, seen, key=DAY)


def report(
    condition: Condition, explanation: Explanation | None, name: str = "airflow/report/run/wait", **more: Any
) -> SubscriptionReport:
    kind: Any = "durable" if name.split("/")[1] in ("dispatch", "deliver", "asset", "x") else "one-shot"
    registration = Registration.of(name, condition, None if kind == "durable" else DAY, 0, kind=kind)
    registered = Registered(registration, condition, 7, NINE_MS)
    given: dict[str, Any] = {"keys": (), "key_count": 0, "notes": (), **more}
    return SubscriptionReport(registered, (), False, explanation, **given)


def words(condition: Condition, *types: str) -> str:
    return " ".join(words_of(report(condition, explained(condition, *types))))


def test_a_wait_says_since_when_for_what_what_came_and_what_is_missing() -> None:
    assert words(BOTH, "orders") == (
        "Waits since 2026-11-20T09:12:00Z for 2 events of key 2026-11-20. "
        "orders came at 2026-11-20T09:15:00Z from /spark/orders; rates is missing."
    )


@pytest.mark.parametrize(
    ("condition", "types", "said"),
    [
        (BOTH, (), "Nothing came yet: orders and rates are missing."),
        (
            ORDERS | RATES,
            (),
            "for 1 of 2 events of key 2026-11-20. Nothing came yet: orders or rates is missing.",
        ),
        (any_of(ORDERS, RATES, FX), (), "Nothing came yet: orders, rates or fx is missing."),
        (
            at_least(2, ORDERS, RATES, FX),
            ("fx",),
            "fx came at 2026-11-20T09:15:00Z from /spark/orders; orders or",
        ),
        (
            count(ORDERS, 3),
            ("orders", "orders"),
            "for 3 events of key 2026-11-20. 2 of 3 orders came, the last at",
        ),
        (
            sequence(ORDERS, RATES),
            ("orders",),
            "1 event came and counts in a moment, in the order of time; orders and rates are missing.",
        ),
        (
            BOTH.within("2h").expires(after="4h"),
            ("orders",),
            "for 2 events of key 2026-11-20. orders came at",
        ),
        (
            ORDERS & (RATES | FX),
            ("orders",),
            "for the events of its condition of key 2026-11-20. orders came",
        ),
        (
            (ORDERS & ~RATES).within("1h"),
            ("orders",),
            "from /spark/orders; nothing is missing: it is decided at 2026-11-20T10:15:00.001Z.",
        ),
        (ORDERS.quiet("1h"), ("orders",), "nothing is missing: it is decided at 2026-11-20T10:15:00Z."),
    ],
    ids=["nothing", "or", "any of", "at least", "count", "sequence", "window", "nested", "negated", "quiet"],
)
def test_each_kind_of_condition_is_told(condition: Condition, types: tuple[str, ...], said: str) -> None:
    assert said in words(condition, *types)


def test_a_wait_without_a_key_names_none() -> None:
    condition = event("t", label="t")
    found = explain(condition, EMPTY, NINE_MS)
    assert words_of(report(condition, found))[0] == "Waits since 2026-11-20T09:12:00Z for 1 event."


def test_more_than_five_missing_parts_are_counted() -> None:
    first, *rest = (event(f"t{n}", label=f"t{n}") for n in range(7))
    condition: Condition = first
    for each in rest:
        condition &= each
    said = words_of(report(condition, explain(condition, EMPTY, NINE_MS)))[1]
    assert said == "Nothing came yet: t0, t1, t2, t3, t4 and 2 more are missing."


@pytest.mark.parametrize(
    ("name", "sink", "said"),
    [
        ("airflow/dispatch/settle", "", "Starts a run for each firing, since 2026-11-20T09:12:00Z."),
        ("airflow/deliver/ship", "connection crm", "Delivers each firing to connection crm, since "),
        ("airflow/deliver/ship", "", "Delivers each firing to a sink that was removed, since "),
        ("airflow/asset/prices", "", "Writes an asset event for each firing, since "),
        ("other/x/1", "", "Is registered, and fires again and again, since "),
    ],
)
def test_a_durable_subscription_says_what_becomes_of_its_firings(name: str, sink: str, said: str) -> None:
    found = words_of(report(BOTH, explained(BOTH, "orders"), name, sink=sink))
    assert found[0].startswith(said)
    assert found[1].startswith("Of key 2026-11-20: orders came at ")


def test_a_durable_subscription_without_an_open_key_misses_nothing() -> None:
    nothing = explain(BOTH, EMPTY, NINE_MS)
    assert words_of(report(BOTH, nothing, "airflow/dispatch/settle"))[1] == "No key is open."
    unkeyed = event("t", label="t")
    nothing = explain(unkeyed, EMPTY, NINE_MS)
    said = words_of(report(unkeyed, nothing, "airflow/dispatch/settle"))[1]
    assert said == "Nothing came yet: t is missing."


def test_several_open_keys_are_counted_and_the_nearest_is_named() -> None:
    keys = (OpenKey("2026-11-20", 1, ("rates",), None), OpenKey("2026-11-19", 1, ("orders", "rates"), None))
    found = words_of(report(BOTH, None, "airflow/dispatch/settle", keys=keys, key_count=12))
    assert found[1] == "12 keys are open; of 2026-11-20, the nearest to firing, rates is missing."
    assert words_of(report(BOTH, None, "airflow/dispatch/settle"))[1] == "No key is open."


@pytest.mark.parametrize(
    ("condition", "types", "minutes", "late"),
    [
        (BOTH, ("orders",), 62, ""),
        (
            BOTH,
            ("orders",),
            63,
            "Of key 2026-11-20, rates is missing; the last of its events came at 2026-11-20T",
        ),
        (BOTH, (), 600, ""),
        (ORDERS.quiet("1h"), ("orders",), 600, ""),
        (BOTH.expires(at="2026-11-20T10:00:00Z"), (), 32, ""),
        (
            BOTH.expires(at="2026-11-20T10:00:00Z"),
            (),
            33,
            "Of key 2026-11-20, orders and rates are missing, and the wait expires at 2026-11-20T10:00:00Z.",
        ),
    ],
    ids=[
        "half met",
        "half met for long",
        "nothing came",
        "nothing is missing",
        "expires later",
        "expires soon",
    ],
)
def test_a_wait_is_late_if_it_expires_soon_or_is_half_met_for_long(
    condition: Condition, types: tuple[str, ...], minutes: int, late: str
) -> None:
    found = late_words(explained(condition, *types, now_ms=NINE_MS + minutes * MINUTE_MS))
    assert found.startswith(late) if late else found == ""


def test_the_nearest_event_of_each_missing_part_is_told_with_its_reason() -> None:
    near = Event.of("rates", "/bank", id="r1", data={"day": "2026-11-19"})
    [said] = near_words(explained(BOTH, "orders", near=(near,)))
    assert said.startswith("Nearest to rates: r1 of /bank ")
    assert said.endswith("key 2026-11-19 here, 2026-11-20 wanted.")


def test_texts_of_events_cannot_forge_a_line_or_turn_the_text_around() -> None:
    usual = happened("orders", 0)  # an engine's own records are not validated again
    hostile = Event({**usual.attributes, "source": "/a\u202e\nWaits since never"}, usual.data)
    state, _ = step(BOTH, EMPTY, Match(hostile, (0,), "t", 0, 0, NINE_MS))
    said = words_of(report(BOTH, explain(BOTH, state, NINE_MS)))[1]
    assert said.isprintable()
    assert "/a\\u202e\\nWaits since never" in said


def came(source: str, at_ms: int) -> EventPlace:
    """An event whose own time is another one."""
    return EventPlace("e", source, "t", None, at_ms - 5 * MINUTE_MS, "bus-event", 0, 0, at_ms)


def fired(
    events: dict[str, tuple[EventPlace, ...]],
    name: str = "airflow/report/run/wait",
    outcome: str = "met",
    missing: tuple[str, ...] = (),
    *,
    is_open: bool = False,
) -> Fired:
    kind: Any = "one-shot" if name.count("/") == 3 else "durable"
    at_ms = NINE_MS + 2 * MINUTE_MS
    known = ("f", name, kind, "i", None, outcome, "2026-11-20T09:14:00Z", at_ms, is_open, at_ms, None)
    return Fired(*known, missing, events, 0)


ONE = (came("/bank", NINE_MS),)


@pytest.mark.parametrize(
    ("firing", "continued_ms", "said"),
    [
        (
            fired({"orders": ONE, "rates": (*ONE, came("/bank", NINE_MS + 1000))}),
            NINE_MS + 2 * MINUTE_MS + 3000,
            "from /bank and 1 more. The task continued at 2026-11-20T09:14:03Z, 3s later.",
        ),
        (fired({"orders": ONE}, is_open=True), None, "The task has not taken it yet."),
        (fired({"orders": ONE}), None, "The task has taken it."),
        (fired({"orders": ONE}), NINE_MS, "The task has taken it."),
        (fired({}), None, "Fired at 2026-11-20T09:14:00Z, without an event. The task has taken it."),
        (
            fired({"orders": ONE}, outcome="expired", missing=("rates",)),
            None,
            "Expired at 2026-11-20T09:14:00Z: orders came at 2026-11-20T09:12:00Z from /bank; rates is m",
        ),
        (fired({}, outcome="expired"), None, "Expired at 2026-11-20T09:14:00Z: nothing came."),
        (
            fired({"orders": ONE}, "airflow/deliver/ship", is_open=True),
            None,
            "It was not delivered yet.",
        ),
        (
            fired({"orders": ONE}, "airflow/dispatch/x"),
            None,
            "Its run was created",
        ),
    ],
)
def test_a_firing_says_when_by_what_and_what_became_of_it(
    firing: Fired, continued_ms: int | None, said: str
) -> None:
    assert said in " ".join(words_of_firing(firing, continued_ms))


@pytest.mark.parametrize(
    ("condition", "types", "parts", "needs"),
    [
        (BOTH, ("orders",), (1, 2), "2 events"),
        (BOTH.within("1h"), ("orders",), (1, 2), "2 events"),
        (ORDERS | RATES, (), (0, 1), "1 of 2 events"),
        (at_least(2, ORDERS, RATES, FX), ("fx",), (1, 2), "2 of 3 events"),
        (ORDERS, (), (0, 1), "1 event"),
        (count(ORDERS, 3), ("orders",), (1, 3), "3 events"),
    ],
)
def test_the_parts_that_are_met_are_counted_as_the_condition_needs_them(
    condition: Condition, types: tuple[str, ...], parts: tuple[int, int], needs: str
) -> None:
    tree = explained(condition, *types).tree
    assert (parts_of(tree), demand(tree)) == (parts, needs)


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("airflow/report/run/wait", "one-shot", "It fired at {}, and its task has not continued."),
        ("airflow/dispatch/report", "durable", "Its firing of {} was not taken yet."),
        ("airflow/deliver/crm", "durable", "Its firing of {} was not delivered yet."),
    ],
)
def test_a_firing_that_nobody_has_taken_for_a_quarter_of_an_hour_is_late(
    name: str, kind: Kind, what: str
) -> None:
    assert not_taken_words(name, kind, NINE_MS, NINE_MS + 15 * MINUTE_MS - 1) == ""
    found = not_taken_words(name, kind, NINE_MS, NINE_MS + 15 * MINUTE_MS)
    assert found == what.format("2026-11-20T09:12:00Z")
