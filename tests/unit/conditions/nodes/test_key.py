"""Canonical text of keys. Cases K1-K13: docs/use/conditions.md."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from interlock import Event
from interlock.conditions import ConditionError, canonical_key
from interlock.conditions.nodes.key import MAX_KEY_BYTES
from interlock.conditions.nodes.paths import key_at

CET = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(date(2026, 11, 20), "2026-11-20", id="K1"),
        pytest.param("20261120", "2026-11-20", id="K2-text"),
        pytest.param(20261120, "2026-11-20", id="K2-int"),
        pytest.param(20261120.0, "2026-11-20", id="K2-float"),
        pytest.param("20261399", "20261399", id="K2-no-day"),
        pytest.param("٢٠٢٦١١٢٠", "٢٠٢٦١١٢٠", id="K2-other-digits"),
        pytest.param("2026-11-20", "2026-11-20", id="K3"),
        pytest.param("  x ", "  x ", id="K4-blanks"),
        pytest.param("007", "007", id="K4-zeros"),
        pytest.param("True", "True", id="K4-case"),
        pytest.param("2026-11-20T01:30:00+01:00", "2026-11-20T00:30:00Z", id="K5-offset"),
        pytest.param("2026-11-20 01:30:00.500+01:00", "2026-11-20T00:30:00.5Z", id="K5-space"),
        pytest.param("2026-11-20T00:00:00.1234567890z", "2026-11-20T00:00:00.123456789Z", id="K5-digits"),
        pytest.param(datetime(2026, 11, 20, 1, 30, tzinfo=CET), "2026-11-20T00:30:00Z", id="K5-datetime"),
        pytest.param("2026-11-20T00:00:00+00:00", "2026-11-20T00:00:00Z", id="K6-ts"),
        pytest.param(datetime(2026, 11, 20, tzinfo=UTC), "2026-11-20T00:00:00Z", id="K6-datetime"),
        pytest.param("2026-11-20T00:00:00.000+0000", "2026-11-20T00:00:00Z", id="K5-Kafka Connect"),
        pytest.param("2026-11-20T00:00Z", "2026-11-20T00:00:00Z", id="K5-no seconds"),
        pytest.param("2026-11-20T00Z", "2026-11-20T00:00:00Z", id="K5-no minutes"),
        pytest.param("20261120T000000Z", "2026-11-20T00:00:00Z", id="K5-basic"),
        pytest.param("20261120T010000+0100", "2026-11-20T00:00:00Z", id="K5-ts_nodash_with_tz"),
        pytest.param("20261120T0100+01", "2026-11-20T00:00:00Z", id="K5-basic-hour-of-zone"),
        pytest.param("2026-11-20 01:00:00 +0100", "2026-11-20T00:00:00Z", id="K5-Ruby"),
        pytest.param("2026-11-20 00:00:00+00", "2026-11-20T00:00:00Z", id="K5-PostgreSQL"),
        pytest.param("2026-11-20 00:00:00 UTC", "2026-11-20T00:00:00Z", id="K5-Spark"),
        pytest.param("2026-11-20T00:00:00GMT", "2026-11-20T00:00:00Z", id="K5-GMT"),
        pytest.param("2026-11-20T00:00:00.50 utc", "2026-11-20T00:00:00.5Z", id="K5-utc"),
        pytest.param("20261120T000000UTC", "2026-11-20T00:00:00Z", id="K5-basic-UTC"),
        pytest.param("2026-11-20 00:00:00 Etc/UTC", "2026-11-20T00:00:00Z", id="K5-name"),
        pytest.param("2026-11-20T00:00:00[UTC]", "2026-11-20T00:00:00Z", id="K5-name-in-brackets"),
        pytest.param("2026-11-20T01:00:00GMT+01:00", "2026-11-20T00:00:00Z", id="K5-offset-from-GMT"),
        pytest.param("2026-11-20 01:00:00.1 UTC+0100", "2026-11-20T00:00:00.1Z", id="K5-offset-from-UTC"),
        pytest.param("2026-11-20 00:00:00 +0000 UTC", "2026-11-20T00:00:00Z", id="K5-Go"),
        pytest.param("2026-11-20 01:00:00.12 +0100 CET", "2026-11-20T00:00:00.12Z", id="K5-Go-CET"),
        pytest.param("2026-11-20 03:00:00 +0300 +03", "2026-11-20T00:00:00Z", id="K5-Go-without-letters"),
        pytest.param("2026-11-20 00:00:00 CET", "2026-11-20 00:00:00 CET", id="K7-zone-by-letters-only"),
        pytest.param("2026-11-20 UTC", "2026-11-20 UTC", id="K7-day-with-zone"),
        pytest.param("2026-11-19T24:00:00Z", "2026-11-20T00:00:00Z", id="K5-end-of-day"),
        pytest.param("2026-11-20T00:00:00,50Z", "2026-11-20T00:00:00.5Z", id="K5-comma"),
        pytest.param("2026-W47-5T00:00Z", "2026-11-20T00:00:00Z", id="K5-week"),
        pytest.param("2026-324T00:00Z", "2026-11-20T00:00:00Z", id="K5-day-of-year"),
        pytest.param("2026-11-20T01:00+01:00[Europe/Berlin]", "2026-11-20T00:00:00Z", id="K5-Java"),
        pytest.param("2026-11-19T23:00:00\u221201:00", "2026-11-20T00:00:00Z", id="K5-minus-sign"),
        pytest.param("2026-11-20T00.5Z", "2026-11-20T00:30:00Z", id="K5-part-of-an-hour"),
        pytest.param("20261120T0530,25+05", "2026-11-20T00:30:15Z", id="K5-part-of-a-minute"),
        pytest.param("2026-W47-5T00:00.0005Z", "2026-11-20T00:00:00.03Z", id="K5-small-part-of-a-minute"),
        pytest.param("2026-11-19T24.0Z", "2026-11-20T00:00:00Z", id="K5-end-of-day-as-hours"),
        pytest.param("2026-11-19T23.99999Z", "2026-11-19T23:59:59.964Z", id="K5-before-the-end-of-day"),
        pytest.param("2026-11-19T24.1Z", "2026-11-19T24.1Z", id="K7-no-hour"),
        pytest.param("2026-11-20T00." + "5" * 31 + "Z", "2026-11-20T00." + "5" * 31 + "Z", id="K7-digits"),
        pytest.param(
            "2026-11-20T01:00+01:00[Europe/Berlin][u-ca=gregory]", "2026-11-20T00:00:00Z", id="K5-Temporal"
        ),
        pytest.param("2026-11-20T00:00:00Z[!u-ca=iso8601]", "2026-11-20T00:00:00Z", id="K5-calendar"),
        pytest.param("2026-11-20T00:00[u-ca=iso8601]", "2026-11-20T00:00[u-ca=iso8601]", id="K7-calendar"),
        pytest.param("2026-11-20T00:00:00", "2026-11-20T00:00:00", id="K7-no-zone"),
        pytest.param("20261120T000000", "20261120T000000", id="K7-ts_nodash"),
        pytest.param("2026-11-20T24:01Z", "2026-11-20T24:01Z", id="K7-no-time"),
        pytest.param("2026-11-20T00:00+24:00", "2026-11-20T00:00+24:00", id="K7-no-offset"),
        pytest.param("2026-366T00:00Z", "2026-366T00:00Z", id="K7-no-day-of-year"),
        pytest.param("2026-11-20T00:00[Europe/Berlin]", "2026-11-20T00:00[Europe/Berlin]", id="K7-name"),
        pytest.param("20261120 1000-05", "20261120 1000-05", id="K4-number-with-blank"),
        pytest.param("2024123 10-05", "2024123 10-05", id="K4-code"),
        pytest.param("2026-W47", "2026-W47", id="K4-week"),
        pytest.param("2016-12-31T23:59:60Z", "2016-12-31T23:59:60Z", id="K7-leap"),
        pytest.param("2026-02-30T00:00:00Z", "2026-02-30T00:00:00Z", id="K7-no-day"),
        pytest.param("0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00+01:00", id="K7-year-0"),
        pytest.param(True, "true", id="K8"),
        pytest.param(1, "1", id="K9-int"),
        pytest.param(1.0, "1", id="K9-float"),
        pytest.param(Decimal("1.00"), "1", id="K9-decimal"),
        pytest.param(Decimal("1E+3"), "1000", id="K9-exponent"),
        pytest.param(Decimal("1" * 40 + ".10"), "1" * 40 + ".1", id="K9-no-rounding"),
        pytest.param(1e22, "10000000000000000000000", id="K9-large"),
        pytest.param(1e-7, "0.0000001", id="K9-small"),
        pytest.param(-0.0, "0", id="K9-zero"),
        pytest.param(2**53 + 1, "9007199254740993", id="K9-whole"),
        pytest.param(9007199254740993.0, "9007199254740992", id="K9-rounded"),
        pytest.param("1.0", "1.0", id="K10"),
    ],
)  # fmt: skip
def test_the_canonical_text_of_a_key(value: Any, text: str) -> None:
    assert canonical_key(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1", "1"), ("1.0", "1"), ("1e2", "100"), ("-0.0", "0"), ("-0", "0"), ("2026112e1", "2026-11-20"),
        ("9007199254740993", "9007199254740993"), ("9007199254740993.0", "9007199254740992"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ],
)  # fmt: skip
def test_a_number_in_the_data_of_an_event_is_a_key_by_its_value(number: str, text: str) -> None:
    """K9; with a point or an exponent it is a floating-point number."""
    assert key_at("data.id", Event.of("a", "/a", data=f'{{"id": {number}}}'.encode())) == text


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), "",
        datetime(2026, 1, 1), "\ud800", "a\0", "1\0", None, [], {}, b"x", 10**600, Decimal("1E+100000000"),  # noqa: DTZ001
        Decimal("1E-100000000"), "x" * (MAX_KEY_BYTES + 1), "é" * (MAX_KEY_BYTES // 2 + 1),
        pytest.param(10**5000, id="digits"),
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_a_value_without_canonical_text_is_refused(value: Any) -> None:
    """K12"""
    with pytest.raises(ConditionError, match="key") as caught:
        canonical_key(value)
    assert len(str(caught.value)) < 300


def test_a_key_may_have_512_bytes() -> None:
    assert canonical_key("é" * (MAX_KEY_BYTES // 2))


def test_several_values_are_one_key_with_each_in_its_canonical_text() -> None:
    """K14"""
    key = canonical_key((date(2026, 11, 20), "eur", 7.0, True))
    assert key == canonical_key(["20261120", "eur", 7, "true"]) == '["2026-11-20","eur","7","true"]'
    assert canonical_key(("é", 'say "x"')) == r'["é","say \"x\""]'


def test_a_text_that_looks_like_a_composite_key_is_taken_as_it_is() -> None:
    """K15"""
    assert canonical_key('["2026-11-20","eur"]') == canonical_key(("20261120", "eur"))
    assert canonical_key('["20261120", "eur"]') == '["20261120", "eur"]'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((), "2 to 8 values, not 0"),
        (("a",), "2 to 8 values, not 1"),
        (["a"] * 9, "2 to 8 values, not 9"),
        (("a", ("b", "c")), "value 2 of a composite key is a tuple"),
        (("a", ""), "cannot be empty"),
        (("a", None), "not a NoneType"),
        (("a", float("nan")), "not a finite number"),
        (("é" * 200, "é" * 200), "at most 512"),
    ],
)
def test_a_composite_key_that_cannot_be_compared_is_refused(value: Any, message: str) -> None:
    """K12, K16"""
    with pytest.raises(ConditionError, match="key") as caught:
        canonical_key(value)
    assert message in str(caught.value)


LOOKS_LIKE_TIME = (
    r"[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,9})?"
    r"(Z|[+-][0-2][0-9]:[0-5][0-9])"
)
keys = (
    st.text(max_size=40)
    | st.from_regex(LOOKS_LIKE_TIME, fullmatch=True)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.dates()
    | st.datetimes(timezones=st.timezones())
)  # fmt: skip


class Text(str):
    """A text that does not take the fast path."""


@given(st.text(alphabet="0123456789-:.+TZ x\0\u0660\u00e9", max_size=26) | st.from_regex(LOOKS_LIKE_TIME))
@example("1" * MAX_KEY_BYTES)
@example("1" * (MAX_KEY_BYTES + 1))
@example("\u00e9" * (MAX_KEY_BYTES // 2 + 1))
def test_the_fast_path_for_a_text_gives_the_same_key(text: str) -> None:
    def taken(key: str) -> str:
        try:
            return canonical_key(key)
        except ConditionError as error:
            return f"refused: {error}"

    assert taken(text) == taken(Text(text))


@given(keys | st.lists(keys, min_size=2, max_size=8))
def test_the_canonical_form_of_canonical_text_is_itself(value: Any) -> None:
    """K13; and whatever is refused is refused with a ConditionError."""
    try:
        text = canonical_key(value)
    except ConditionError:
        assume(False)
    assert canonical_key(text) == text


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.timezones()))  # noqa: DTZ001
def test_a_datetime_and_its_texts_are_one_key(value: datetime) -> None:
    """K11"""
    offset = value.utcoffset()
    assume(offset is not None and offset % timedelta(minutes=1) == timedelta(0))
    key = canonical_key(value)
    assert key == canonical_key(value.isoformat()) == canonical_key(str(value))
    assert key == canonical_key(value.astimezone(CET))


@given(st.integers(-(10**15), 10**15))
def test_a_whole_number_is_one_key_however_it_is_typed(value: int) -> None:
    assert (
        canonical_key(value)
        == canonical_key(float(value))
        == canonical_key(Decimal(value))
        == canonical_key(str(value))
    )


@given(
    st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1)),  # noqa: DTZ001
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(
        (
            "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S.%f %z", "%Y%m%dT%H%M%S.%f%z", "%Y%m%dt%H:%M:%S,%f%z",
            "%G-W%V-%uT%H:%M:%S.%f%z", "%GW%V%uT%H%M%S.%f%z", "%Y-%jT%H:%M:%S.%f%z", "%Y%jT%H%M%S.%f%z",
        )
    ),
)  # fmt: skip
def test_every_iso_form_of_an_instant_is_one_key(moment: datetime, minutes: int, form: str) -> None:
    """K5, K11: against the datetime's own key."""
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    key = canonical_key(aware)
    assert canonical_key(aware.strftime(form)) == key
    assert canonical_key(key) == key
