"""For any text: compiling raises only ConditionError, and evaluating never raises."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import ConditionError
from interlock.conditions.filters.cesql import MAX_CHARS, compile  # noqa: A004
from interlock.conditions.filters.cesql.functions import FUNCTIONS

TOKENS = [
    "AND", "or", "XOR", "NOT", "LIKE", "IN", "exists", "TRUE", "false", "a", "b", "c", "id", "nosuch", "data",
    "(", ")", ",", "+", "-", "*", "/", "%", "=", "!=", "<>", "<", ">=", "'", '"', "\\", "_", "7a", "\u00e9",
    "0", "7", "-1", "2147483647", "-2147483648", "99999999999", "''", "'a%_b'", "'true'", "'12'",
    *[f"{name}(" for name in (*FUNCTIONS, "NOSUCH")],
    " ", "\n", "\x00", "\ud800", "x LIKE ''", '"\\%"',
]  # fmt: skip
ATTRIBUTES = st.fixed_dictionaries(
    {"a": st.text(), "b": st.integers() | st.booleans() | st.none() | st.floats()},
    optional={"c": st.sampled_from(["", "7", "TRUE", "-2147483648", "9" * 5000, "x" * 40_000, "\ud800"])},
)


def check(text: str, attributes: dict[str, object]) -> None:
    try:
        expression = compile(text)
    except ConditionError as refused:
        length = len(str(refused))
        assert length < 400
        return
    value, error = expression.evaluate(attributes)  # type: ignore[arg-type]
    assert type(value) in (str, int, bool)
    assert expression.kind in (None, type(value))
    assert error is None or len(error) < 400
    assert isinstance(value, (str, bool)) or -(2**31) <= value < 2**31
    assert expression.evaluate(attributes) == (value, error)  # type: ignore[arg-type]


@given(st.text(max_size=200), ATTRIBUTES)
def test_any_text_compiles_or_is_a_condition_error(text: str, attributes: dict[str, object]) -> None:
    check(text, attributes)


@given(st.binary(max_size=200), ATTRIBUTES)
def test_any_bytes_compile_or_are_a_condition_error(data: bytes, attributes: dict[str, object]) -> None:
    check(data.decode("latin-1"), attributes)


@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.sampled_from(["", " "]), ATTRIBUTES)
def test_any_tokens_compile_or_are_a_condition_error(
    tokens: list[str], between: str, attributes: dict[str, object]
) -> None:
    check(between.join(tokens), attributes)


@given(st.sampled_from(TOKENS), st.sampled_from(TOKENS), st.integers(0, 2000), st.sampled_from(TOKENS))
def test_long_repetitions_compile_or_are_a_condition_error(a: str, b: str, count: int, last: str) -> None:
    check((f"{a} {b} " * count + last)[: MAX_CHARS + 1], {"a": "1", "b": "x"})


def _literal(text: str, quote: str) -> str:
    return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def _expressions() -> st.SearchStrategy[str]:
    texts = st.text("ab%_\\'\"7", max_size=8) | st.text(max_size=4)
    literals = st.builds(_literal, texts, st.sampled_from("'\""))
    names = ["a", "b", "c", "id", "nosuch"]
    leaves = literals | st.sampled_from([*names, "0", "-1", "7", "2147483647", "TRUE", "'true'", "'7'"])
    operators = st.sampled_from(
        ["+", "-", "*", "/", "%", "=", "!=", "<>", "<", "<=", ">", ">=", "AND", "OR", "XOR"]
    )
    like, among = st.sampled_from(["LIKE", "NOT LIKE"]), st.sampled_from(["IN", "NOT IN"])
    functions = st.sampled_from([*FUNCTIONS, "NOSUCH"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds(lambda x, operator, y: f"({x} {operator} {y})", inner, operators, inner),
            st.builds(lambda operator, x: f"{operator} {x}", st.sampled_from(["NOT", "-"]), inner),
            st.builds(lambda x, operator, pattern: f"({x} {operator} {pattern})", inner, like, literals),
            st.builds(lambda x, operator, y: f"({x} {operator} ({y}, 7))", inner, among, inner),
            st.builds(
                lambda name, parts: f"{name}({', '.join(parts)})", functions, st.lists(inner, max_size=3)
            ),
        )

    return st.recursive(leaves, larger, max_leaves=12)


@given(_expressions(), ATTRIBUTES)
def test_evaluating_raises_nothing_and_keeps_to_the_kind(text: str, attributes: dict[str, object]) -> None:
    compile(text)
    check(text, attributes)
