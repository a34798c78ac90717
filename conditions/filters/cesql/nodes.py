"""The nodes of a parsed expression, each with the closure that evaluates it, and their casts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .values import CASTS, Attributes, Evaluate, Failure, Kind, Value, given


@dataclass(frozen=True)
class Node:
    """A part of an expression.

    kind: its type; None for an attribute, whose type depends on the event.
    constant: the value of a literal. attribute: the attribute that it reads. missing: the error of a call to
    an unknown function. column: where a call starts, from 1; 0 for other nodes.
    """

    evaluate: Evaluate
    kind: Kind | None
    parts: tuple[Node, ...] = ()
    constant: Value | None = None
    attribute: str | None = None
    missing: str | None = None
    column: int = 0


def constant(value: Value) -> Node:
    """A literal."""
    return Node(lambda _: value, type(value), constant=value)


def failing(error: str) -> Evaluate:
    """Fails on every event."""

    def fail(_: Attributes) -> Value:
        raise Failure(error)

    return fail


def attribute(name: str) -> Node:
    """The attribute `name`; a Failure if the event lacks it."""
    missing = f"MissingAttributeError: the event has no attribute {name}"

    def read(attributes: Attributes) -> Value:
        try:
            value = attributes[name]
        except KeyError:
            raise Failure(missing) from None
        return value if type(value) is str else given(name, value)

    return Node(read, None, attribute=name)


def as_kind(node: Node, kind: Kind) -> Callable[[Attributes], Any]:
    """Evaluates `node` and casts its value to `kind`; a literal is cast once, in advance."""
    evaluate, convert = node.evaluate, CASTS[kind]
    if node.constant is not None:
        try:
            return constant(convert(node.constant)).evaluate
        except Failure as failure:
            return failing(failure.error)
    if node.kind is kind:
        return evaluate

    def converted(attributes: Attributes) -> Value:
        value = evaluate(attributes)
        return value if type(value) is kind else convert(value)

    return converted
