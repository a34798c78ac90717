"""What is known of a CESQL expression before an event: its type, its attributes, whether it can be true."""

from __future__ import annotations

import pytest
from interlock.conditions.filters.cesql import compile  # noqa: A004


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("a", None), ("(a)", None), ("a = 1", bool), ("a LIKE 'x'", bool), ("a + 1", int), ("-a", int),
     ("LEFT(a, 1)", str), ("LENGTH(a)", int), ("nosuch(a)", bool), ("'x'", str), ("true", bool)],
)  # fmt: skip
def test_the_kind_of_the_result_is_known_before_an_event(expression: str, kind: type | None) -> None:
    assert compile(expression).kind is kind


def test_an_expression_knows_the_attributes_it_reads() -> None:
    expression = compile("(B = 1 AND EXISTS a) OR LEFT(c, 1) IN (d, 'x') OR nosuch(b, -e) OR f LIKE 'g'")
    assert expression.attributes == ("a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("time > '2026-01-01T00:00:00Z'", "CastError: attribute time is never an Integer"),
        ("level > 'high'", "CastError: 'high' is not an Integer; <, <=, > and >= compare"),
        ("'b' <= level", "CastError: 'b' is not an Integer"),
        ("level + 'x' = 1", "CastError: 'x' is not an Integer"),
        ("-'x' = level", "CastError: 'x' is not an Integer"),
        ("time > 1700000000", "CastError: attribute time is never an Integer"),
        ("time = 5", "CastError: attribute time is never an Integer: compare it with a text, as in"),
        ("INT(time) = 5", "CastError: attribute time is never an Integer: compare it with a text, as in"),
        ("level = 1 OR BOOL(time)", "CastError: attribute time is never a Boolean"),
        ("dataschema = 5", "CastError: attribute dataschema is never an Integer"),
        ("INT('x') = level", "CastError: 'x' is not an Integer"),
        ("ABS('x') = level", "CastError: 'x' is not an Integer"),
        ("LEFT(subject, 'x') = 'a'", "CastError: 'x' is not an Integer"),
        ("LEFT(subject, -1) = 'a'", "FunctionEvaluationError: LEFT of -1 characters"),
        ("RIGHT(subject, 1 - 2) = 'a'", "FunctionEvaluationError: RIGHT of -1 characters"),
        ("SUBSTRING(subject, 1, -1) = 'a'", "FunctionEvaluationError: SUBSTRING of -1 characters"),
        ("SUBSTRING('abc', 7) = subject", "FunctionEvaluationError: SUBSTRING from position 7"),
        ("level / 0 = 1", "MathError: x / 0"),
        ("level % (1 - 1) = 1", "MathError: x % 0"),
        ("2147483647 + 1 = level", "MathError: 2147483647 + 1"),
        ("'x' AND flag", "CastError: 'x' is not a Boolean"),
        ("NOT 'x' = flag", "CastError: 'x' is not a Boolean"),
        ("BOOL('x') = flag", "CastError: 'x' is not a Boolean"),
        ("INT(level) IN ('a', 1)", "CastError: 'a' is not an Integer"),
        ("flag OR level / 0 = 1", "MathError: x / 0"),
    ],
)
def test_an_expression_names_its_parts_that_fail_on_every_event(expression: str, error: str) -> None:
    """Reference: CloudEvents SQL 1.0, section 3.3, "error checks SHOULD be done at compile time"."""
    errors = compile(expression).errors
    assert any(each.startswith(error) for each in errors), errors


@pytest.mark.parametrize(
    "expression",
    [
        "id", "(subject)", "time", "LENGTH(subject)", "level + 1", "'x'",
        "level = 1 AND FALSE", "FALSE AND level = 1", "NOT (level = 1 OR TRUE)", "NOT EXISTS id",
        "type = 'a' AND type = 'b'", "(type = 'a') AND EXISTS n AND (type = 'b' AND n = 1)",
        "n = 1 AND n = 2",
        "TRUE XOR EXISTS id", "specversion = '2.0'", "INT(level) NOT IN ('1', 'a')", "EXISTS n AND 0",
    ],
)  # fmt: skip
def test_an_expression_says_that_no_event_gives_true(expression: str) -> None:
    """They were accepted, and no event could pass."""
    assert compile(expression).never_true


@pytest.mark.parametrize(
    "expression",
    [
        "flag", "(flag)", "NOT flag", "NOT id", "EXISTS n", "n AND flag", "BOOL(id)", "subject = TRUE",
        "id = 5",
        "level = 1 OR FALSE", "TRUE AND level = 1", "type = 'a' OR type = 'b'", "type = 'a' AND id = 'b'",
        "n = 7 AND n = '07'", "type = 'a' AND type != 'b'", "NOT (type = 'a' AND type = 'b')",
        "INT(level) IN (1, 'a')", "level IN ('a', 1)", "SUBSTRING(subject, 9) = 'x'",
        "LEFT(subject, n) = 'x'",
        "CONCAT(a, b, c) = 'x'", "time LIKE '2026-%'", "time IN ('2026-11-20T06:00:00Z')",
        "UPPER(CONCAT(a, b)) = 'X'",
        "level > 5",
        "type = 'a' XOR type = 'b'", "NOT EXISTS time", "EXISTS time AND NOT EXISTS specversiontwo",
        "(EXISTS a = TRUE) AND (a = 'x')",
    ],
)  # fmt: skip
def test_an_expression_that_may_give_true_has_no_such_mark(expression: str) -> None:
    found = compile(expression)
    assert (found.never_true, found.errors) == (False, ())


def test_an_expression_names_its_calls_of_unknown_functions() -> None:
    assert compile("LENGTH(a) = 1").missing == ()
    assert compile("LENGHT(a) = 1 OR left(a) = 'x' OR lenght(b) = 2").missing == (
        "MissingFunctionError: there is no function 'LENGHT' of 1 argument",
        "MissingFunctionError: there is no function 'LEFT' of 1 argument",
    )
