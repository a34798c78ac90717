"""Invalid texts, the limits of an expression, and the parser."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from interlock.conditions import ConditionError
from interlock.conditions.filters.cesql import (
    MAX_CHARS,
    MAX_DEPTH,
    MAX_TERMS,
    compile,  # noqa: A004
    parser,
)
from interlock.conditions.grammar import Grammar

NO_DATA = 'data cannot be read here: use where, as in event(where="data.x == 1")'


def case(text: str, column: int, what: str, id: str = "") -> object:  # noqa: A002
    return pytest.param(text, column, what, id=id or text)


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        case("", 1, "expected a value, found the end", id="empty"),
        case(" \n", 3, "expected a value, found the end", id="blank"),
        case("level =", 8, "expected a value, found the end"),
        case("level == 1", 8, "write one =, not =="),
        case("level 1", 7, "expected an operator, found '1'"),
        case("level\n=\n?", 9, "expected a value, found '?'", id="lines-count-as-characters"),
        case("LENGTH(", 8, "expected a value, found the end"),
        case("(level = 1", 11, "expected ')', found the end"),
        case("level = 1)", 10, "expected the end, found ')'"),
        case("level = '(' x", 13, "expected an operator, found 'x'"),
        case("x LIKE 5", 8, "expected a string in quotes, found '5'"),
        case("x LIKE y", 8, "expected a string in quotes, found 'y'"),
        case("x NOT = 1", 7, "expected LIKE or IN, found '= 1'"),
        case("x IN ()", 7, "expected a value, found ')'"),
        case("x IN 1", 6, "expected '(', found '1'"),
        case("EXISTS 'x'", 8, "expected the name of an attribute, found \"'x'\""),
        case("EXISTS (x)", 8, "expected the name of an attribute, found '(x)'"),
        case("LEFT(x, )", 9, "expected a value, found ')'"),
        case("a1(x)", 3, "expected an operator, found '(x)'"),
        case("my_level = 1", 3, "names of attributes have only letters and digits"),
        case("x IS NULL", 3, "write NOT EXISTS before the name instead of IS NULL"),
        case("NOT x is  not null", 7, "write EXISTS before the name instead of IS NOT NULL"),
        case("x BETWEEN 1 AND 5", 3, "write x >= 1 AND x <= 5 for x BETWEEN 1 AND 5"),
        case("x NOT ILIKE 'a%'", 7, "write LOWER(x) LIKE 'a%' for x ILIKE 'a%'"),
        case("x RLIKE '^a'", 3, "write where=, as in event.x.matches('^a')"),
        case("x > 1.5", 6, 'there are only whole numbers here: write where="double(event.x) > 1.5"'),
        case("x1.5 = 2", 3, "expected an operator, found '.5 = 2'"),
        case("isnull = 1 nullable", 12, "expected an operator, found 'nullable'"),
        case("my-level.x = 1", 9, "expected an operator, found '.x = 1'"),
        case("and = 1", 1, "expected a value, found 'and = 1'"),
        case("like('x')", 1, "expected a value, found \"like('x')\""),
        case("EXISTS in", 8, "expected the name of an attribute, found 'in'"),
        case("+x", 1, "expected a value, found '+x'"),
        case("x = 'y", 5, "this string is not closed"),
        case("x = 'y\\'", 5, "this string is not closed"),
        case('x = "y\'', 5, "this string is not closed"),
        case("'it''s'", 5, "text after the end of a string; write \\' for a quote in it"),
        case("x = 2147483648", 5, "'2147483648' does not fit an Integer of 32 bits"),
        case("-2147483649", 1, "'-2147483649' does not fit an Integer of 32 bits"),
        case("- 2147483648", 3, "'2147483648' does not fit an Integer of 32 bits"),
        case("x = 1 AND data = 1", 11, NO_DATA),
        case("data.x = 1", 5, NO_DATA),
        case("x = 1 AND Data.x = 1", 15, NO_DATA),
        case("event.level = 1", 6, "write the attribute's name alone, without event."),
        case("x == 1", 4, "write one =, not =="),
        case("INT(x) == 1", 9, "write one =, not =="),
        case("x = 1 && y = 2", 7, "write AND for &&"),
        case("x = 1 & y = 2", 7, "write AND for &"),
        case("x = '&&' || y = 2", 10, "write OR for ||"),
        case("!(x = 1)", 1, "write NOT for !"),
        case("x = 1 AND ! y", 11, "write NOT for !"),
        case("mydata.x = 1", 7, "expected an operator, found '.x = 1'"),
        case("x li\u212ae 'y'", 3, "expected an operator, found \"li\u212ae 'y'\"", id="kelvin-sign"),
        case("\u0661", 1, "expected a value, found '\u0661'", id="other-digit"),
        case("x\u00a0= 1", 2, "expected an operator, found '\\xa0= 1'", id="other-space"),
        case("\ud800", 1, "expected a value, found '\\ud800'", id="half-a-surrogate-pair"),
    ],
)  # fmt: skip
def test_the_error_names_the_column_and_what_was_expected(text: str, column: int, what: str) -> None:
    with pytest.raises(ConditionError) as raised:
        compile(text)
    assert str(raised.value) == f"CESQL expression {text!r}, column {column}: {what}"


def test_a_long_expression_is_shortened_in_its_error() -> None:
    with pytest.raises(ConditionError) as raised:
        compile("x = 1 AND " * 300 + "?" * 500)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("value", [None, 1, True, b"TRUE"])
def test_what_is_no_string_is_refused(value: object) -> None:
    with pytest.raises(ConditionError, match="a CESQL expression is a string, this is "):
        compile(value)  # type: ignore[arg-type]


def test_the_length_is_limited() -> None:
    assert compile("TRUE".ljust(MAX_CHARS)).evaluate({}) == (True, None)
    with pytest.raises(ConditionError, match=f"has {MAX_CHARS + 1} characters: at most {MAX_CHARS}"):
        compile("TRUE".ljust(MAX_CHARS + 1))


@pytest.mark.parametrize(
    ("before", "inner", "after"),
    [("(", "1", ")"), ("- ", "x", ""), ("NOT ", "x", ""), ("INT(", "x", ")"),
     ("", "x", " LIKE '1'"), ("", "1", "=1"), ("1 IN (", "1", ")")],
    ids=["parentheses", "minus", "not", "calls", "like", "comparisons", "sets"],
)  # fmt: skip
def test_the_depth_is_limited(before: str, inner: str, after: str) -> None:
    levels = MAX_DEPTH - 1
    compile(before * levels + inner + after * levels).evaluate({"x": "1"})
    for levels in (MAX_DEPTH, MAX_CHARS // len(before + after) - 1):
        limit = f"nested more than {MAX_DEPTH} levels deep|terms: at most {MAX_TERMS}"
        with pytest.raises(ConditionError, match=limit if levels > MAX_DEPTH else limit.split("|")[0]):
            compile(before * levels + inner + after * levels)


@pytest.mark.parametrize(
    ("term", "joint"),
    [("1", "+"), ("a", "*"), ("'o\\'r, x'", " OR "), ("EXISTS a", " and "), ("NOT true", " XOR "),
     ("''", ","), ("CONCAT()", ","), ("a LIKE", " 'x' AND ")],
)  # fmt: skip
def test_the_number_of_terms_is_limited(term: str, joint: str) -> None:
    def chain(terms: int) -> str:
        text = joint.join([term] * terms)
        return text + " 'x'" if "LIKE" in term else f"CONCAT({text})"

    most = MAX_TERMS // 2 if "LIKE" in term else MAX_TERMS - 1  # the call is one
    compile(chain(most)).evaluate({"a": "1"})
    with pytest.raises(ConditionError, match=f" terms: at most {MAX_TERMS}"):
        compile(chain(most + 1))


def test_the_parser_is_built_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    real = parser.Builder
    monkeypatch.setattr(parser, "Builder", lambda: built.append(1) or real())
    grammar = Grammar(parser.__package__ or "", "cesql.lark", parser.options)
    monkeypatch.setattr(parser, "grammar", grammar)
    with ThreadPoolExecutor(8) as pool:
        compiled = list(pool.map(compile, [f"x = {n} OR x IN ({n})" for n in range(40)]))
    assert [one.evaluate({"x": "5"}).value for one in compiled] == [n == 5 for n in range(40)]
    assert len(built) == 1


def test_the_parser_library_is_loaded_with_the_first_expression() -> None:
    program = (
        "import sys; from interlock.conditions.filters import cesql; assert 'lark' not in sys.modules;"
        " cesql.compile('1'); assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
