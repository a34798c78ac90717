"""Nodes as the text of an expression, in one spelling: without needless parentheses, with one form of NOT."""

from __future__ import annotations

from typing import Final

from .nodes import Node
from .values import Value

_WORDS: Final = frozenset({"LIKE", "IN"})
_CLOSED: Final = frozenset({"constant", "attribute", "call", "EXISTS"})


def written(node: Node, *, inverse: bool = False) -> str:
    """The expression of a node, or its opposite."""
    node = unwrapped(node)
    if node.form == "NOT" and not inverse:
        return written(node.parts[0], inverse=True)
    if node.form == "!=" or (inverse and node.form == "="):
        return _joined(node, ("=" if inverse and node.form == "!=" else "!=",))
    if not inverse:
        return _written(node)
    if node.form in _WORDS:
        return _written(node, "NOT ")
    return f"NOT {_operand(node)}"


def unwrapped(node: Node) -> Node:
    """The node inside of parentheses."""
    while node.form == "()":
        (node,) = node.parts
    return node


def literal(value: Value) -> str:
    """A value as a literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value) if isinstance(value, int) else _quoted(value)


def _written(node: Node, before: str = "") -> str:
    parts = node.parts
    if node.form == "constant" and node.constant is not None:
        return literal(node.constant)
    if node.form == "attribute":
        return node.attribute or ""
    if node.form == "EXISTS":
        return f"EXISTS {node.attribute}"
    if node.form == "call":
        return f"{node.signs[0]}({', '.join(map(written, parts))})"
    if node.form == "LIKE":
        return f"{_operand(parts[0])} {before}LIKE {_quoted(node.signs[0])}"
    if node.form == "IN":
        return f"{_operand(parts[0])} {before}IN ({', '.join(map(written, parts[1:]))})"
    if node.form == "-":
        return f"-{_operand(parts[0])}"
    return _joined(node, node.signs or (node.form,))


def _joined(node: Node, signs: tuple[str, ...]) -> str:
    rest = (f" {sign} {_operand(part)}" for sign, part in zip(signs, node.parts[1:], strict=True))
    return _operand(node.parts[0]) + "".join(rest)


def _operand(node: Node) -> str:
    text = written(node)
    return text if unwrapped(node).form in _CLOSED else f"({text})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"
