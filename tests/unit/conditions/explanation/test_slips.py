"""Names that are almost the wanted one: shown as near misses if there are no others."""

from __future__ import annotations

import pytest
from interlock.conditions import EMPTY, event, explain
from interlock.conditions.explanation.slips import is_slip
from interlock.events import Event

from .near_noon import DAY, NOON_MS, misses_of, sent

WANTED = "com.shop.orders.done"


@pytest.mark.parametrize(
    "here",
    [
        "com.shop.order.done", "com.shop.orders-done", "com.shop.orders_done", "com/shop/orders/done",
        "com.shop.ordres.done", "com.shop.orderd.done", "com.shop.orders.done.v1", "shop.orders.done",
        "Com.Shop.Order.Done", "com.shop..orders.done",
    ],
)  # fmt: skip
def test_a_name_that_a_slip_of_the_pen_makes_is_recognised(here: str) -> None:
    """A wait for such a type had no near miss at all, and its author saw nothing of the event."""
    assert is_slip(here, WANTED)
    assert is_slip(WANTED, here)


@pytest.mark.parametrize(
    ("here", "wanted"),
    [
        (WANTED, WANTED),
        ("com.shop.orders.failed", WANTED),
        ("com.shop.rates.done", WANTED),
        ("com.shop.orders.done.by.hand", WANTED),
        ("job.step2.done", "job.step1.done"),
        ("job.step12.done", "job.step1.done"),
        ("orders.eu", "orders.us"),
        ("a", "b"),
        ("orders", "rates"),
        ("", WANTED),
        (WANTED + "x" * 1_000_000, WANTED),
    ],
)
def test_a_name_that_is_another_on_purpose_is_none(here: str, wanted: str) -> None:
    assert not is_slip(here, wanted)


def test_an_event_that_lacks_only_the_type_is_shown_if_there_is_no_other() -> None:
    matcher = event(WANTED, subject="eu", label="orders")
    slip = sent("slip", "com.shop.order.done", subject="eu")
    [miss] = misses_of(matcher, [slip, sent("other", "com.shop.order.done", subject="us")])
    assert (miss.event.id, miss.attribute, miss.value) == ("slip", "type", "com.shop.order.done")
    nearer = sent("nearer", WANTED, subject="us")
    assert [miss.event.id for miss in misses_of(matcher, [slip, nearer])] == ["nearer"]


def test_a_topic_that_is_written_slightly_differently_is_shown() -> None:
    matcher = event(source="raw_orders", where="data.status == 'done'", by="data.day", label="order")
    record = Event.of("org.apache.kafka.record", "raw-orders", id="raw-orders[0]@0", data={"day": DAY})
    assert "refused its source, raw-orders" in str(explain(matcher, EMPTY, NOON_MS, [record]))
    assert "refused its source, raw-orders" in str(
        explain(event(source="raw_orders"), EMPTY, NOON_MS, [record])
    )
