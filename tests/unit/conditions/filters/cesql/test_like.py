"""Patterns of LIKE, compared with a search that tries every possibility."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from interlock.conditions.filters.cesql.like import compiled


@pytest.mark.parametrize(
    ("pattern", "like", "unlike"),
    [
        pytest.param("", [""], ["a"], id="empty"),
        pytest.param("ab", ["ab"], ["AB", "abc", "xab", ""], id="literal"),
        pytest.param("%", ["", "a", "a\nb"], [], id="all"),
        pytest.param("%%", ["", "a"], [], id="all-twice"),
        pytest.param("_", ["a", "\n", "\U0001f6b2", "%"], ["", "ab"], id="one"),
        pytest.param("a%", ["a", "ab"], ["", "ba"], id="prefix"),
        pytest.param("%a", ["a", "ba", "aa"], ["", "ab"], id="suffix"),
        pytest.param("%a%", ["a", "bab"], ["", "b"], id="within"),
        pytest.param("ab%ba", ["abba", "abxba"], ["aba", "ab"], id="ends-do-not-overlap"),
        pytest.param("a%b%c", ["abc", "a-bc-b-c"], ["ac", "acb", "abcx"], id="in-order"),
        pytest.param("a%b%b", ["abb", "axbxb"], ["axb", "axxb"], id="within-ends-before-the-end"),
        pytest.param("%a_b%", ["aab", "xaxbx", "aaab"], ["ab", "aba"], id="gap-within"),
        pytest.param("%_", ["a", "ab"], [""], id="at-least-one"),
        pytest.param("_%_", ["ab", "abc"], ["", "a"], id="at-least-two"),
        pytest.param("a_%c", ["abc", "abbc"], ["ac"], id="gap-at-the-start"),
        pytest.param("100\\%", ["100%"], ["100", "1000", "100\\%"], id="escaped-percent"),
        pytest.param("a\\_b", ["a_b"], ["axb", "a\\_b"], id="escaped-underscore"),
        pytest.param("a\\b", ["a\\b"], ["ab"], id="backslash"),
        pytest.param("a\\", ["a\\"], ["a"], id="backslash-at-the-end"),
        pytest.param("\\\\%", ["\\%"], ["\\", "\\x", "\\\\%"], id="backslash-before-an-escape"),
        pytest.param("a.c*", ["a.c*"], ["abc", "a.cc"], id="no-regular-expression"),
    ],
)
def test_a_pattern_distinguishes_like_from_unlike(pattern: str, like: list[str], unlike: list[str]) -> None:
    matches = compiled(pattern)
    assert [text for text in like if not matches(text)] == []
    assert [text for text in unlike if matches(text)] == []


def naive(text: str, pattern: str) -> bool:
    """True if the text matches, by trying every length for each %."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(naive(text[start:], pattern[1:]) for start in range(len(text) + 1))
    if pattern[0] == "_":
        return bool(text) and naive(text[1:], pattern[1:])
    if pattern[:2] in ("\\%", "\\_"):
        return text[:1] == pattern[1] and naive(text[1:], pattern[2:])
    return text[:1] == pattern[0] and naive(text[1:], pattern[1:])


@given(st.text("ab%_\\\n", max_size=10), st.text("ab%_\\", max_size=9))
@example("aab", "%a_%b")
def test_a_pattern_matches_what_trying_every_way_finds(text: str, pattern: str) -> None:
    assert compiled(pattern)(text) is naive(text, pattern)


@pytest.mark.parametrize(
    "pattern",
    ["%a" * 1000 + "b", "%a_" * 1000 + "b%", "%" + "a" * 1000 + "_" + "a" * 1000 + "b%", "%_" * 1000 + "b"],
    ids=["letters", "gaps", "long-piece", "any"],
)
def test_a_pattern_made_to_be_slow_ends(pattern: str) -> None:
    """Trying every possibility would take far too long."""
    assert compiled(pattern)("a" * 16_384) is False
