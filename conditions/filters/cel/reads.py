"""Which values of an event an expression reads, and copies of only these for the CEL library.

The library copies its input at each evaluation, so it gets only the members that the expression names. It
cuts a text at a NUL character, so such texts are refused here. It leaks memory when it refuses an integer
beyond 64 bits, so such integers are passed as floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, Union

from .ast import Node, quoted

# {member that is read: what is read of it}; an empty one means the whole value.
Paths = dict[str, "Paths"]
Value = Union[None, bool, int, float, str, "list[Value]", "dict[str, Value]"]

Scalar = str | int | float

MAX_NESTING: Final = 64
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_UTF8_BYTES: Final = 4


class Unreadable(Exception):
    """The values that the expression reads are too large or cannot be passed to the library."""


def paths(root: Node, variable: str) -> Paths | None:
    """The paths that `root` reads in a variable; None if it does not read it at all."""
    found: set[tuple[str, ...]] = set()
    _collect(root, variable, found)
    if not found:
        return None
    if () in found:
        return {}
    tree: Paths = {}
    for each in sorted(found, key=len):  # shorter ones first: a whole member includes what is below it
        level = tree
        for name in each:
            if name in level and not level[name]:
                break
            level = level.setdefault(name, {})
    return tree


def leaves(tree: Paths) -> Iterator[tuple[str, ...]]:
    """The paths in a tree, from its root to its leaves."""
    for name, below in tree.items():
        yield from ((name, *rest) for rest in leaves(below)) if below else [(name,)]


def equalities(root: Node) -> dict[tuple[str, ...], Scalar]:
    """{path: value} that an event must have for `root` to be true: its conjuncts `path == value`.

    A path begins with its variable; values are texts and numbers. With another value there, or none, the
    conjunct is false or an error, so the event does not match.
    """
    found: dict[tuple[str, ...], Scalar] = {}
    for node in conjuncts(root):
        if node.kind == "call" and node.name == "_==_":
            for one, other in (node.children, node.children[::-1]):
                for variable in ("data", "event"):
                    read = path(one, variable)
                    value = other.number if other.text is None else other.text
                    # beyond 2**53 CEL and Python may compare integers with floating-point numbers differently
                    exact = isinstance(value, str) or (value is not None and abs(value) < 2**53)
                    if read and other.kind == "const" and value is not None and exact:
                        found.setdefault((variable, *read), value)
    return found


def conjuncts(root: Node) -> Iterator[Node]:
    """The parts that `&&` joins, from left to right; the whole expression if it is none."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.kind == "call" and node.name == "_&&_":
            waiting += node.children[::-1]
        else:
            yield node


def _collect(node: Node, variable: str, found: set[tuple[str, ...]]) -> None:
    read = path(node, variable)
    if read is not None:
        found.add(read)
        return
    children = node.children
    if node.kind == "loop" and variable in (node.name, node.text):
        children = children[:2]  # inside the loop the name is the loop's variable
    for child in children:
        _collect(child, variable, found)


def path(node: Node, variable: str) -> tuple[str, ...] | None:
    """The path if the node reads a member of `variable`, () for the whole of it; None for anything else."""
    if node.kind == "ident":
        return () if node.name == variable else None
    member: str | None = None
    if node.kind == "select":
        member = node.name
    elif node.kind == "call" and node.name == "_[_]" and node.children[1].kind == "const":
        member = node.children[1].text
    if member is None:
        return None
    below = path(node.children[0], variable)
    return None if below is None else (*below, member)


def with_texts(node: Node, variable: str, texts: Mapping[str, str]) -> Node:
    """The tree with constants in place of the members of a variable that have these texts.

    has(...) of a member stays: it asks for the member, not for its text.
    """
    read = path(node, variable)
    if read is not None and len(read) == 1 and read[0] in texts and node.literal != "has":
        return Node("const", text=texts[read[0]], literal=quoted(texts[read[0]]))
    children = node.children
    outside = 2 if node.kind == "loop" and variable in (node.name, node.text) else len(children)
    known = tuple(with_texts(child, variable, texts) for child in children[:outside])
    return node if known == children[:outside] else replace(node, children=known + children[outside:])


class Reader:
    """Copies values of one event for one evaluation, within the expression's allowance."""

    def __init__(self, values: int, text: int) -> None:
        self._values = self._max_values = values
        self._text = self._max_text = text

    def read(self, value: object, tree: Paths, depth: int = 1) -> Value:
        """A copy of `value` with only the members in `tree`; Unreadable beyond the allowance."""
        if not tree:
            return self._whole(value, depth)
        if isinstance(value, Mapping):
            return {
                self._counted(name): self.read(value[name], below, depth + 1)
                for name, below in tree.items()
                if name in value
            }
        # reading a member of a list is an error in CEL, so an empty list is enough
        return [] if isinstance(value, list) else self._whole(value, depth)

    def _whole(self, value: object, depth: int) -> Value:
        self._values -= 1
        if self._values < 0:
            raise Unreadable(f"it reads more than {self._max_values} values, the limit of this expression")
        if isinstance(value, str):
            return self._counted(value)
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            return value if _INT_MIN <= value <= _INT_MAX else _as_float(value)
        if depth > MAX_NESTING:
            raise Unreadable(f"it reads a value nested more than {MAX_NESTING} levels deep")
        if isinstance(value, list):
            return [self._whole(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return {self._counted(name): self._whole(item, depth + 1) for name, item in value.items()}
        raise Unreadable(f"it reads a {type(value).__name__}, which is not JSON")

    def _counted(self, text: str) -> str:
        self._text -= len(text) if text.isascii() else _UTF8_BYTES * len(text)
        if self._text < 0:
            raise Unreadable(
                f"it reads more than {self._max_text} bytes of text, the limit of this expression"
            )
        if "\0" in text:
            raise Unreadable("it reads a text with a NUL character")
        return text


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Unreadable("it reads a number that is too large for CEL") from None
