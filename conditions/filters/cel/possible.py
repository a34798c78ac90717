"""Whether a CEL expression can be true for some event."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final

from ....events.attributes import REQUIRED
from ..possible import Search
from .ast import Node
from .facts import (
    Fact,
    bounds_of,
    is_inexact,
    is_scalar,
    is_text,
    numbers_equal_to,
    solved_facts,
    text_fact,
    why_no_event_has,
)
from .reads import path

# The value of a constant expression in CEL, or the text of its error; None if the library refuses it.
Evaluate = Callable[[str], object]
# The source of a constant expression; None for any other.
ConstantSource = Callable[[Node], str | None]
Ways = Sequence[Sequence[tuple[Node, bool]]]

MAX_EVALUATIONS: Final = 200
_MIRRORED: Final = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_LOWER: Final = frozenset({">", ">="})
_UPPER: Final = frozenset({"<", "<="})
_TYPES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)
# {function: what it returns}, where JSON has no such values; "bytes" also stands for literals.
_NOT_JSON: Final = {"timestamp": "a timestamp", "duration": "a duration", "bytes": "bytes", "type": "a type"}
_FOLDED: Final = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_", "-_", "double", "int"})
_OF_TEXTS: Final = frozenset({"startsWith", "endsWith", "contains", "matches"})
_NOT_STRICT: Final = frozenset({"_&&_", "_||_", "_?_:_"})  # they do not need each of their operands


class CelSearch(Search[Node]):
    """The search over a CEL expression; afterwards `reason` says why a comparison cannot be true."""

    def __init__(
        self,
        evaluate: Evaluate,
        constant_source: ConstantSource,
        json: frozenset[str] = frozenset({"data"}),
        loops: frozenset[str] = frozenset(),
    ) -> None:
        """json: the variables with values of JSON. loops: those of the loops around the expression."""
        super().__init__()
        self._evaluate, self._constant_source = evaluate, constant_source
        self._json, self._loops = json, loops
        self._evaluations = MAX_EVALUATIONS
        self.reason: str | None = None

    def possible(self, node: Node, outcome: bool = True) -> bool:
        return super().possible(self._folded(_with_members(node)), outcome)

    def _folded(self, node: Node) -> Node:
        """The expression with the numbers that its constant parts give, as 10.0 for double('10')."""
        if (
            node.kind == "call"
            and node.name in _FOLDED
            and (constant := self._constant_source(node)) is not None
        ):
            value = self._evaluated(constant)
            if type(value) is int or (type(value) is float and math.isfinite(value)):
                return Node("const", number=value, literal=repr(value))
            return node
        children = tuple(map(self._folded, node.children))
        if all(one is two for one, two in zip(children, node.children, strict=True)):
            return node
        return Node(node.kind, node.name, node.text, children, node.number, node.literal, node.method)

    def ways(self, node: Node, outcome: bool) -> Ways | None:
        constant = self._constant_source(node)
        if constant is not None:
            return [[]] if self._true(f"dyn({constant}) == {'true' if outcome else 'false'}") else []
        if node.kind == "loop":
            return self._ways_of_loop(node, outcome)
        if node.kind != "call":
            return None
        name, children = node.name, node.children
        if name == "!_":
            return [[(children[0], not outcome)]]
        if name == "_!=_":
            return [[(_call("_==_", *children), not outcome)]]
        if name in ("_&&_", "_||_"):
            together = outcome is (name == "_&&_")
            parts = [(child, outcome) for child in children]
            return [parts] if together else [[part] for part in parts]
        if name == "_?_:_":
            condition, yes, no = children
            return [[(condition, True), (yes, outcome)], [(condition, False), (no, outcome)]]
        if name == "@in" and children[1] == Node("list"):
            return [] if outcome else [[]]
        return None

    def fits(self, node: Node, outcome: bool, held: Sequence[tuple[Node, bool]]) -> bool:
        if (node, not outcome) in held or self._never(node, outcome):
            return False
        facts = self._facts(node, outcome)
        if any(not self._holds(one, bound) for one in facts for bound in bounds_of(one.term)):
            return False
        reason = next(filter(None, map(why_no_event_has, facts)), None)
        if reason is not None:
            self.reason = reason
            return False
        if any(one.term == two.term and not self._holds(one, two) for one, two in combinations(facts, 2)):
            return False
        return all(self._agree((node, outcome), facts, other) for other in held)

    def _agree(self, atom: tuple[Node, bool], facts: Sequence[Fact], other: tuple[Node, bool]) -> bool:
        """Whether two atoms can both have their outcomes. facts: those of the first one."""
        if _excludes_reading(atom, other[0]) or _excludes_reading(other, atom[0]):
            return False
        others = self._facts(*other)
        if _has_no_members(facts, other[0]) or _has_no_members(others, atom[0]):
            return False
        affix, another = _affix(*atom), _affix(*other)
        if affix is not None and another is not None and affix[:2] == another[:2]:
            short, long = sorted((affix[2], another[2]), key=len)
            if not (long.startswith(short) if affix[1] == "startsWith" else long.endswith(short)):
                return False
        if _is_reversed(atom, other) or _is_reversed(other, atom):
            return False
        if any(one.term == two.term and not self._holds(one, two) for one in facts for two in others):
            return False
        return self._agrees_with(facts, other) and self._agrees_with(others, atom)

    def _agrees_with(self, facts: Sequence[Fact], other: tuple[Node, bool]) -> bool:
        """Whether the other atom can have its outcome with the texts that these facts give to its terms."""
        return all(self._agrees_with_value(fact, other) for fact in facts if fact.relation == "==")

    def _agrees_with_value(self, fact: Fact, other: tuple[Node, bool]) -> bool:
        """As `_agrees_with`, for one fact. A number stands for each value of JSON that equals it."""
        values: Sequence[Node] = [fact.constant] if is_text(fact.constant) else []
        if fact.constant.number is not None and self._is_json(fact.term):
            values = numbers_equal_to(fact.constant.number)
        for value in values:
            valued = _replaced(other[0], fact.term, value)
            constant = None if valued is other[0] else self._constant_source(valued)
            if constant is None or self._true(f"dyn({constant}) == {'true' if other[1] else 'false'}"):
                return True
        return not values

    def _ways_of_loop(self, node: Node, outcome: bool) -> Ways | None:
        """exists and exists_one are true only if their predicate is true for some element."""
        over, start, _, step, _ = node.children
        if not outcome or step.kind != "call":
            return None
        if start.literal == "false" and step.name == "_||_":
            predicate = step.children[1]
        elif start.literal == "0" and step.name == "_?_:_":
            predicate = step.children[0]
        else:
            return None
        own = frozenset({node.name, node.text or ""})
        elements = frozenset({node.name}) if self._is_json(over) else frozenset()
        json = (self._json - own) | elements
        inside = CelSearch(self._evaluate, self._constant_source, json, self._loops | own)
        found = inside.possible(predicate)
        self.reason = self.reason or inside.reason
        return None if found else []

    def _never(self, node: Node, outcome: bool) -> bool:
        """Whether no event gives the atom this outcome: each has an id, and no JSON value is a timestamp."""
        attribute = _attribute_tested(node)
        if attribute in REQUIRED and not outcome:
            return True
        if node.kind != "call" or len(node.children) != 2 or not outcome:
            return False
        for one, other in (node.children, node.children[::-1]):
            what = self._not_json(other)
            if node.name in ("_==_", "@in") and what is not None and self._is_json(one):
                self.reason = f"{shown(one)} is never {what}, because JSON has none"
                return True
        return False

    def _not_json(self, node: Node) -> str | None:
        """What the value is, if JSON has no such values; of a list, what all elements are."""
        if node.kind == "const":
            return _NOT_JSON["bytes"] if node.literal.startswith("b'") else None
        if node.kind == "ident":
            return _NOT_JSON["type"] if node.name in _TYPES - self._loops else None
        if node.kind == "call" and not node.method:
            return _NOT_JSON.get(node.name)
        if node.kind == "list" and node.children:
            found = [self._not_json(child) for child in node.children]
            return None if None in found else found[0]
        return None

    def _is_json(self, node: Node) -> bool:
        while True:
            if node.kind == "ident":
                return node.name in self._json
            if node.kind != "select" and not (node.kind == "call" and node.name == "_[_]"):
                return False
            if node.literal == "has":
                return False
            node = node.children[0]

    def _facts(self, node: Node, outcome: bool) -> list[Fact]:
        """What the atom says about its terms if it has this outcome."""
        if node.kind in ("ident", "select") and node.literal != "has":
            literal = "true" if outcome else "false"
            return [Fact(node, "==", Node("const", literal=literal), literal)]
        if node.kind != "call" or len(node.children) != 2:
            return []
        if node.name in _OF_TEXTS:  # true or false, it is evaluated: the term is a text
            return [text_fact(node.children[0])]
        sign = node.name.strip("_")
        if node.name == "@in":
            constant = self._constant_source(node.children[1])
            if constant is None or node.children[1].kind != "list" or is_inexact(node.children[1]):
                return []
            return [Fact(node.children[0], "in" if outcome else "not in", node.children[1], constant)]
        if sign not in _MIRRORED:
            return []
        for one, other, relation in (
            (*node.children, sign),
            (*node.children[::-1], _MIRRORED[sign]),
        ):
            constant = self._constant_source(other)
            if constant is None or is_inexact(other):
                continue
            if outcome:
                return [Fact(one, relation, other, constant), *solved_facts(one, relation, other)]
            if relation == "==":
                return [Fact(one, "!=", other, constant)]
            return [Fact(one, _OPPOSITE[relation], other, constant)] if bounds_of(one) else []
        return []

    def _holds(self, one: Fact, two: Fact) -> bool:
        """Whether one value can have both relations."""
        first, second = sorted((one, two), key=lambda fact: _ORDER[fact.relation])
        a, b = f"dyn({first.text})", f"dyn({second.text})"
        r, s = first.relation, second.relation
        if r == "==":
            if s == "not in":
                return self._true(f"!({a} in {second.text})")
            return self._true(f"{a} in {second.text}" if s == "in" else f"{a} {s} {b}")
        if r == "in":
            tests = {"in": f"i in {second.text}", "not in": f"!(i in {second.text})"}
            test = tests.get(s, f"dyn(i) {s} {b}")
            return self._true(f"{first.text}.exists(i, {test})")
        if {r, s} <= _LOWER | _UPPER:
            if (r in _LOWER) is (s in _LOWER):
                return not isinstance(self._evaluated(f"{a} < {b}"), str)
            if r in _UPPER:
                a, b = b, a
            return self._true(f"{a} {'<' if '=' not in r or '=' not in s else '<='} {b}")
        return True

    def _true(self, source: str) -> bool:
        """False if the expression is false or fails on every event."""
        value = self._evaluated(source)
        return value is not False and not isinstance(value, str)

    def _evaluated(self, source: str) -> object:
        self._evaluations -= 1
        return None if self._evaluations < 0 else self._evaluate(source)


_ORDER: Final = {"==": 0, "in": 1, "<": 2, "<=": 2, ">": 2, ">=": 2, "!=": 3, "not in": 4}


def shown(node: Node) -> str:
    """The source text of a variable and its members."""
    if node.kind == "ident":
        return node.name
    if node.kind == "select":
        return f"{shown(node.children[0])}.{node.name}"
    return f"{shown(node.children[0])}[{node.children[1].literal or '...'}]"


def _affix(node: Node, outcome: bool) -> tuple[Node, str, str] | None:
    """The term, startsWith or endsWith, and the text with which the term then starts or ends."""
    if not outcome or node.kind != "call" or node.name not in ("startsWith", "endsWith"):
        return None
    term, sought = node.children
    return None if sought.kind != "const" or sought.text is None else (term, node.name, sought.text)


def _is_reversed(one: tuple[Node, bool], other: tuple[Node, bool]) -> bool:
    """Whether one atom says a < b, and the other b < a or b <= a."""
    (less, is_less), (more, is_more) = one, other
    if not (is_less and is_more) or less.name not in ("_<_", "_>_"):
        return False
    same = less.children == more.children
    mirrored = _MIRRORED[less.name.strip("_")]
    names = (f"_{mirrored}_", f"_{mirrored}=_") if same else (less.name, f"{less.name[:-1]}=_")
    return more.name in names and (same or less.children == more.children[::-1])


def _with_members(node: Node) -> Node:
    """The expression with a.x for a['x'], which read the same member."""
    children = tuple(map(_with_members, node.children))
    if node.kind == "call" and node.name == "_[_]" and path(node, "data") is not None:
        return Node("select", children[1].text or "", children=children[:1])
    if node.kind == "call" and node.name == "_[_]" and path(node, "event") is not None:
        return Node("select", children[1].text or "", children=children[:1])
    return Node(node.kind, node.name, node.text, children, node.number, node.literal, node.method)


def _call(name: str, *children: Node) -> Node:
    return Node("call", name, children=children)


def _attribute_tested(node: Node) -> str | None:
    """The name of the attribute for which has(event.x), or 'x' in event, tests."""
    member = _member_tested(node)
    found = None if member is None else path(member, "event")
    return found[0] if found is not None and len(found) == 1 else None


def _member_tested(node: Node) -> Node | None:
    """The member for which has(a.x), or 'x' in a, tests."""
    if node.kind == "select" and node.literal == "has":
        return Node("select", node.name, children=node.children)
    if node.kind == "call" and node.name == "@in" and node.children[0].text is not None:
        return Node("select", node.children[0].text, children=node.children[1:])
    return None


def _excludes_reading(atom: tuple[Node, bool], other: Node) -> bool:
    """Whether the atom says that a member is missing which the other atom must read."""
    node, outcome = atom
    member = None if outcome else _member_tested(node)
    if member is None:
        return False
    wanted = path(member, "data") or path(member, "event")
    variable = "data" if path(member, "data") else "event"
    return any(
        read == member or (bool(wanted) and path(read, variable) == wanted) for read in _always_read(other)
    )


def _has_no_members(facts: Sequence[Fact], other: Node) -> bool:
    """Whether a fact says that a term is no map or list, of which the other expression must read a member."""
    terms = [fact.term for fact in facts if is_scalar(fact)]
    return bool(terms) and any(
        read.children[0] in terms
        for read in _always_read(other)
        if read.kind == "select" or read.name == "_[_]"
    )


def _always_read(node: Node) -> Iterator[Node]:
    """The members without which the expression fails."""
    if node.kind == "loop":
        yield from _always_read(node.children[0])
        return
    if node.kind == "call" and node.name in _NOT_STRICT:
        return
    if node.kind in ("select", "call") and node.literal != "has":
        yield node
    for child in node.children:
        yield from _always_read(child)


def _replaced(node: Node, term: Node, by: Node) -> Node:
    """The expression with a constant in place of the term, outside of loops."""
    if node == term:
        return by
    if node.kind == "loop" or (node.kind == "select" and node.literal == "has"):
        return node
    children = tuple(_replaced(child, term, by) for child in node.children)
    if all(one is two for one, two in zip(children, node.children, strict=True)):
        return node
    return Node(node.kind, node.name, node.text, children, node.number, node.literal, node.method)
