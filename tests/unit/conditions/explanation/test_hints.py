"""What `explain` says when a matcher names an attribute that its events never have."""

from __future__ import annotations

import re

import pytest
from interlock import ConditionError, day, event
from interlock.conditions import Condition, explain_rehearsal
from interlock.conditions.filters import All, Any, Exact, Prefix, Sql
from interlock.events import Event
from interlock.events.plain import event_of_record
from interlock.testing import record

PLAIN = record("shop.orders", {"date": "2026-11-20"}, at="2026-11-20T06:00:00Z", key="k")
KEYLESS = record("shop.orders", {"date": "2026-11-20"}, at="2026-11-20T06:00:00Z")
ORDER = Event.of(
    "order", "/shop", id="1", time="2026-11-20T06:00:00Z", data={"date": "2026-11-20", "x": None}
)


@pytest.mark.parametrize(
    ("condition", "given", "hint"),
    [
        (event(source="shop.orders", by="date"), PLAIN, 'no attribute date, .* by="data.date"'),
        (event("order", by="date"), ORDER, 'no attribute date, .* by="data.date"'),
        (event("order", by="date + 1d"), ORDER, 'by="data.date"'),
        (event("order", by=["source", "date"]), ORDER, 'by="data.date"'),
        (event(source="shop.orders", myheader="x"), PLAIN, "no myheader, because its headers are not read"),
    ],
)
def test_a_name_that_is_a_member_of_the_data_or_a_header_is_pointed_out(
    condition: Condition, given: Event, hint: str
) -> None:
    """A header of a plain topic, and by="date" where the data has `date`, were waited for without a word."""
    text = str(explain_rehearsal(condition, [given]))
    assert re.search(hint, text), text


@pytest.mark.parametrize(
    "condition", [event(source="shop.orders", subject="7"), event(source="shop.orders", by="subject")]
)
@pytest.mark.parametrize("key", [None, b"\x00\x00\x00\x00\x07\x02a"], ids=["none", "of a schema registry"])
def test_a_plain_record_without_a_subject_is_explained_by_its_key(
    condition: Condition, key: bytes | None
) -> None:
    """Avro and long keys are bytes (mage-ai/mage-ai#5853), and only "no attribute subject" was said."""
    made = event_of_record("shop.orders", 0, 7, 1_795_132_800_000, key, b"{}", None)
    text = str(explain_rehearsal(condition, [made]))
    assert "its record has no key, or one that is not text" in text


def test_a_key_that_is_json_is_named_where_a_value_in_it_is_wanted() -> None:
    """Debezium's record keys are objects (Altinity/clickhouse-sink-connector#1127)."""
    made = record("shop.orders", {}, at="2026-11-20T06:00:00Z", key='{"id": 7}')
    text = str(explain_rehearsal(event(source="shop.orders", by="subject"), [made], key="7"))
    assert "its subject is a text that itself holds JSON, an object, whose members by= cannot reach" in text


@pytest.mark.parametrize(
    ("condition", "given"),
    [
        (event(source="shop.orders", subject="x"), KEYLESS),
        (event("order", by="day"), ORDER),
        (event("order", by="data.day"), ORDER),
    ],
)
def test_there_is_no_hint_where_it_would_not_help(condition: Condition, given: Event) -> None:
    text = str(explain_rehearsal(condition, [given]))
    assert "but its data" not in text
    assert "headers" not in text


def test_a_matcher_for_plain_records_refuses_attributes_that_they_never_have() -> None:
    kind = "org.apache.kafka.record"
    for wrong in (
        {"myheader": "x"},
        {"by": "date"},
        {"by": ["subject", "date"]},
        {"by": day("sent", tz="UTC")},
        {"where": "event.myheader == 'x'"},
        {"where": "!has(event.myheader) && data.n > param.least"},
        {"filters": [Sql("myheader = 'x'")]},
        {"filters": [Any(Exact(subject="k"), Exact(myheader="x"))]},
        {"filters": [~Prefix(myheader="x")]},
    ):
        with pytest.raises(ConditionError, match=r"a plain record has no attribute .* headers are not read"):
            event(kind, source="shop.orders", **wrong)  # type: ignore[arg-type]
    for known in (
        Exact(type=kind),
        Exact(type=kind, myheader="x"),
        All(Exact(type=kind), Exact(myheader="x")),
    ):
        with pytest.raises(ConditionError, match=r"a plain record has no attribute (myheader|date)"):
            event(source="shop.orders", filters=[known, Prefix(myheader="x")], by="data.date")
    event(kind, source="shop.orders", subject="k", by=["time", "data.date"], where="event.subject != 'x'")
