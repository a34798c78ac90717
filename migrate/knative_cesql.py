"""Expressions in CloudEvents SQL that may mean something else to Knative's dispatchers than here.

Knative's libraries group AND, OR and XOR from the right, the specification and Interlock from the left. An
extension attribute has no type here, because a Kafka header is text: its text may also stand for the Integer
or Boolean with this canonical string. To Knative it is the text, unless the sender used JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..conditions.filters.cesql.nodes import Node

MIXED: Final = (
    "AND, OR and XOR stand side by side. Knative groups them from the right, Interlock from the left, as the"
    " specification does: write parentheses"
)
UNTYPED: Final = (
    "it compares the extension attribute {} so that its text may also stand for an Integer or a Boolean here"
    " ('04' = level is true for 4). Write the attribute on the left side, and a text on the right"
)
_EQUALITY: Final = ("=", "!=")


def is_grouped_otherwise(expression: str) -> bool:
    """Whether a valid expression has different logical operators side by side, without parentheses."""
    return any(node.form == "logic" and len(set(node.signs)) > 1 for node in _nodes(expression))


def untyped_comparisons(expression: str) -> list[str]:
    """The extension attributes that a valid expression compares as UNTYPED says, sorted."""
    found = set[str]()
    for node in _nodes(expression):
        parts = [_inner(part) for part in node.parts]
        if node.form in _EQUALITY:
            left, right = parts
            if right.untyped and not _is_plain_text(left):
                found.add(right.attribute or "")
            elif left.untyped and right.kind is not str and right.constant in (0, 1):
                found.add(left.attribute or "")
        elif node.form == "IN" and parts[0].untyped and not all(map(_is_plain_text, parts[1:])):
            found.add(parts[0].attribute or "")
    return sorted(found)


def _nodes(expression: str) -> Iterator[Node]:
    from ..conditions.filters.cesql.parser import parse  # loads the parser library

    waiting = [parse(expression)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.parts


def _inner(node: Node) -> Node:
    while node.form == "()":
        (node,) = node.parts
    return node


def _is_plain_text(node: Node) -> bool:
    """Whether it is a literal text that is no other spelling of an Integer or a Boolean."""
    text = node.constant
    if not isinstance(text, str):
        return False
    digits = text.removeprefix("+").removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return text == str(int(text[:12])) if len(text) <= 12 else False
    return text in ("true", "false") or text.lower() not in ("true", "false")
