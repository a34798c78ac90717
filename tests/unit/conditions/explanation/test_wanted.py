"""Which event would meet a missing part, for the form in which a person sends it."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.conditions import Condition, dag_run, day, event
from interlock.conditions.explanation.wanted import WantedEvent, wanted_events
from interlock.events import Event

DAY = "2026-11-20"


def wanted(condition: Condition, key: str | None = DAY) -> WantedEvent:
    [found] = wanted_events(condition, condition.labels, key)
    return found


@pytest.mark.parametrize(
    ("condition", "key", "data"),
    [
        (event("rates", by="data.day"), DAY, {"day": DAY}),
        (event("rates", by="data.order.day"), DAY, {"order": {"day": DAY}}),
        (
            event("rates", by=("data.day", "data.order.n")),
            f'["{DAY}","7"]',
            {"day": DAY, "order": {"n": "7"}},
        ),
        (event("rates"), None, None),
        (event("rates", by="data.day"), None, None),
    ],
    ids=["a member", "a nested member", "a composite key", "no key", "a key that is not known"],
)
def test_an_event_that_is_sent_as_wanted_has_the_key(
    condition: Condition, key: str | None, data: dict[str, Any] | None
) -> None:
    found = wanted(condition, key)
    assert (found.type, found.data) == ("rates", data)
    sent = Event.of("rates", "/by-hand", data=found.data)
    assert condition.matchers[0].accepts(sent)
    assert condition.matchers[0].key_of(sent) == (key if condition.keyed and key else None)


def test_what_a_matcher_names_exactly_is_wanted_with_its_extensions() -> None:
    rates = event("rates", source="/bank", subject="EUR", tenant="t1", by="partitionkey", label="r")
    assert wanted(rates) == WantedEvent(
        "r", "rates", "/bank", "EUR", extensions={"tenant": "t1", "partitionkey": DAY}
    )


def test_a_subject_that_is_the_key_is_the_key() -> None:
    assert wanted(event("rates", by="subject")).subject == DAY


@pytest.mark.parametrize("by", ["data.day + 1d", day("time", tz="Europe/London")])
def test_a_key_that_is_computed_from_a_time_is_left_to_the_sender(by: str) -> None:
    assert wanted(event("rates", by=by)).data is None


@pytest.mark.parametrize("by", [("data.day", "data.day.n"), ("data.day.n", "data.day")])
def test_a_member_inside_a_text_is_left_out(by: tuple[str, str]) -> None:
    assert wanted(event("rates", by=by), f'["{DAY}","7"]').data is not None


@pytest.mark.parametrize("key", ["[", "{}", '["a"]', "[" * 20_000])
def test_a_key_that_does_not_fit_its_paths_gives_no_data(key: str) -> None:
    assert wanted(event("rates", by=("data.day", "data.n")), key).data is None


def test_only_the_labels_that_are_asked_for_are_returned_in_the_order_of_the_condition() -> None:
    orders, rates = event("orders", label="orders"), event("rates", label="rates")
    found = wanted_events(orders & rates & event("fx", label="fx"), {"fx", "orders"})
    assert [each.label for each in found] == ["orders", "fx"]


def test_a_wanted_event_is_plain_json() -> None:
    found = wanted(dag_run("ledger"), None).to_json()
    assert (found["type"], found["subject"], found["extensions"]) == (
        "interlock.airflow.dag_run.succeeded",
        "ledger",
        {},
    )
