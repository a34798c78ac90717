"""Expressions that no event makes true are found; those that some event makes true are never refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interlock.conditions import ConditionError
from interlock.conditions.filters import Sql
from interlock.conditions.filters.cesql import compile  # noqa: A004
from interlock.conditions.filters.cesql.functions import WHITE_SPACE
from interlock.conditions.filters.cesql.like import compiled, covers, overlap, tokens

NEVER_TRUE = [
    ("EXISTS foo AND NOT EXISTS foo", "EXISTS foo and NOT EXISTS foo exclude each other: join them by OR"),
    ("UPPER(type) = 'abc'", "UPPER(type) is never 'abc', because it has no lower-case letters: write UPPER"),
    ("LENGTH(type) < 0", "LENGTH(type) is never below 0: compare it with a greater number"),
    ("LENGTH(type) = 'a'", "LENGTH(type) is never 'a', because it is an Integer: write a number, as in"),
    ("LENGTH(type) = '05'", "write a number, as in LENGTH(type) = 5"),
    ("STRING(LENGTH(type)) = 'a'", "because it is an Integer"),
    ("LENGTH(type) LIKE 'a%'", "it is an Integer"), ("LENGTH(type) IN (-1)", "never below 0"),
    ("-1 = LENGTH(type)", "never below 0"), ("NOT (LENGTH(type) >= 0)", "never below 0"),
    ("LENGTH(type) + 1 < 1", "LENGTH(type) + 1 is never below 1"),
    ("LENGTH(LEFT(type, 3)) > 3", "never above 3"), ("ABS(n) < 0", "never below 0"),
    ("n % 5 > 4", "above 4"),
    ("n > 2147483647", "n is never above 2147483647: compare it with a smaller number"),
    ("LEFT(n, 2) > 99", "never above 99"),
    ("CONCAT('a', n) > 5", "is never an Integer: compare it with a text"),
    ("(n = 1) = 5", "n = 1 is never above 1"),
    ("(n = 1) = 'yes'", "it is true or false: write TRUE or FALSE"),
    ("LOWER(type) = 'ABC'", "write LOWER(type) = 'abc'"), ("TRIM(type) = ' a'", "write TRIM(type) = 'a'"),
    ("UPPER(TRIM(type)) IN ('a', 'b')", "write UPPER(TRIM(type)) = 'A'"),
    ("LOWER(type) LIKE 'A%'", "because it has no upper-case letters: write LIKE 'a%'"),
    ("TRIM(type) LIKE '% '", "it has no white space at its ends: write another pattern"),
    ("LEFT(type, 3) = 'abcd'", "it has at most 3 characters: write another text"),
    ("CONCAT('a', n) = 'bc'", "it begins with 'a'"), ("type NOT LIKE '%'", "is always LIKE '%'"),
    ("5 = time", "time is never '5', because an event with it is not valid: write another value"),
    ("time = 'today'", "not valid"), ("specversion = '2.0'", "not valid"),
    ("specversion != '1.0'", "no event gives"), ("IS_INT(time)", "time is never an Integer"),
    ("NOT EXISTS id", "every event has id: leave out NOT EXISTS id"),
    ("n < n", "n is never less than itself"), ("type != type", "type is always equal to itself"),
    ("n AND NOT n", "n and NOT n exclude"), ("n XOR n", "exclude"), ("NOT (n OR NOT n)", "exclude"),
    ("n = 1 AND NOT (n = 1)", "n = 1 and n != 1 exclude"), ("n = 1 AND n = 2", "exclude"),
    ("n > 5 AND n < 3", "n > 5 and n < 3 exclude"), ("n > 5 AND n < 6", "exclude"),
    ("n < m AND m < n", "exclude"), ("n > 5 AND n = 'high'", "exclude"),
    ("n = 5 AND n LIKE 'x%'", "exclude"), ("5 = n AND n = 'x'", "exclude"),
    ("type LIKE 'a%' AND type LIKE 'b%'", "exclude"), ("type LIKE 'a' AND type = 'b'", "exclude"),
    ("type LIKE 'ab%' AND type NOT LIKE 'a%'", "exclude"), ("type = 'a' AND type LIKE 'b%'", "exclude"),
    ("type IN ('a', 'b') AND type = 'c'", "exclude"), ("type != 'a' AND type = 'a'", "exclude"),
    ("UPPER(type) = 'A' AND UPPER(type) = 'B'", "exclude"),
    ("LOWER(type) = 'abc' AND type = 'ABD'", "exclude"), ("LENGTH(type) > 5 AND type = 'abc'", "exclude"),
    ("LENGTH(type) < 3 AND type LIKE 'abcd%'", "exclude"),
    ("LEFT(type, 3) = 'abc' AND type LIKE 'x%'", "exclude"), ("UPPER(n) = 'X' AND n > 5", "exclude"),
    ("n = m AND n = 'x' AND m = 'y'", "n = m, n = 'x', m = 'y' exclude each other"),
    ("NOT EXISTS foo AND foo = 1", "exclude"), ("NOT EXISTS foo AND (foo = 1 OR TRUE)", "exclude"),
    ("NOT IS_INT(n) AND n > 5", "exclude"), ("subject > 5 AND subject LIKE 'a%'", "exclude"),
    ("(EXISTS n) = TRUE AND NOT EXISTS n", "exclude"), ("UPPER(type) = 'a' OR LENGTH(type) < 0", "write"),
    ("(type = 'a' OR n = 1) AND type != 'a' AND n != 1", "exclude"),
    ("n >= 6 AND n * 2 = 10", "n >= 6 and (n * 2) = 10 exclude"), ("n * 2 = 11", "no event gives"),
    ("n + 1 > 6 AND n < 6", "exclude"), ("3 - n > 0 AND n > 2", "exclude"), ("-n > 5 AND n > -6", "exclude"),
    ("n / 2 = 5 AND n > 11", "exclude"), ("n / -2 = 5 AND n > -10", "exclude"),
    ("ABS(n) = 5 AND n > 5", "exclude"), ("ABS(n) < 5 AND n > 4", "exclude"),
    ("ABS(n) > 5 AND n = 5", "exclude"),
    ("2 + n * 3 > 30 AND n < 10", "exclude"), ("1 + n - 3 + 2 = 4 AND n != 4", "exclude"),
    ("n * 2 >= 10 AND n IN (3, 4)", "exclude"), ("n * -2 > 10 AND n = -5", "exclude"),
    ("LENGTH(type) * 2 = 10 AND type = 'abc'", "exclude"), ("INT(n) + 1 = 3 AND n = 'x'", "exclude"),
]  # fmt: skip
MAYBE_TRUE = [
    "EXISTS foo OR NOT EXISTS foo", "UPPER(type) = 'ABC'", "LENGTH(type) < 1", "LENGTH(type) = '5'",
    "INT(LEFT(time, 4)) = 2026", "LENGTH(type) < 0 OR n", "EXISTS foo OR foo = 1",
    "UPPER(type) IN ('a', 'B')", "n > 5 AND n < 7", "n = 7 AND n = '07'", "n = TRUE AND n = 5",
    "n = 1 AND n = 'true'", "n LIKE 't%' AND n > 0", "UPPER(n) = 'TRUE' AND n > 0",
    "UPPER(type) = LOWER(type)", "NOT IS_INT(n) OR n > 5", "n = m AND m < n",
    "type LIKE 'a%' AND type LIKE '%b'", "(NOT NOT n) = 1 AND n = 5",
    "type LIKE 'a%' AND type NOT LIKE 'ab%'", "LEFT(n, 11) < -2147483647", "LOWER(type) = '\u03b1\u03c2'",
    "n NOT IN ('a') AND n NOT IN ('b')", "n % 5 = 4", "n / 2 = 2147483647 OR n", "TRIM(type) = 'a b'",
    "n >= 5 AND n * 2 = 10", "n / 2 = 5 AND n = 11", "n / 2 = 0 AND n = -1", "n * 0 = 0 AND n > 6",
    "n * 2 != 10 AND n = 6", "ABS(n) > 5 AND n < 0", "7 - n * 2 = 1 AND n = 3", "n + 1 = 2 AND n = 'true'",
    "n * 2 > 9 AND n < 6", "n % 3 = 1 AND n > 3", "100 / n = 5 AND n = 19",
    "n * n > 2147483646", "NOT (n = '5') AND n = 5", "CONCAT('-', n) < 0", "n != 'x' AND n != 'y'",
]  # fmt: skip


@pytest.mark.parametrize(("source", "reason"), NEVER_TRUE, ids=[source for source, _ in NEVER_TRUE])
def test_an_expression_that_no_event_makes_true_is_refused_with_the_reason(source: str, reason: str) -> None:
    """They were accepted, and no event could pass."""
    with pytest.raises(ConditionError) as caught:
        Sql(source)
    assert "is never true: " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("source", MAYBE_TRUE)
def test_an_expression_that_only_looks_as_if_it_is_never_true_is_accepted(source: str) -> None:
    Sql(source)


VALUES = [
    "a > 5", "5 < a", "a >= 6", "a < 3", "a = 5", "5 = a", "'5' = a", "'05' = a", "a = '5'", "a = '05'",
    "a = 'x'", "'x' = a", "a != 'x'", "a != 5", "a = TRUE", "TRUE = a", "a", "BOOL(a)", "IS_INT(a)",
    "IS_BOOL(a)", "EXISTS a", "EXISTS b", "a = b", "b = a", "a < b", "b < a", "a >= b", "a != b", "b = 'x'",
    "b > 0", "b", "a LIKE 'x%'", "a LIKE '5'", "a LIKE '%y'", "a LIKE '_'", "a LIKE '_%'", "a LIKE 't%'",
    "a NOT LIKE 'x%'", "a IN ('x', 5)", "a IN ('05', 'true')", "a NOT IN ('x', '5')", "a IN (b, 'x')",
    "LENGTH(a) > 1", "LENGTH(a) = 1", "LENGTH(a) = '1'", "LENGTH(a) < 1", "LENGTH(a) IN (1, '2', 'x')",
    "LENGTH(a) - 1 < 0", "UPPER(a) = 'X'", "UPPER(a) = 'XY'", "UPPER(a) LIKE 'T%'", "LOWER(a) = 'x'",
    "UPPER(a) > 4", "LOWER(a)", "TRIM(a) = 'x'", "TRIM(a) LIKE '%y'", "LEFT(a, 1) = 'x'",
    "LEFT(a, 2) = 'x'", "LEFT(a, 1) > 4", "RIGHT(a, 1) = 'y'", "RIGHT(a, 0) = ''",
    "SUBSTRING(a, 1, 1) = 'x'", "INT(a) = 5", "INT(a) > 5", "ABS(a) > 5", "ABS(a) = 5", "-a > 5", "-a < -5",
    "a + 1 > 6", "a * 2 = 10", "a / 2 = 2", "a % 2 = 1", "3 - a < -2", "a / -2 = 3", "a * -3 + 1 > 4",
    "ABS(a) < 6",
    "2 * a != 12", "ABS(a - 1) > 4", "1 + a + 1 = 7", "-a + 1 = 7", "INT(a) * 2 = 12", "LENGTH(a) * 2 = 4",
    "a - b = 0", "CONCAT(a, b) = 'xy'",
    "CONCAT('x', a) LIKE 'x%'", "CONCAT(a, 'y') = 'xy'", "CONCAT_WS('-', a, b) LIKE 'x-%'",
    "STRING(a) = 'x'", "STRING(INT(a)) = '5'", "(EXISTS a) = TRUE", "(a = 5) = 'true'", "(a = 5) != FALSE",
    "IS_INT(a) = IS_INT(b)", "(a > 5) IN (0, 'true')", "type = 'x'", "'5' = type", "type LIKE 'x%'",
    "type > 4", "type != 'x'", "type", "type IN ('x', '5')", "UPPER(type) = 'X'", "LENGTH(type) > 1",
    "EXISTS type", "type = a", "a = type", "IS_INT(type)",
]  # fmt: skip
EXPRESSIONS = st.recursive(
    st.sampled_from(VALUES),
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "AND", "OR", "XOR"]), inner),
        st.builds("({}) AND ({}) OR ({})".format, inner, inner, inner),
    ),
    max_leaves=5,
)
TEXTS = [
    None, "", "x", "X", "xy", "y", " x ", "xyy", "5", "05", "+5", "6", "-6", "-1", "0", "1", "2", "10",
    "true", "false", "TRUE", "False", "t", "x5", "99999999999",
]  # fmt: skip
TYPED: list[str | int | bool | None] = [*TEXTS, 5, 6, -6, 0, 1, True, False]
OTHERS = [None, "x", "y", "xy", "5", 5, "1", True]
EVENTS = [
    {"specversion": "1.0", "id": "1", "source": "/s", "type": type_}
    | {name: value for name, value in (("a", a), ("b", b)) if value is not None}
    for type_, a, b in product(
        ["x", "xy", "5", "6", "true"], TYPED, [None, "x", "y", "xy", "5", 5, "1", True]
    )
]


@given(EXPRESSIONS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_expression_that_an_event_makes_true_is_refused(source: str) -> None:
    found = compile(source)
    if found.never_true or found.errors:
        for event in EVENTS:
            assert found.evaluate(event) != (True, None), event


PATTERNS = st.text("ab%_", max_size=6)
WORDS = ["".join(each) for size in range(6) for each in product("abc", repeat=size)]


@given(PATTERNS, PATTERNS)
@settings(max_examples=60, deadline=None)
def test_two_patterns_overlap_or_cover_as_the_texts_that_match_them(one: str, other: str) -> None:
    first, second = compiled(one), compiled(other)
    if any(first(word) and second(word) for word in WORDS):
        assert overlap(tokens(one), tokens(other))
    if covers(tokens(one), tokens(other)):
        assert all(first(word) for word in WORDS if second(word))


@pytest.mark.parametrize("change", [str.upper, str.lower], ids=["upper", "lower"])
def test_a_text_in_a_letter_case_stays_as_it_is(change: Callable[[str], str]) -> None:
    """What bounds.py relies on, for each character of Unicode: also that no white space appears."""
    for each in map(chr, range(0x110000)):
        changed = change(each)
        if changed != each:
            assert changed
            assert all(change(part) == part for part in changed)
            assert len(changed) <= 3
            assert each not in WHITE_SPACE
            assert not set(changed) & set(WHITE_SPACE)


@pytest.mark.parametrize(
    "source",
    [
        " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(60)),
        " OR ".join(f"n = {n}" for n in range(120)) + " OR n AND NOT n",
        "(" + " OR ".join(f"n = {n}" for n in range(100)) + ") AND n > 300",
        " XOR ".join(["n"] * 250),
        "n LIKE '" + "a%" * 900 + "' AND n LIKE '" + "b%" * 900 + "'",
    ],
    ids=["two-each", "or", "many", "xor", "patterns"],
)
def test_the_search_ends_for_long_expressions(source: str) -> None:
    compile(source)
