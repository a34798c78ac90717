"""What the outcome of a part of an expression says of the event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ....events.attributes import REQUIRED
from . import solved
from .bounds import bounds, is_only_text, text_bounds
from .functions import CASTING, find
from .like import MANY, Tokens, tokens
from .nodes import NAMES, Node, as_kind, cast_error
from .reasons import reason
from .terms import Number, Text, is_canonical, of_number, of_text
from .values import CASTS, Evaluate, Failure, Kind, Value, to_string
from .written import unwrapped, written

# {operator: (whether to swap the sides, whether to invert the outcome) to express it with <}.
_ORDERS: Final[Mapping[str, tuple[bool, bool]]] = {
    "<": (False, False), ">": (True, False), "<=": (True, True), ">=": (False, True),
}  # fmt: skip
_TESTS: Final[Mapping[str, Kind]] = {"IS_INT": int, "IS_BOOL": bool}


@dataclass
class Facts:
    """What an outcome of a part that is no AND, OR, XOR or NOT says.

    claim: the part's text and outcome. names: the attributes that it reads or tests for existence. reads:
    those without which it fails. missing: those that the event lacks. casts, fails: (term, type) of the casts
    that succeed or fail. less: two terms, the first less than the second. reason: why no event gives this
    outcome.
    """

    node: Node
    outcome: bool
    claim: tuple[str, bool]
    names: frozenset[str]
    reads: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    casts: set[tuple[str, Kind]] = field(default_factory=set)
    fails: set[tuple[str, Kind]] = field(default_factory=set)
    numbers: list[Number] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    less: tuple[str, str] | None = None
    reason: str | None = None
    evaluate: Evaluate | None = None

    def gives(self, attributes: Mapping[str, Value]) -> bool:
        """Whether the part has the outcome for these attributes."""
        self.evaluate = self.evaluate or as_kind(self.node, bool)
        try:
            return self.evaluate(attributes) is self.outcome
        except Failure:
            return False

    def __str__(self) -> str:
        text = written(self.node, inverse=not self.outcome)
        return text if len(text) <= 100 else f"{text[:97]}..."


def facts(node: Node, outcome: bool) -> Facts:
    """What the outcome of the node, cast to Boolean, says."""
    names = frozenset(_names(node))
    found = Facts(node, outcome, (written(node), outcome), names)
    _add_needs(found, node)
    _add_cast(found, node, bool)
    if node.form == "EXISTS" and node.attribute is not None:
        (found.reads if outcome else found.missing).add(node.attribute)
        if node.attribute in REQUIRED and not outcome:
            found.reason = f"every event has {node.attribute}: leave out {found}"
    elif node.form in _ORDERS:
        _add_order(found, node, outcome)
    elif node.form in ("=", "!="):
        left, right = map(unwrapped, node.parts)
        equal = outcome is (node.form == "=")
        found.claim = (written(node, inverse=node.form == "!="), equal)
        _add_equality(found, left, right, equal)
    elif node.form == "IN":
        _add_membership(found, node, outcome)
    elif node.form == "LIKE":
        _add_pattern(found, node.parts[0], tokens(node.signs[0]), outcome)
    elif node.form == "call" and node.signs[0] in _TESTS:
        kind = _TESTS[node.signs[0]]
        (found.casts if outcome else found.fails).add((_key(node.parts[0], kind), kind))
        if outcome and cast_error(node.parts[0], kind):
            found.reason = f"{written(node.parts[0])} is never {NAMES[kind]}: leave out {written(node)}"
    elif node.kind is int:
        found.numbers.append(_among(node, {0}, among=not outcome))
    elif node.kind is not bool:
        _add_boolean_text(found, node, outcome)
    found.texts += [implied for each in found.texts for implied in _implied(each)]
    reasons = [*map(reason, found.numbers), *map(reason, found.texts)]
    found.reason = found.reason or next(filter(None, reasons), None)
    found.numbers += [part for each in found.numbers for part in solved.implied(each)]
    return found


def _names(node: Node) -> Iterator[str]:
    if node.attribute is not None:
        yield node.attribute
    for part in node.parts:
        yield from _names(part)


def _add_needs(found: Facts, node: Node) -> None:
    """Adds the attributes and casts without which the node has no value."""
    node = unwrapped(node)
    if node.form == "attribute" and node.attribute is not None:
        found.reads.add(node.attribute)
    parts = node.parts
    if node.form == "logic":
        parts = parts[:1]
    elif node.form == "IN":  # it ends with the first element that is equal
        parts = parts[:2]
    for part in parts:
        _add_needs(found, part)
    for part, kind in zip(parts, _casts(node), strict=False):
        if kind is not None:
            _add_cast(found, part, kind)


def _casts(node: Node) -> Iterable[Kind | None]:
    """The types that the node casts its parts to."""
    if node.form in _ORDERS or node.form in ("-", "arithmetic"):
        return [int] * len(node.parts)
    if node.form == "logic":
        return [bool]
    if node.form == "NOT":
        return [bool]
    if node.form in ("=", "!="):
        return [node.parts[1].kind]
    if node.form == "IN":
        return [None, node.parts[0].kind]
    if node.form != "call":
        return []
    (name,) = node.signs
    if name in CASTING:
        return [node.kind]
    function = find(name, len(node.parts))
    return [] if function is None else function.parameters


def _add_cast(found: Facts, part: Node, kind: Kind) -> None:
    part = unwrapped(part)
    if kind is not str and part.kind in (None, str) and part.value is None:
        found.casts.add((_key(part, kind), kind))
        if is_only_text(part):
            found.reason = f"{written(part)} is never {NAMES[kind]}: compare it with a text"


def _key(node: Node, kind: Kind) -> str:
    return written(of_number(node) if kind is int else node)


def _among(term: Node, values: Iterable[int], *, among: bool) -> Number:
    term, values = of_number(term), frozenset(values)
    return Number(term, allowed=values) if among else Number(term, excluded=values)


def _within(term: Node, values: Iterable[str], *, within: bool) -> Text:
    term, values = of_text(term), frozenset(values)
    return Text(term, allowed=values) if within else Text(term, excluded=values)


def _add_order(found: Facts, node: Node, outcome: bool) -> None:
    changes, inverts = _ORDERS[node.form]
    left, right = map(of_number, node.parts[::-1] if changes else node.parts)
    less = outcome is not inverts
    one, other = written(left), written(right)
    found.claim = (f"{one} < {other}", less)
    if less:
        found.less = (one, other)
        if one == other:
            found.reason = f"{one} is never less than itself: compare it with another value"
    step = 1 if less else 0
    (low, high), (least, most) = bounds(left), bounds(right)
    if left.value is None:
        found.numbers.append(Number(left, high=most - 1) if less else Number(left, low=least))
    if right.value is None:
        found.numbers.append(Number(right, low=low + step) if less else Number(right, high=high))


def _add_equality(found: Facts, left: Node, right: Node, equal: bool) -> None:
    if not equal and written(left) == written(right):
        found.reason = f"{written(left)} is always equal to itself: compare it with another value"
    if right.value is not None and left.value is None:
        if type(right.value) is str:
            _add_text(found, left, [right.value], equal)
        elif type(right.value) is int:
            found.numbers.append(_among(left, [right.value], among=equal))
    elif left.value is not None and right.value is None:
        if right.kind is int and cast_error(left, int) is None:
            found.numbers.append(_among(right, [int(CASTS[int](left.value))], among=equal))
        elif right.kind in (str, None):
            allowed = _stood_for(left.value) if right.untyped and equal else {to_string(left.value)}
            found.texts.append(_within(right, allowed, within=equal))
    elif right.kind is int and equal:
        low, high = bounds(right)
        least, most = bounds(left)
        found.numbers += [Number(of_number(left), low, high), Number(of_number(right), least, most)]


def _add_text(found: Facts, term: Node, values: Iterable[str], equal: bool) -> None:
    """Adds that the term's text is one of the values, or none."""
    found.texts.append(_within(term, values, within=equal))
    if term.kind is int:
        exact = {int(each) for each in values if is_canonical(each)}
        if exact or not equal:
            found.numbers.append(_among(term, exact, among=equal))


