"""Texts that look like the wanted one but are not equal: the explanation says how they differ."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import EMPTY, Matcher, event, explain
from interlock.conditions.explanation.likeness import difference, look_of
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.filters import Exact, Prefix, Sql, Suffix
from interlock.events import Event

NOON_MS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
NFC, NFD = "Z\u00fcrich", "Zu\u0308rich"


def reason_shown(matcher: Matcher, key: str | None = None, **given: Any) -> str:
    """The line of the near miss, without the event."""
    seen = Event.of(given.pop("type", "t"), "/s", id="e", **given)
    [found] = explain(matcher, EMPTY, NOON_MS, [seen], key).near_misses
    [miss] = found.misses
    return str(miss).split(": ", 1)[1]


@pytest.mark.parametrize(("here", "wanted"), [(NFD, NFC), (NFC, NFD)])
@pytest.mark.parametrize("filter_", [Exact, Prefix, Suffix])
def test_a_subject_in_another_unicode_form_is_shown_with_both_forms(
    here: str, wanted: str, filter_: Any
) -> None:
    """A subject in NFC against NFD looks identical (a producer on macOS writes file names in NFD)."""
    line = reason_shown(event("t", filters=[filter_(subject=wanted)]), subject=here)
    assert "its subject differs only in its Unicode form" in line
    assert '"Zu\\u0308rich" (NFD)' in line
    assert '"Z\\u00fcrich" (NFC)' in line


@pytest.mark.parametrize(
    "matcher",
    [
        event("t", filters=[Sql(f"subject = '{NFC}'")]),
        event("t", filters=[AnyFilter(Exact(subject=NFC), Exact(subject="x"))]),
        event("t", where=f"event.subject == '{NFC}'"),
        event("t", where=f"data.city == '{NFC}'"),
    ],
    ids=["sql", "any", "where on an attribute", "where on data"],
)
def test_the_unicode_form_is_also_shown_where_a_term_compares_several_values(matcher: Matcher) -> None:
    """The same difference behind Sql, Any and where, which show no value."""
    assert "only in its Unicode form" in reason_shown(matcher, subject=NFD, data={"city": NFD})


def test_a_value_in_quotation_marks_is_named() -> None:
    """A client that writes headers as JSON sends them with the text (zarusz/SlimMessageBus#155)."""
    line = reason_shown(event("com.shop.order"), type='"com.shop.order"')
    assert "its type differs only in quotation marks around it" in line
    assert "the key differs only in quotation marks" in reason_shown(
        event("t", by="subject"), "7", subject='"7"'
    )


def test_a_key_in_another_unicode_form_is_shown_with_both_forms() -> None:
    """key Zürich here, Zürich wanted: nobody sees the difference."""
    assert "the key differs only in its Unicode form" in reason_shown(
        event("t", by="subject"), NFC, subject=NFD
    )


@pytest.mark.parametrize(
    ("here", "how"),
    [
        ("orders ", "only in spaces at its beginning or end"),
        ("\u00a0orders", "only in spaces at its beginning or end"),
        ("Orders", "only in upper and lower case"),
        (
            "ord\u0435rs",
            "in character 4: U+0435 CYRILLIC SMALL LETTER IE here, U+0065 LATIN SMALL LETTER E wanted",
        ),
        ("ord\u200bers", "in character 4: U+200B ZERO WIDTH SPACE here, U+0065 LATIN SMALL LETTER E wanted"),
        ("orders\u200b", "in character 7: U+200B ZERO WIDTH SPACE here, nothing wanted"),
        (
            "\ufefforders",
            "in character 1: U+FEFF ZERO WIDTH NO-BREAK SPACE here, U+006F LATIN SMALL LETTER O wanted",
        ),
        (
            "\uff4frders",
            "in character 1: U+FF4F FULLWIDTH LATIN SMALL LETTER O here, U+006F LATIN SMALL LETTER O wanted",
        ),
    ],
)
def test_a_text_that_looks_like_the_wanted_one_is_shown_with_the_difference(here: str, how: str) -> None:
    """Spaces, letters of other scripts and invisible characters, as copied from pages or chats."""
    assert f"its subject differs {how}" in reason_shown(event("t", subject="orders"), subject=here)
    assert f"its data.name differs {how}" in reason_shown(
        event("t", where="data.name == 'orders'"), data={"name": here}
    )


@pytest.mark.parametrize(
    ("here", "wanted", "how"),
    [
        (" Orders", "orders", "in upper and lower case, and in spaces at its beginning or end"),
        ("STRASSE", "strasse", "only in upper and lower case"),
        ("\ufb01le", "file", "in character 1: U+FB01 LATIN SMALL LIGATURE FI here, U+0066"),
        ("stra\u00dfe", "strasse", "in character 5: U+00DF LATIN SMALL LETTER SHARP S here, U+0073"),
        ("order\u017f", "orders", "in character 6: U+017F LATIN SMALL LETTER LONG S here, U+0073"),
        ("\u00b5s", "\u03bcs", "in character 1: U+00B5 MICRO SIGN here, U+03BC GREEK SMALL LETTER MU"),
    ],
)
def test_only_letters_of_another_case_are_told_as_such(here: str, wanted: str, how: str) -> None:
    """A ligature and a sharp s were told as "only in upper and lower case", and spaces beside case were not
    told."""
    found = difference(here, wanted)
    assert found is not None
    assert found.startswith(how)


def test_a_dash_is_distinguished_from_a_hyphen() -> None:
    """A date copied from a page that has an en dash."""
    line = reason_shown(event("t", by="subject"), "2026-11-20", subject="2026\u201311\u201320")
    assert "the key differs in character 5: U+2013 EN DASH here, U+002D HYPHEN-MINUS wanted" in line


def test_texts_with_outer_spaces_are_quoted_wherever_they_stand() -> None:
    """`subject="orders "` was shown without quotes."""
    line = reason_shown(event("t", subject="orders"), subject="orders ")
    assert 'refused its subject, "orders "' in line
    assert reason_shown(event("t", subject="orders"), subject="none").startswith(
        'Exact(subject="orders") refused its subject, "none"'
    )
    assert reason_shown(event("t", by="subject"), "k", subject=" k").startswith('key " k" here, k wanted')
    spaced = Event.of("t", "/s", id="e ", subject="b")
    assert '"e " of /s' in str(explain(event("t", subject="a"), EMPTY, NOON_MS, [spaced]))
    assert 'key " k",' in str(explain(event("t", by="subject"), EMPTY, NOON_MS, key=" k"))
    assert '[ ] "a ": nothing' in str(explain(event("t", label="a "), EMPTY, NOON_MS))


def test_long_values_that_differ_beyond_what_is_shown_are_shown_with_the_place() -> None:
    """Two long paths, the same in the first 80 characters."""
    line = reason_shown(event("t", subject="a" * 100 + "b"), subject="a" * 100 + "c")
    assert 'its subject differs from character 101 on: "c" here, "b" wanted' in line


@pytest.mark.parametrize(
    ("where", "data", "how"),
    [
        ("data.rows == 5", {"rows": "5"}, "its data.rows is a text, and a number is wanted"),
        ("data.day == '5'", {"day": 5}, "its data.day is a number, and a text is wanted"),
        ("data.a.b == 'x'", {"a": {"b": ["x"]}}, "its data.a.b is a list, and a text is wanted"),
        ("data.a in ['x', 'y']", {"a": ["x"]}, "its data.a is a list, and a text is wanted"),
        ("data.a in ['x', 5]", {"a": True}, "its data.a is a boolean, and a text or a number is wanted"),
        ("'x' in data.a", {"a": "x"}, "its data.a is a text, and a list or an object is wanted"),
        ("data.on == true", {"on": "true"}, "its data.on is a text, and a boolean is wanted"),
        ("data.on == true && data.b == 1", {"on": 1}, "its data.on is a number, and a boolean is wanted"),
        ("data.n > 100", {"n": "150"}, "its data.n is a text: write double(data.n)"),
        ("100 >= data.n", {"n": "15"}, "its data.n is a text: write double(data.n)"),
        ("data.n > 5 || data.a == 'x'", {"n": "7", "a": "y"}, "its data.n is a text: write double(data.n)"),
        ("event.subject == data.n", {"n": 5}, "its event.subject is a text, and its data.n is a number"),
        ("data.a in ['EUR', 'GBP']", {"a": "eur"}, "its data.a differs only in upper and lower case"),
    ],
)
def test_a_value_of_another_kind_than_the_predicate_compares_is_shown(
    where: str, data: Any, how: str
) -> None:
    """A number that a producer writes as a text is never equal to the number, and looks like it.

    argoproj/argo-events#955, floci-io/floci#1889: lists, booleans and numbers that a filter took for texts.
    """
    assert how in reason_shown(event("t", where=where), subject="5", data=data)


@pytest.mark.parametrize(
    ("where", "data"),
    [
        ("data.a in ['x', 'y'] && data.b == 1", {"a": "y", "b": 2}),
        ("data.a == null && data.b == 1", {"a": None, "b": 2}),
        ("data.n > 5 || data.a == 'x'", {"n": "many", "a": "y"}),
        ("data.l.exists(data, data.n == 5)", {"l": [{"n": "5"}]}),
    ],
)
def test_a_value_that_did_not_refuse_the_event_is_not_commented(where: str, data: Any) -> None:
    line = reason_shown(event("t", where=where), data=data)
    assert not any(word in line for word in ("wanted", "differs", "its "))


def test_texts_that_look_different_are_not_commented() -> None:
    assert (
        reason_shown(event("t", subject="eur"), subject="usd")
        == 'Exact(subject="eur") refused its subject, usd'
    )
    assert reason_shown(event("t", where="data.a == 'x'"), data={"a": "SECRET"}).endswith("refused it")


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(words, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_each_unicode_form_of_a_text_looks_like_it(text: str, form: Any) -> None:
    other = unicodedata.normalize(form, text)
    assert look_of(other) == look_of(text)
    assert (difference(other, text) is None) == (other == text)


@given(words, words)
def test_a_difference_is_explained_only_for_unequal_texts_that_look_alike(here: str, wanted: str) -> None:
    if difference(here, wanted) is not None:
        assert here != wanted
        assert look_of(here) == look_of(wanted)
