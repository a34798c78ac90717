"""The operators of CESQL: each builds a node from its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Final

from .like import matcher
from .nodes import Node, as_kind
from .values import (
    CASTS,
    INTEGER_MAX,
    INTEGER_MIN,
    MAX_STRING_CHARS,
    Attributes,
    Failure,
    Kind,
    Value,
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
    return Node(same, bool, parts)


def comparison(left: Node, operator: str, right: Node) -> Node:
    """=, != and <> compare by the right side's type; <, <=, > and >= compare integers."""
    parts = (left, right)
    if operator in _ORDERS:
        order = _ORDERS[operator]
        low, high = as_kind(left, int), as_kind(right, int)
        return Node(lambda attributes: order(low(attributes), high(attributes)), bool, parts)
    equal = _equality(left, right)
    if operator == "=":
        return Node(equal, bool, parts)
    return Node(lambda attributes: not equal(attributes), bool, parts)


_ORDERS: Final[Mapping[str, Callable[[int, int], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def _equality(left: Node, right: Node) -> Callable[[Attributes], bool]:
    if right.kind is None:
        first, second = left.evaluate, right.evaluate

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

    return Node(compute, int, (first, *(node for _, node in rest)))


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

    return Node(negate, int, (node,))


def inverse(node: Node) -> Node:
    """NOT; also turns LIKE into NOT LIKE and IN into NOT IN."""
    operand = as_kind(node, bool)
    return Node(lambda attributes: not operand(attributes), bool, (node,))


def like(node: Node, pattern: str) -> Node:
    """LIKE, on the operand as text; a text longer than MAX_STRING_CHARS is an error."""
    evaluate, matches = node.evaluate, matcher(pattern)

    def test(attributes: Attributes) -> bool:
        text = to_string(evaluate(attributes))
        if len(text) > MAX_STRING_CHARS:
            raise Failure(f"GenericError: LIKE of {len(text)} characters: at most {MAX_STRING_CHARS}")
        return matches(text)

    return Node(test, bool, (node,))


def is_in(node: Node, elements: Sequence[Node]) -> Node:
    """IN: casts the elements to the operand's type one after the other, until one is equal."""
    evaluate = node.evaluate
    parts = (node, *elements)
    literals = [element.constant for element in elements if element.constant is not None]
    if len(literals) == len(elements):
        sets = {kind: _set(literals, kind) for kind in CASTS}

        def among(attributes: Attributes) -> bool:
            x = evaluate(attributes)
            values, error = sets[type(x)]
            if x in values:
                return True
            if error is not None:
                raise Failure(error)
            return False

        return Node(among, bool, parts)
    members = [element.evaluate for element in elements]

    def one_of(attributes: Attributes) -> bool:
        x = evaluate(attributes)
        convert = CASTS[type(x)]
        for member in members:  # noqa: SIM110
            if convert(member(attributes)) == x:
                return True
        return False

    return Node(one_of, bool, parts)


def _set(literals: Sequence[Value], kind: Kind) -> tuple[frozenset[Value], str | None]:
    """The literals before the first that cannot be cast, and its error."""
    values: list[Value] = []
    for literal in literals:
        try:
            values.append(CASTS[kind](literal))
        except Failure as failure:
            return frozenset(values), failure.error
    return frozenset(values), None