def _add_pattern(found: Facts, term: Node, pattern: Tokens, like: bool) -> None:
    if MANY not in pattern and None not in pattern and like and text_bounds(term).refuses(pattern) is None:
        found.texts.append(_within(term, ["".join(map(str, pattern))], within=True))
    else:
        term = of_text(term)
        found.texts.append(Text(term, like=(pattern,)) if like else Text(term, unlike=(pattern,)))


def _stood_for(value: Value) -> set[str]:
    """The texts of an attribute without a type that may equal this value."""
    texts = {to_string(value)}
    for kind in (int, bool):
        try:
            texts.add(to_string(CASTS[kind](value)))
        except Failure:
            continue
    return texts


def _add_membership(found: Facts, node: Node, outcome: bool) -> None:
    term, *elements = map(unwrapped, node.parts)
    values = [each.value for each in elements if each.value is not None]
    if len(values) < len(elements) or term.value is not None:
        return
    if term.kind is int:
        castable = [int(CASTS[int](each.value or 0)) for each in elements if cast_error(each, int) is None]
        found.numbers.append(_among(term, castable, among=outcome))
    elif term.kind is not bool:
        texts = {to_string(each) for each in values}
        if term.untyped and outcome:
            texts = {text for each in values for text in _stood_for(each)}
        found.texts.append(_within(term, texts, within=outcome))


def _add_boolean_text(found: Facts, term: Node, outcome: bool) -> None:
    """Adds the texts that are cast to this Boolean, if they are few."""
    if term.untyped and outcome:
        return
    texts = set(_cases(to_string(outcome)))
    found.texts.append(_within(term, texts | {"0"} if term.untyped else texts, within=True))


def _cases(word: str) -> list[str]:
    found = [""]
    for letter in word:
        found = [text + each for text in found for each in (letter, letter.upper())]
    return found


def _implied(text: Text) -> Iterator[Text]:
    """What a known LEFT or RIGHT of a text says of the text."""
    call = text.term
    if call.form != "call" or call.signs[0] not in ("LEFT", "RIGHT") or text.allowed is None:
        return
    if len(text.allowed) != 1:
        return
    (known,), size = text.allowed, call.parts[1].value
    if size is None or cast_error(call.parts[1], int) is not None:
        return
    pattern: Tokens = tuple(known)
    if len(known) == int(CASTS[int](size)):
        pattern = (*known, MANY) if call.signs[0] == "LEFT" else (MANY, *known)
    yield Text(of_text(call.parts[0]), like=(pattern,))
