"""Comparisons: which values of an event an expression compares, and with what; for explanations."""

from __future__ import annotations

from typing import Final, NamedTuple

from .ast import Node
from .reads import conjuncts, path

_OF_WORDS: Final = {"true": True, "false": False, "null": None}
_COMPARISONS: Final = frozenset({"_==_", "_<_", "_<=_", "_>_", "_>=_"})


class Compared(NamedTuple):
    """A value of the event that must agree with others for the expression to be true.

    path: of the value; it begins with its variable. wanted: constants, one of which it must equal, or which
    only show the kinds that it may have; or the path of the value that it is compared with.
    """

    path: tuple[str, ...]
    wanted: tuple[object, ...] = ()
    equal: bool = True
    other: tuple[str, ...] | None = None


def comparisons(root: Node) -> tuple[Compared, ...]:
    """What the conjuncts of `root` compare. If one of them does not agree, it is false or an error."""
    found: list[Compared] = []
    for node in conjuncts(root):
        if node.kind != "call":
            continue
        if node.name == "@in":
            item, holder = node.children
            read, within = _member(item), _member(holder)
            values = [_constant(each) for each in holder.children] if holder.kind == "list" else []
            if read is not None and values and not any(each is ... for each in values):
                found.append(Compared(read, tuple(values)))
            elif within is not None:
                found.append(Compared(within, ([], {}), equal=False))
        elif node.name in _COMPARISONS:
            left, right = map(_member, node.children)
            if left is not None and right is not None:
                found.append(Compared(left, other=right))
            for read, other in ((left, node.children[1]), (right, node.children[0])):
                value = _constant(other)
                if read is not None and value is not ...:
                    found.append(Compared(read, (value,), equal=node.name == "_==_"))
    return tuple(found)


def _member(node: Node) -> tuple[str, ...] | None:
    """The path of a member of the data or the attributes; None for anything else."""
    for variable in ("data", "event"):
        read = path(node, variable)
        if read and node.literal != "has":
            return (variable, *read)
    return None


def _constant(node: Node) -> object:
    """The value of a constant; ... for anything else, and for bytes, which JSON does not have."""
    if node.kind != "const":
        return ...
    value: object = node.number if node.text is None else node.text
    return _OF_WORDS.get(node.literal, ...) if value is None else value
