"""The operator IN of CESQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .nodes import Node, cast_error, operation, typed
from .values import CASTS, Attributes, Failure, Kind, Value, as_typed, stands_for


def is_in(node: Node, elements: Sequence[Node]) -> Node:
    """IN: casts the elements to the operand's type one after the other, until one is equal."""
    parts = (node, *elements)
    literals = [element.constant for element in elements if element.constant is not None]
    are_literals = len(literals) == len(elements)
    among = _in_literals(node, literals) if are_literals else _in_values(node, elements)
    found = operation(among, bool, parts, form="IN")
    if node.kind is not None and found.value is None and found.error is None:
        errors = [cast_error(element, node.kind) for element in elements]
        # An element that cannot be cast is an error, unless one before it is equal.
        if errors[0] is not None:
            return replace(found, error=errors[0], can_be_true=False, can_be_false=False)
        if any(errors):
            return replace(found, can_be_false=False)
    return found


def _in_literals(node: Node, literals: Sequence[Value]) -> Callable[[Attributes], bool]:
    evaluate = node.evaluate
    sets = {kind: _set(literals, kind) for kind in CASTS}

    def among(attributes: Attributes) -> bool:
        x = evaluate(attributes)
        values, error = sets[type(x)]
        if x in values:
            return True
        if error is not None:
            raise Failure(error)
        return False

    if not node.untyped:
        return among
    texts = sets[str][0]
    castable: dict[Kind, frozenset[Value]] = {kind: _castable(literals, kind) for kind in (int, bool)}

    def among_either(attributes: Attributes) -> bool:
        x = evaluate(attributes)
        if type(x) is not str:
            return among(attributes)
        if x in texts:
            return True
        meant = as_typed(x)
        return type(meant) is not str and meant in castable[type(meant)]

    return among_either


def _in_values(node: Node, elements: Sequence[Node]) -> Callable[[Attributes], bool]:
    evaluate, untyped = node.evaluate, node.untyped
    members = [typed(element) for element in elements]

    def one_of(attributes: Attributes) -> bool:
        x = evaluate(attributes)
        convert = CASTS[type(x)]
        meant = as_typed(x) if untyped and type(x) is str else ""
        for member in members:
            value = member(attributes)
            if convert(value) == x or stands_for(value, meant):
                return True
        return False

    return one_of


def _set(literals: Sequence[Value], kind: Kind) -> tuple[frozenset[Value], str | None]:
    """The literals before the first that cannot be cast, and its error."""
    values: list[Value] = []
    for literal in literals:
        try:
            values.append(CASTS[kind](literal))
        except Failure as failure:
            return frozenset(values), failure.error
    return frozenset(values), None


def _castable(literals: Sequence[Value], kind: Kind) -> frozenset[Value]:
    """The literals that can be cast."""
    return frozenset(value for literal in literals for value in _set([literal], kind)[0])
