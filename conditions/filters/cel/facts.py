"""What a comparison says about one term of a CEL expression, and what is known of terms on every event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ....events.attributes import CORE, SPECVERSION, find_problems
from .ast import Node, quoted
from .reads import path
from .solved import solved
from .texts import TEXTS

# Beyond it the library compares integers with floating-point numbers inexactly.
_EXACT: Final = 2**53
_VALID: Final = {"specversion": SPECVERSION, "id": "x", "source": "x", "type": "x"}
_RANGES: Final = {
    "size": (0, None), "getMonth": (0, 11), "getDate": (1, 31), "getDayOfMonth": (0, 30),
    "getDayOfWeek": (0, 6), "getDayOfYear": (0, 365),
}  # fmt: skip
# These hold for a timestamp only; getHours() of a duration has no upper limit.
_RANGES_OF_TIME: Final = {
    "getHours": (0, 23), "getMinutes": (0, 59), "getSeconds": (0, 59), "getMilliseconds": (0, 999),
}  # fmt: skip


class Fact(NamedTuple):
    """What an atom says about one term: its relation to a constant, or to the constants of a list."""

    term: Node
    relation: str
    constant: Node
    text: str


def bounds_of(term: Node) -> list[Fact]:
    """The least and the greatest value of a function, for any argument; for `specversion`, its only value."""
    if path(term, "event") == ("specversion",):
        return [_fact(term, "==", quoted(SPECVERSION))]
    if term.kind != "call":
        return []
    if term.name == "_%_" and (by := term.children[1].number):
        return [_fact(term, ">=", str(1 - abs(int(by)))), _fact(term, "<=", str(abs(int(by)) - 1))]
    ranges = _RANGES_OF_TIME if _is_timestamp(term.children[0]) else {}
    low, high = {**_RANGES, **ranges}.get(term.name, (None, None))
    least = [_fact(term, ">=", str(low))] if low is not None else []
    return least + ([_fact(term, "<=", str(high))] if high is not None else [])


def solved_facts(term: Node, relation: str, constant: Node) -> Iterator[Fact]:
    """What a relation of a sum, product or quotient to a number says of its part that is not constant."""
    if constant.number is None:
        return
    for part, low, high in solved(term, relation, constant.number):
        if low is not None:
            yield _fact(part, ">=", repr(low))
        if high is not None:
            yield _fact(part, "<=", repr(high))


def numbers_equal_to(number: float) -> tuple[Node, ...]:
    """The values of JSON that equal this number, as dyn(...), which delays type checks to the evaluation."""
    texts = [repr(float(number))] + (["-0.0"] if number == 0 else [])
    texts += [str(int(number))] if number == int(number) else []
    return tuple(Node("call", "dyn", children=(Node("const", literal=each),)) for each in texts)


def _is_timestamp(node: Node) -> bool:
    return node.kind == "call" and node.name == "timestamp"


def _fact(term: Node, relation: str, literal: str) -> Fact:
    return Fact(term, relation, Node("const", literal=literal), literal)


def why_no_event_has(fact: Fact) -> str | None:
    """Why no valid event has an attribute with this value, or one of these; None if one may."""
    name = (path(fact.term, "event") or ("",))[0]
    if fact.relation not in ("==", "in") or name not in CORE or name == "datacontenttype":
        return None  # a plain record has the content type that its producer wrote
    values = fact.constant.children if fact.relation == "in" else (fact.constant,)
    problems: list[str] = []
    for each in values:
        found = find_problems({**_VALID, name: each.text or ""}) if is_text(each) else []
        if not found:
            return None
        problems += found
    return f"no valid event has it: {problems[0]}" if problems else None


def text_fact(term: Node) -> Fact:
    """The fact that a term is a text, as term >= '': CEL compares nothing but texts with a text."""
    return _fact(term, ">=", "''")


def is_scalar(fact: Fact) -> bool:
    """Whether the fact says that the term is neither a map nor a list."""
    if fact.relation == "in":
        return all(each.kind == "const" for each in fact.constant.children)
    return fact.relation not in ("!=", "not in") and fact.constant.kind == "const"


def is_text(node: Node) -> bool:
    return node.kind == "const" and TEXTS.fullmatch(node.literal) is not None


def is_inexact(node: Node) -> bool:
    if node.number is not None and not abs(node.number) < _EXACT:
        return True
    return any(map(is_inexact, node.children))
