"""Which charsets a content type may choose, and how deep JSON may be: both are the sender's."""

from __future__ import annotations

import codecs
import encodings.aliases
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from interlock.events import EventError, content

KNOWN = sorted(
    {*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "idna", "undefined", "mbcs", "punycode"}
)
# Codecs of which each byte is read once.
LINEAR = {
    "utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "koi8-r",
    "koi8-u", "shift_jis", "euc_jp", "euc_kr", "big5", "gb2312", "gbk", "gb18030",
    "cp874", *(f"cp{page}" for page in range(1250, 1259)), *(f"iso8859-{part}" for part in range(1, 17)),
}  # fmt: skip


def used_by(text: str) -> str | None:
    """The codec of this charset; None if the charset is refused."""
    try:
        content.parse(b"", f"text/plain; charset={text}")
    except EventError:
        return None
    return codecs.lookup(content._codec(f"text/plain; charset={text}")).name


class Point:
    pass


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"a": [{"due": datetime(2026, 11, 20, tzinfo=UTC)}]}, "data.a[0].due is a datetime: give a text"),
        ({"due": date(2026, 11, 20)}, "data.due is a date: give a text"),
        (Decimal("1.10"), "data is a Decimal: give a dict"),
        ({"price": [1.0, float("nan")]}, "data.price[1] is NaN or Infinity: give a finite number"),
        ({"ids": {1}}, "data.ids is a set: give a list"),
        ({"body": b"x"}, "data.body is a bytes: give a text; only bytes that are the whole data"),
        ({"a": {(1, 2): 3}}, "data.a has a name that is a tuple: give texts"),
        ({"for": timedelta(1)}, "data.for is a timedelta: give a number"),
        ((Point(),), "data[0] is a Point: give a dict"),
        ({1: "a", "1": "b"}, "data has two names that JSON writes as the same text, an int and a str: give"),
        ({"a": [{"true": 1, True: 2}]}, "data.a[0] has two names that JSON writes as the same text"),
        ({"a": {None: 1, "null": 2}}, "data.a has two names that JSON writes as the same text"),
        ({"a": {0.5: 1, "0.5": 2}}, "data.a has two names that JSON writes as the same text"),
    ],
)  # fmt: skip
def test_data_that_json_does_not_have_are_named_with_what_to_give(data: Any, sentence: str) -> None:
    """The kind of apache/airflow#13414: "Object of type datetime is not JSON serializable", and not where."""
    with pytest.raises(EventError) as raised:
        content.serialize(data, None)
    assert str(raised.value).startswith(f"data cannot be written as JSON: {sentence}")


def test_names_that_are_no_texts_are_written_as_texts_if_each_is_another() -> None:
    assert content.serialize({1: "a", "2": {None: 0, True: 1}}, None) == b'{"1":"a","2":{"null":0,"true":1}}'


def test_a_name_twice_is_found_at_any_level() -> None:
    deep: Any = {1: 0, "1": 0}
    for _ in range(300):
        deep = [deep]
    with pytest.raises(EventError, match="two names that JSON writes as the same text"):
        content.serialize(deep, None)


def test_data_that_hold_themselves_end_in_an_error_at_once() -> None:
    held: list[Any] = []
    held += [held, held]
    with pytest.raises(EventError, match="data cannot be written as JSON: Circular reference"):
        content.serialize(held, None)


def test_a_name_in_data_does_not_make_an_error_long() -> None:
    with pytest.raises(EventError) as raised:
        content.serialize({"x" * 10_000: {"y": object()}}, None)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("name", KNOWN)
def test_no_charset_chooses_a_codec_that_is_not_listed(name: str) -> None:
    """`charset=punycode` or `idna` took 0.7 s for 64 kB."""
    for spelled in (name, name.upper(), name.replace("_", "-"), f'"{name}"'):
        assert used_by(spelled) in LINEAR | {None}


@pytest.mark.parametrize(
    "name",
    [
        "punycode",
        "idna",
        "utf-7",
        "unicode_escape",
        "raw_unicode_escape",
        "rot13",
        "hex",
        "zip",
        "aliases",
        "x",
    ],
)
def test_these_are_refused_in_both_directions(name: str) -> None:
    for act in (lambda kind: content.parse(b"a-", kind), lambda kind: content.serialize("a-", kind)):
        with pytest.raises(EventError, match=f"the charset '{name}' is not supported; send UTF-8"):
            act(f"text/plain; charset={name}")


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("UTF-8", "ü"), ("utf8", "ü"), ("us-ascii", "u"), ("latin-1", "ü"), ("ISO-8859-1", "ü"),
        ("iso-8859-15", "€"), ("iso-8859-5", "Ж"), ("windows-1252", "€"), ("cp1251", "Ж"), ("koi8-r", "Ж"),
        ("utf-16", "東"), ("utf-16le", "東"), ("Shift_JIS", "東"), ("euc-jp", "東"), ("euc-kr", "가"),
        ("Big5", "東"), ("GB18030", "東"),
    ],
)  # fmt: skip
def test_text_in_a_listed_charset_is_read_as_it_was_written(charset: str, text: str) -> None:
    kind = f"text/csv; header=present; charset={charset}"
    assert content.parse(content.serialize(text, kind), kind) == text


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


TEXTS = st.text('[]{}"\\\\a ', max_size=4)
NESTED = st.recursive(
    TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@given(NESTED, st.integers(0, 8), st.sampled_from([(",", ":"), (" , ", " : ")]))
@example([[[1]], "]", '"]', "\\"], 0, (",", ":"))
def test_levels_are_those_of_the_value_whatever_its_texts_hold(
    value: Any, around: int, marks: tuple[str, str]
) -> None:
    for _ in range(around):
        value = ["[", value]
    text = json.dumps(value, separators=marks).encode()
    for most in range(1, 12):
        with patch.object(content, "MOST_LEVELS", most):
            assert content.is_deep(text) == (levels(value) > most)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("data", ['{"rows": %s}', "[1,%s]", '{"a": %s , "b": 1}'])
def test_a_constant_that_json_does_not_have_is_named(constant: str, data: str) -> None:
    """Python writes it. The error named only the number of a byte (apache/openwhisk-package-kafka#319)."""
    with pytest.raises(
        EventError, match=rf"It seems to have {constant}, which JSON does not have: send null"
    ):
        content.parse_json((data % constant).encode())
    with pytest.raises(EventError, match="not valid JSON") as raised:
        content.parse_json(b'{"name": "NaN", "n": 1,}')
    assert "NaN" not in str(raised.value)
