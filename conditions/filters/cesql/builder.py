"""Builds nodes from the rules of the grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ....events.attributes import REQUIRED, shown
from . import membership, operators
from .functions import CASTING, find
from .nodes import Node, as_kind, attribute, cast_error, constant, failing, operation, typed
from .values import Attributes, Evaluate, Failure, Kind, Value, integer

if TYPE_CHECKING:
    from lark import Token

    # An operand, then operators and operands in turn.
    Chain = Sequence[Any]

NO_DATA: Final = 'data cannot be read here: use where, as in event(where="data.x == 1")'
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Misplaced(Exception):
    """A token that fits the grammar but is invalid at its position."""

    def __init__(self, token: Token, what: str) -> None:
        super().__init__(what)
        self.column = _column(token)


class Builder:
    """One method for each rule. It has no state, so several threads can share it."""

    def logic(self, children: Chain) -> Node:
        return operators.logic(children[0], [(name.upper(), node) for name, node in _pairs(children)])

    def comparison(self, children: Chain) -> Node:
        node: Node = children[0]
        for operator, right in _pairs(children):
            node = operators.comparison(node, operator, right)
        return node

    def additive(self, children: Chain) -> Node:
        return operators.arithmetic(children[0], _pairs(children))

    def multiplicative(self, children: Chain) -> Node:
        return operators.arithmetic(children[0], _pairs(children))

    def like(self, children: tuple[Node, Token]) -> Node:
        node, pattern = children
        return operators.like(node, _unquoted(pattern))

    def not_like(self, children: tuple[Node, Token]) -> Node:
        return operators.inverse(self.like(children))

    def is_in(self, children: Sequence[Node]) -> Node:
        return membership.is_in(children[0], children[1:])

    def is_not_in(self, children: Sequence[Node]) -> Node:
        return operators.inverse(self.is_in(children))

    def inverse(self, children: Sequence[Node]) -> Node:
        return operators.inverse(children[0])

    def negative(self, children: Sequence[Node]) -> Node:
        return operators.negative(children[0])

    def parentheses(self, children: Sequence[Node]) -> Node:
        (node,) = children
        return replace(node, parts=(node,), missing=None, form="()")

    def string(self, children: Sequence[Token]) -> Node:
        return constant(_unquoted(children[0]))

    def integer(self, children: Sequence[Token]) -> Node:
        (token,) = children
        number = integer(token.lstrip("+-"), negative=token.startswith("-"))
        if number is None:
            raise Misplaced(token, f"{shown(str(token))} does not fit an Integer of 32 bits")
        return constant(number)

    def boolean(self, children: Sequence[Token]) -> Node:
        return constant(children[0].lower() == "true")

    def attribute(self, children: Sequence[Token]) -> Node:
        return attribute(_name(children[0]))

    def exists(self, children: Sequence[Token]) -> Node:
        name = _name(children[0])
        if name in REQUIRED:  # every event has them, even if `evaluate` is not given them
            return Node(lambda _: True, bool, attribute=name, form="EXISTS", can_be_false=False)
        return Node(lambda attributes: name in attributes, bool, attribute=name, form="EXISTS")

    def call(self, children: Sequence[Any]) -> Node:
        token: Token = children[0]
        parts = tuple(child for child in children[1:] if child is not None)
        name, column = token.upper(), _column(token)
        function = find(name, len(parts))
        if function is None:
            count = "1 argument" if len(parts) == 1 else f"{len(parts)} arguments"
            error = f"MissingFunctionError: there is no function {shown(name)} of {count}"
            return Node(failing(error), bool, parts, missing=error, form="call", signs=(name,))
        kinds = [*function.parameters, *[function.rest] * (len(parts) - len(function.parameters))]
        arguments: list[Evaluate] = [
            as_kind(part, kind) if kind is not None else _cast_by_function(part, function.result)
            for part, kind in zip(parts, kinds, strict=True)
        ]
        node = operation(
            _calling(function.apply, arguments, column), function.result, parts, kinds, column,
            form="call", signs=(name,),
        )  # fmt: skip
        if name in CASTING and node.error is None:
            failure = cast_error(parts[0], function.result)
            possible = failure is None
            return replace(
                node,
                error=failure,
                can_be_true=possible and node.can_be_true,
                can_be_false=possible and node.can_be_false,
            )
        if node.error is None and node.value is None and function.result is not bool:
            failure = function.error_of([part.value for part in parts])
            return replace(node, error=failure, can_be_true=failure is None, can_be_false=failure is None)
        return node


def _cast_by_function(part: Node, result: Kind) -> Evaluate:
    """The argument of INT, BOOL and the like; most are attributes with the text of such a value."""
    return as_kind(part, int) if part.untyped and result is int else typed(part)


def _calling(apply: Callable[..., Value], arguments: list[Evaluate], column: int) -> Evaluate:
    def call(attributes: Attributes) -> Value:
        values = [argument(attributes) for argument in arguments]
        try:
            return apply(*values)
        except Failure as failure:
            failure.column = column
            raise

    return call


def _pairs(children: Chain) -> list[tuple[str, Node]]:
    return [(str(name), node) for name, node in zip(children[1::2], children[2::2], strict=True)]


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


def _name(token: Token) -> str:
    name = token.lower()
    if name == "data":
        raise Misplaced(token, NO_DATA)
    return name


def _unquoted(token: Token) -> str:
    """The text of a string literal: a backslash before its kind of quote is removed, any other stays."""
    quote = token[0]
    return _ESCAPED.sub(lambda found: quote if found[1] == quote else found[0], token[1:-1])
