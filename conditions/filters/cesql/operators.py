"""The operators of CESQL: each builds a node from its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import ge, gt, le, lt
from typing import Final

from .like import compiled
from .nodes import Node, as_kind, cast_error, operation, typed
from .values import (
    CASTS,
    INTEGER_MAX,
    INTEGER_MIN,
    MAX_STRING_CHARS,
    Attributes,
    Evaluate,
    Failure,
    Kind,
    as_typed,
    stands_for,
    to_string,
)


def logic(first: Node, rest: Sequence[tuple[str, Node]]) -> Node:
    """AND, OR and XOR from left to right; an operand that cannot change the outcome is not evaluated."""
    parts = (first, *(node for _, node in rest))
    operands = [as_kind(node, bool) for node in parts]
    operators = [operator for operator, _ in rest]

    # loops: all() and any() with a generator take twice the time
    def every(attributes: Attributes) -> bool:
        for operand in operands:  # noqa: SIM110
            if not operand(attributes):
                return False
        return True

    def some(attributes: Attributes) -> bool:
        for operand in operands:  # noqa: SIM110
            if operand(attributes):
                return True
        return False

    def mixed(attributes: Attributes) -> bool:
        outcome: bool = operands[0](attributes)
        for operator, operand in zip(operators, operands[1:], strict=True):
            if operator == "XOR":
                outcome = outcome != operand(attributes)
            elif outcome is (operator == "AND"):  # false AND x, true OR x: x is not evaluated
                outcome = operand(attributes)
        return outcome

    same = {"AND": every, "OR": some}.get(operators[0], mixed) if len(set(operators)) == 1 else mixed
    return _settled_logic(same, parts, operators)


def _settled_logic(evaluate: Evaluate, parts: tuple[Node, ...], operators: Sequence[str]) -> Node:
    """The node of AND, OR and XOR, with what is known of its outcome on every event."""
    first = parts[0]
    error = first.error or cast_error(first, bool)
    true, false = _outcomes(first)
    for operator, part in zip(operators, parts[1:], strict=True):
        other_true, other_false = _outcomes(part)
        if operator == "AND":
            true, false = true and other_true, false or (true and other_false)
        elif operator == "OR":
            true, false = true or (false and other_true), false and other_false
        else:
            true, false = (
                (true and other_false) or (false and other_true),
                (true and other_true) or (false and other_false),
            )
    known = true is not false and all(part.value is not None for part in parts)
    return Node(
        evaluate,
        bool,
        parts,
        form="logic",
        signs=tuple(operators),
        value=true if known else None,
        error=error,
        can_be_true=true,
        can_be_false=false,
    )


def _outcomes(node: Node) -> tuple[bool, bool]:
    """Whether the node as Boolean can be true, and false."""
    if node.error is not None or cast_error(node, bool) is not None:
        return False, False
    if node.value is not None:
        value = CASTS[bool](node.value)
        return value is True, value is False
    return node.can_be_true, node.can_be_false


def comparison(left: Node, operator: str, right: Node) -> Node:
    """=, != and <> compare by the right side's type; <, <=, > and >= compare integers."""
    parts = (left, right)
    if operator in _ORDERS:
        order = _ORDERS[operator]
        low, high = as_kind(left, int), as_kind(right, int)
        node = operation(
            lambda attributes: order(low(attributes), high(attributes)),
            bool,
            parts,
            (int, int),
            form=operator,
        )
        if node.error and any(type(part.value) is str or part.attribute == "time" for part in parts):
            return replace(node, error=f"{node.error}; {_NO_ORDER}")
        return node
    equal = _equality(left, right)
    if operator == "=":
        return operation(equal, bool, parts, (right.kind, None), form="=")
    return operation(lambda attributes: not equal(attributes), bool, parts, (right.kind, None), form="!=")


