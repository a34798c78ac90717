"""What is said about one term: its Integer, or its text."""

from __future__ import annotations

from typing import NamedTuple

from ....events.attributes import CORE, SPECVERSION, is_timestamp, is_uri, is_uri_reference
from .bounds import text_bounds
from .like import Tokens
from .nodes import Node
from .values import CASTS, INTEGER_MAX, INTEGER_MIN, Failure
from .written import unwrapped


class Number(NamedTuple):
    """The Integer of a term is in a range, is one of `allowed` (None: any), and is none of `excluded`."""

    term: Node
    low: int = INTEGER_MIN
    high: int = INTEGER_MAX
    allowed: frozenset[int] | None = None
    excluded: frozenset[int] = frozenset()


class Text(NamedTuple):
    """The text of a term is one of `allowed` (None: any), none of `excluded`, and matches patterns or not."""

    term: Node
    allowed: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    like: tuple[Tokens, ...] = ()
    unlike: tuple[Tokens, ...] = ()


def of_number(node: Node) -> Node:
    """The node with the same Integer, without calls of INT."""
    node = unwrapped(node)
    while node.form == "call" and node.signs[0] == "INT":
        node = unwrapped(node.parts[0])
    return node


def of_text(node: Node) -> Node:
    """The node with the same text, without calls of STRING."""
    node = unwrapped(node)
    while node.form == "call" and node.signs[0] == "STRING":
        node = unwrapped(node.parts[0])
    return node


def could_be(term: Node, text: str) -> bool:
    """Whether a valid event can have this text as the term's."""
    name = term.attribute
    if term.form != "attribute" or name not in CORE:
        return text_bounds(term).refuses(tuple(text)) is None
    forms = {"time": is_timestamp, "source": is_uri_reference, "dataschema": is_uri}
    if name in forms:
        return forms[name](text)
    return text == SPECVERSION if name == "specversion" else bool(text)


def cast_error_of(text: str) -> str | None:
    """The error of casting a text to Integer."""
    try:
        CASTS[int](text)
    except Failure as failure:
        return failure.error
    return None


def is_canonical(text: str) -> bool:
    """Whether this is the text of an Integer."""
    return cast_error_of(text) is None and str(CASTS[int](text)) == text
