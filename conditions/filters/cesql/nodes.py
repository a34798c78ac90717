"""The nodes of a parsed expression, each with the closure that evaluates it, and their casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ....events.attributes import CORE
from .values import CASTS, Attributes, Evaluate, Failure, Kind, Value, as_typed, given

# Core attributes that are text on every event, and never the text of an Integer or Boolean.
_EXAMPLES: Final = {
    "specversion": "'1.%'",
    "time": "'2026-11-20T%'",
    "datacontenttype": "'%/json'",
    "dataschema": "'https://%'",
}
ONLY_TEXT: Final = frozenset(_EXAMPLES)
NAMES: Final = {str: "a String", int: "an Integer", bool: "a Boolean"}


@dataclass(frozen=True)
class Node:
    """A part of an expression.

    kind: its type; None for an attribute, whose type depends on the event.
    constant: the value of a literal. attribute: the attribute that it reads. missing: the error of a call to
    an unknown function. column: where a call starts, from 1; 0 for other nodes.
    untyped: it is an extension attribute: its text may stand for an Integer or a Boolean, see `as_typed`.
    form: what it is: an operator in upper case, "constant", "attribute", "EXISTS", "call", "()", "logic" or
    "arithmetic". signs: the operators between the parts, the pattern of LIKE, or the name of the function.

    What is known without an event, with which `Sql` refuses an expression:
    value: its value on every event. error: it fails on every event, with this error.
    can_be_true, can_be_false: False if no event gives this value, of a Boolean.
    """

    evaluate: Evaluate
    kind: Kind | None
    parts: tuple[Node, ...] = ()
    constant: Value | None = None
    attribute: str | None = None
    missing: str | None = None
    column: int = 0
    untyped: bool = False
    form: str = ""
    signs: tuple[str, ...] = ()
    value: Value | None = None
    error: str | None = None
    can_be_true: bool = True
    can_be_false: bool = True


def constant(value: Value) -> Node:
    """A literal."""
    return Node(
        lambda _: value,
        type(value),
        constant=value,
        form="constant",
        value=value,
        can_be_true=value is not False,
        can_be_false=value is not True,
    )


def operation(
    evaluate: Evaluate,
    kind: Kind,
    parts: tuple[Node, ...],
    casts: Sequence[Kind | None] = (),
    column: int = 0,
    *,
    form: str,
    signs: tuple[str, ...] = (),
) -> Node:
    """A node that evaluates all its parts, cast to `casts` (None: not cast)."""
    error = next((part.error for part in parts if part.error is not None), None)
    if error is None:
        errors = (
            cast_error(part, cast) for part, cast in zip(parts, casts, strict=False) if cast is not None
        )
        error = next((each for each in errors if each is not None), None)
    value: Value | None = None
    if error is None and all(part.value is not None for part in parts):
        try:
            value = evaluate({})
        except Failure as failure:
            error = failure.error
    possible = error is None
    return Node(
        evaluate if value is None else constant(value).evaluate,  # evaluating it does not recurse
        kind,
        parts,
        column=column,
        form=form,
        signs=signs,
        value=value,
        error=error,
        can_be_true=possible and value is not False,
        can_be_false=possible and value is not True,
    )


def cast_error(node: Node, kind: Kind) -> str | None:
    """The error of casting `node` to `kind`, if every event gives it."""
    if node.value is not None:
        try:
            CASTS[kind](node.value)
        except Failure as failure:
            return failure.error
    elif node.kind is None and node.attribute in ONLY_TEXT and kind is not str:
        error = f"CastError: attribute {node.attribute} is never {NAMES[kind]}"
        return f"{error}: compare it with a text, as in {node.attribute} LIKE {_EXAMPLES[node.attribute]}"
    return None


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

    return Node(read, None, attribute=name, untyped=name not in CORE, form="attribute")


def typed(node: Node) -> Evaluate:
    """Evaluates `node`; the text of an attribute without a type gives the value that it stands for."""
    evaluate = node.evaluate
    if not node.untyped:
        return evaluate

    def read(attributes: Attributes) -> Value:
        value = evaluate(attributes)
        return as_typed(value) if type(value) is str else value

    return read


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
    if node.untyped and kind is not str:
        return _as_kind_of_untyped(evaluate, kind)

    def converted(attributes: Attributes) -> Value:
        value = evaluate(attributes)
        return value if type(value) is kind else convert(value)

    return converted


def _as_kind_of_untyped(evaluate: Evaluate, kind: Kind) -> Callable[[Attributes], Any]:
    convert = CASTS[kind]

    def converted(attributes: Attributes) -> Value:
        value = evaluate(attributes)
        try:
            return convert(value)
        except Failure:  # "true" as Integer is 1, "7" as Boolean is true
            meant = as_typed(value) if type(value) is str else value
            if type(meant) is str:
                raise
            return convert(meant)

    return converted
