"""Canonical text of correlation keys: one text for each value (table: docs/use/conditions.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from ...events.attributes import format_timestamp, shown
from ..errors import ConditionError
from .instants import TIMESTAMP_CHARS, canonical_timestamp, compact_date

MAX_KEY_BYTES: Final = 512
MAX_KEY_PARTS: Final = 8

KeyPart = str | int | float | Decimal | bool | date | datetime


def canonical_key(value: KeyPart | Sequence[KeyPart]) -> str:
    """The canonical text of a correlation key; the canonical text of that text is the text itself.

    value: a tuple or list of 2 to 8 values is a composite key: a JSON array of their canonical texts.
    Raises ConditionError for values that cannot be keys: other types, NaN and infinity, the empty string, a
    datetime without zone, text that is not valid Unicode or holds NUL, more than 512 bytes of UTF-8.
    """
    if (
        type(value) is str
        and 0 < len(value) <= MAX_KEY_BYTES
        and value.isascii()
        and "\0" not in value
        # not like 20261120, and shorter than any timestamp
        and (value[:1] > "9" or (len(value) < TIMESTAMP_CHARS and (len(value) != 8 or not value.isdigit())))
    ):
        return value  # it has only one spelling; most keys take this path, in a tenth of the time
    if not isinstance(value, (tuple, list)):
        return _limited(_text_of(value))
    if not 2 <= len(value) <= MAX_KEY_PARTS:  # K16
        raise ConditionError(
            f"a composite key has 2 to {MAX_KEY_PARTS} values, not {len(value)}: give a single one by itself"
        )
    for number, part in enumerate(value, 1):
        if isinstance(part, (tuple, list)):
            raise ConditionError(
                f"value {number} of a composite key is a {type(part).__name__}: give a single value"
            )
    parts = [_limited(_text_of(part)) for part in value]  # K14
    return _limited(json.dumps(parts, ensure_ascii=False, separators=(",", ":")))


def values_in(key: object) -> int:
    """How many values a key has: those of a list, also in its canonical text; 1 for any other."""
    if isinstance(key, (tuple, list)):
        return len(key)
    if isinstance(key, str) and key.startswith("["):
        try:
            parts = json.loads(key)
            return len(parts) if canonical_key(parts) == key else 1
        except (ValueError, RecursionError):  # ConditionError is one
            return 1
    return 1


def written_key(value: object) -> str:
    """The key as its author writes it, for showing it: a text unchanged, a number in digits (K17).

    The text is not compared: 19991231 may be a customer, and its canonical key is 1999-12-31. Errors: as
    `canonical_key`.
    """
    if isinstance(value, (tuple, list)):
        return json.dumps([written_key(part) for part in value], ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return _of_number(value)
    return _text_of(value)


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return _of_text(str.__str__(value))
    if isinstance(value, bool):
        return "true" if value else "false"  # K8
    if isinstance(value, (int, float, Decimal)):
        return _of_text(_of_number(value))
    if isinstance(value, datetime):  # before date: a datetime is one
        try:
            return _of_text(format_timestamp(value))
        except ValueError as error:
            raise ConditionError(f"key {value!r} cannot be compared: {error}") from error
    if isinstance(value, date):
        return value.isoformat()
    raise ConditionError(
        f"a key is a str, number, bool, date or datetime, not a {type(value).__name__}: give the single value"
        " to compare"
    )


def _of_text(text: str) -> str:
    if len(text) < len("20261120"):
        return text
    # K2, K5; K3, K4, K10: numerals, dates and all other texts stay unchanged
    return compact_date(text) or canonical_timestamp(text) or text


def _of_number(number: int | float | Decimal) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        raise ConditionError(f"key {number} is not a finite number")
    if isinstance(number, int):
        if number.bit_length() > 4 * MAX_KEY_BYTES:  # more digits than the limit, and str() may refuse them
            raise ConditionError(f"key is an int of too many digits: at most {MAX_KEY_BYTES}")
        return str(int(number))
    exact = Decimal(repr(float(number))) if isinstance(number, float) else number
    if not exact.is_finite():
        raise ConditionError(f"key {exact} is not a finite number")
    if not exact:
        return "0"
    exponent = exact.as_tuple().exponent
    if exact.adjusted() > MAX_KEY_BYTES or (isinstance(exponent, int) and -exponent > MAX_KEY_BYTES):
        raise ConditionError(f"key is a number of too many digits: at most {MAX_KEY_BYTES}")
    text = format(exact, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _limited(text: str) -> str:
    if not text:
        raise ConditionError("a key cannot be empty")
    if "\0" in text:  # PostgreSQL, and so Airflow's XComs and confs, cannot hold it
        raise ConditionError(f"key {shown(text, 40)} holds a NUL character, which databases refuse")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ConditionError(
            f"key {shown(text)} is not valid Unicode: it holds half a surrogate pair"
        ) from error
    if size > MAX_KEY_BYTES:
        raise ConditionError(f"key {shown(text, 40)} has {size} bytes of UTF-8: at most {MAX_KEY_BYTES}")
    return text