_NO_ORDER: Final = (
    "<, <=, > and >= compare Integers only. Texts and times have an order in where,"
    " as in event(where=\"timestamp(event.time) > timestamp('2026-11-20T00:00:00Z')\")"
)
_ORDERS: Final[Mapping[str, Callable[[int, int], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def _equality(left: Node, right: Node) -> Callable[[Attributes], bool]:
    if right.kind is None:
        first, second = typed(left), right.evaluate
        if right.untyped:
            return _equality_with_untyped(first, second)

        def equal(attributes: Attributes) -> bool:
            x, y = first(attributes), second(attributes)
            kind: Kind = type(y)
            return (x if type(x) is kind else CASTS[kind](x)) == y

        return equal
    converted = as_kind(left, right.kind)
    if right.constant is not None:
        literal = right.constant
        return lambda attributes: converted(attributes) == literal
    last = right.evaluate
    return lambda attributes: converted(attributes) == last(attributes)


def _equality_with_untyped(first: Evaluate, second: Evaluate) -> Callable[[Attributes], bool]:
    """x = attribute: equal as texts, or as what the attribute's text stands for.

    A failing cast makes them unequal, since the attribute may also be a String.
    """

    def equal(attributes: Attributes) -> bool:
        x, y = first(attributes), second(attributes)
        if type(y) is not str:
            kind: Kind = type(y)
            return (x if type(x) is kind else CASTS[kind](x)) == y
        return to_string(x) == y or stands_for(x, as_typed(y))

    return equal


def arithmetic(first: Node, rest: Sequence[tuple[str, Node]]) -> Node:
    """+, -, *, / and % of integers, from left to right; a result beyond 32 bits is a MathError."""
    start = as_kind(first, int)
    steps = [(_ARITHMETIC[operator], operator, as_kind(node, int)) for operator, node in rest]

    def compute(attributes: Attributes) -> int:
        x: int = start(attributes)
        for apply, operator, operand in steps:
            y = operand(attributes)
            outcome = apply(x, y)
            if not INTEGER_MIN <= outcome <= INTEGER_MAX:
                raise Failure(f"MathError: {x} {operator} {y} does not fit an Integer of 32 bits")
            x = outcome
        return x

    parts = (first, *(node for _, node in rest))
    signs = tuple(sign for sign, _ in rest)
    node = operation(compute, int, parts, (int,) * len(parts), form="arithmetic", signs=signs)
    divided = next((sign for sign, part in rest if sign in "/%" and _is_zero(part)), None)
    if divided is not None and node.error is None:
        return replace(node, error=f"MathError: x {divided} 0", can_be_true=False, can_be_false=False)
    return node


def _is_zero(node: Node) -> bool:
    return node.value is not None and cast_error(node, int) is None and CASTS[int](node.value) == 0


def _quotient(x: int, y: int) -> int:
    if y == 0:
        raise Failure(f"MathError: {x} / 0")
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) is (y < 0) else -quotient


def _remainder(x: int, y: int) -> int:
    if y == 0:
        raise Failure(f"MathError: {x} % 0")
    remainder = abs(x) % abs(y)
    return -remainder if x < 0 else remainder


_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": _quotient, "%": _remainder,
}  # fmt: skip


def negative(node: Node) -> Node:
    """Unary -."""
    operand = as_kind(node, int)

    def negate(attributes: Attributes) -> int:
        x: int = operand(attributes)
        if x == INTEGER_MIN:
            raise Failure(f"MathError: -({x}) does not fit an Integer of 32 bits")
        return -x

    return operation(negate, int, (node,), (int,), form="-")


def inverse(node: Node) -> Node:
    """NOT; also turns LIKE into NOT LIKE and IN into NOT IN."""
    operand = as_kind(node, bool)
    true, false = _outcomes(node)
    opposite = operation(lambda attributes: not operand(attributes), bool, (node,), (bool,), form="NOT")
    return replace(opposite, can_be_true=false, can_be_false=true)


def like(node: Node, pattern: str) -> Node:
    """LIKE, on the operand as text; a text longer than MAX_STRING_CHARS is an error."""
    evaluate, matches = node.evaluate, compiled(pattern)

    def test(attributes: Attributes) -> bool:
        text = to_string(evaluate(attributes))
        if len(text) > MAX_STRING_CHARS:
            raise Failure(f"GenericError: LIKE of {len(text)} characters: at most {MAX_STRING_CHARS}")
        return matches(text)

    return operation(test, bool, (node,), form="LIKE", signs=(pattern,))
