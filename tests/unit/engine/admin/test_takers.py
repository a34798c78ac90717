"""Which registered subscriptions an event meets, and which it nearly meets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from interlock import event
from interlock.conditions import Condition, Seen
from interlock.engine.admin.takers import MOST_NEARLY, Takers, takers_of
from interlock.engine.records import Registration
from interlock.engine.registry.registry import Registered
from interlock.events import Event

DAY = "2026-11-20"
RATES = event("rates", by="data.day", where="data.rows > 0", label="rates")
ORDERS = event("orders", label="orders")


def seen(event_type: str = "rates", stamp_ms: int = 5000, **data: Any) -> Seen:
    return Seen(
        Event.of(event_type, "/bank", id="1", data={"day": DAY, "rows": 1, **data}), "t", 0, 7, stamp_ms
    )


def registered(
    name: str, condition: Condition = RATES, key: str | None = DAY, kind: Any = "one-shot", since_ms: int = 0
) -> Registered:
    return Registered(Registration.of(name, condition, key, since_ms, kind=kind), condition, 7, 0)


def told(found: Takers) -> tuple[list[str], list[tuple[str, str]]]:
    met = [each.registration.subscription for each in found.met]
    return met, [(each.registered.registration.subscription, each.miss.reason()) for each in found.nearly]


def takers(one: Seen, *subscriptions: Registered) -> tuple[list[str], list[tuple[str, str]]]:
    return told(takers_of(one, subscriptions))


@pytest.mark.parametrize(
    "taker",
    [
        registered("a"),
        registered("a", kind="durable", key=None),
        registered("a", event("rates", label="rates"), None),
        registered("a", ORDERS & event("rates", label="rates"), None),
        registered("a", since_ms=5000),
    ],
    ids=["its key", "any key", "no key", "one of two parts", "stamped at its since"],
)
def test_a_subscription_whose_matcher_accepts_the_event_takes_it(taker: Registered) -> None:
    assert takers(seen(), taker) == (["a"], [])


@pytest.mark.parametrize(
    ("other", "one", "because"),
    [
        (registered("a", key="2026-11-21"), seen(), "key 2026-11-20 here, 2026-11-21 wanted"),
        (registered("a"), seen(rows=0), 'Where("data.rows > 0") refused it'),
        (registered("a", since_ms=6000), seen(), "stamped before the wait's since, at 1970-01-01T00:00:05Z"),
        (registered("a", kind="durable", key=None), seen(day=None), "no key at data.day"),
    ],
    ids=["another key", "a term", "too early", "no key"],
)
def test_a_subscription_that_nearly_takes_it_says_why_it_does_not(
    other: Registered, one: Seen, because: str
) -> None:
    met, [(name, reason)] = takers(one, other)
    assert (met, name) == ([], "a")
    assert reason.startswith(because)


def test_a_subscription_of_another_type_is_not_near() -> None:
    assert takers(seen("stock"), registered("a", ORDERS, None)) == ([], [])


def many(condition: Condition, keys: Sequence[str]) -> list[Registered]:
    return [registered(f"w{key}", condition, key) for key in keys]


def test_waits_of_other_keys_do_not_displace_what_says_more() -> None:
    others = many(RATES, [f"2026-10-{n:02}" for n in range(1, 29)])
    refused = registered("refused", event("rates", by="data.day", where="data.rows > 5", label="rates"))
    met, nearly = takers(seen(), *others, refused)
    assert met == []
    assert nearly[0][0] == "refused"
    assert len(nearly) == 11


def test_one_wait_of_a_condition_says_for_all_of_its_waits_why_a_term_refuses() -> None:
    _, nearly = takers(seen(rows=0), *many(RATES, [f"2026-10-{n:02}" for n in range(1, 29)]))
    assert [name for name, _ in nearly] == ["w2026-10-01"]


def test_what_is_returned_is_bounded() -> None:
    takers_of_it = [registered(f"w{n}") for n in range(600)]
    found = takers_of(seen(), takers_of_it)
    assert (len(found.met), found.left_out) == (500, 100)
    terms = [
        registered(f"n{n}", event("rates", by="data.day", where=f"data.rows > {n + 1}", label="rates"))
        for n in range(80)
    ]
    assert len(takers_of(seen(), terms).nearly) == MOST_NEARLY
