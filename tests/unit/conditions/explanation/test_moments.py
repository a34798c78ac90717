"""Keys that are another form of the wanted one: explain says how `by` would read it."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import event
from interlock.conditions import explain_rehearsal
from interlock.testing import record

NO_HINT = "wanted\n"


def text_of(by: Any, value: object, key: Any) -> str:
    """The near miss of a record with this value at `data.day`."""
    found = record("shop.orders", {"day": value, "region": "eu"}, at="2026-11-20T06:00:00Z")
    return str(explain_rehearsal(event(source="shop.orders", by=by), [found], key=key))


@pytest.mark.parametrize(
    ("by", "value", "key", "expected_text"),
    [
        (
            "data.day",
            20777,
            "2026-11-20",
            'with unit="d" is the wanted day in UTC: write by=day("data.day", tz=..., unit="d")',
        ),
        ("data.day", 1795132800000, "2026-11-20", 'unit="ms")'),
        ("data.day", "1795132800000000", "2026-11-20", 'unit="us")'),
        ("data.day", 1795132800000000000, "2026-11-20", 'unit="ns")'),
        ("data.day", 1795132800, "2026-11", 'write by=month("data.day", tz=..., unit="s")'),
        ("data.day", 1795132800, "2026-W47", 'write by=week("data.day", tz=..., unit="s")'),
        ("data.day", 1795150800000, "2026-11-20T05:00:00Z", 'write by=hour("data.day", tz=..., unit="ms")'),
        ("day(data.day, UTC, us)", 1795132800000, "2026-11-20", 'is the wanted day with unit="ms"'),
        (
            "data.day",
            "2026-11-20T07:30:00Z",
            "2026-11-20",
            'a time in the wanted day in UTC: write by=day("data',
        ),
        (
            "data.day",
            "2026-11-20",
            "2026-11-20T00:00:00Z",
            "is a day, and the wanted key a time on it in UTC",
        ),
        ("data.day", "2026-11-20 00:00:00", "2026-11-20", "its data.day is a time without a zone"),
        (["data.region", "data.day"], 20777, ["eu", "2026-11-20"], 'unit="d")'),
    ],
)
def test_a_key_in_another_form_is_explained_with_what_to_write(
    by: Any, value: object, key: Any, expected_text: str
) -> None:
    """Debezium's and Connect's dates are numbers (confluentinc/kafka-connect-jdbc#674)."""
    assert expected_text in text_of(by, value, key)


@pytest.mark.parametrize(
    ("by", "value", "key"),
    [
        ("data.day", 20778, "2026-11-20"),
        ("data.day", 1795132800000, "eu"),
        ("data.day", "2026-11-21T00:00:00Z", "2026-11-20"),
        ("data.day", "2026-11-20", "2026-11-21T00:00:00Z"),
        ("day(data.day, UTC)", "2026-11-19", "2026-11-20"),
        ("day(data.day, UTC, ms)", 1795046400000, "2026-11-20"),
        ("data.day + 1d", "2026-11-20", "2026-11-20"),
        (["data.region", "data.day"], "x", ["us", "y"]),
    ],
)
def test_another_key_has_no_hint(by: Any, value: object, key: Any) -> None:
    assert NO_HINT in text_of(by, value, key)
