"""Whether a CESQL expression can be true for some event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..possible import Search
from .contradictions import contradict
from .facts import Facts, facts
from .nodes import Node, cast_error
from .values import CASTS
from .written import unwrapped, written

MAX_MIXED: Final = 6  # operands of a chain that mixes AND, OR and XOR; a longer chain is an atom
MAX_CHECKS: Final = 2_000

Ways = Sequence[Sequence[tuple[Node, bool]]]


class SqlSearch(Search[Node]):
    """The search over a CESQL expression; afterwards `reason` says why it cannot be true, as far as known."""

    def __init__(self) -> None:
        super().__init__()
        self._facts: dict[tuple[int, bool], Facts] = {}
        self._checks = MAX_CHECKS
        self.reason: str | None = None

    def ways(self, node: Node, outcome: bool) -> Ways | None:
        node = unwrapped(node)
        if node.error is not None or cast_error(node, bool) is not None:
            return []
        if node.value is not None:
            if CASTS[bool](node.value) is outcome:
                return [[]]
            self._note(f"{written(node)} is never {'true' if outcome else 'false'}: leave it out")
            return []
        if node.form == "logic":
            return _ways_of_logic(node.parts, node.signs, outcome)
        if node.form == "NOT":
            return [[(node.parts[0], not outcome)]]
        if node.form == "call" and node.signs[0] == "BOOL":
            return [[(node.parts[0], outcome)]]
        if node.form in ("=", "!="):
            left, right = node.parts
            return _ways_of_equality(left, right, outcome is (node.form == "="))
        return None

    def fits(self, node: Node, outcome: bool, held: Sequence[tuple[Node, bool]]) -> bool:
        found = self._facts_of(node, outcome)
        if found.reason is not None:
            self._note(found.reason)
            return False
        impossible = node.kind is bool and not (node.can_be_true if outcome else node.can_be_false)
        if impossible or self._contradict([found]):
            self._note(f"no event gives {found}: write another comparison")
            return False
        others = [self._facts_of(*each) for each in held]
        for other in others:
            if not found.names.isdisjoint(other.names) and self._contradict([other, found]):
                self._note(f"{other} and {found} exclude each other: join them by OR, or leave one out")
                return False
        if self._contradict([*others, found]):
            parts = ", ".join(map(str, _connected([*others, found])))
            self._note(f"{parts} exclude each other: join some by OR, or leave some out")
            return False
        return True

    def _note(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _facts_of(self, node: Node, outcome: bool) -> Facts:
        key = (id(node), outcome)  # the expression holds its nodes
        if key not in self._facts:
            self._facts[key] = facts(unwrapped(node), outcome)
        return self._facts[key]

    def _contradict(self, together: Sequence[Facts]) -> bool:
        """Whether these outcomes are seen to exclude each other."""
        self._checks -= 1
        return self._checks >= 0 and contradict(together)


def _connected(found: Sequence[Facts]) -> list[Facts]:
    """Those that share attributes with the last one, or with others that do."""
    names = set(found[-1].names)
    for _ in found:
        names.update(*(each.names for each in found if not names.isdisjoint(each.names)))
    return [each for each in found if not names.isdisjoint(each.names)]


def _ways_of_logic(parts: Sequence[Node], signs: Sequence[str], outcome: bool) -> Ways | None:
    """AND and OR do not evaluate what cannot change their outcome, and fail if the part before fails.

    Each way has its last part first, since the search takes parts from the end.
    """
    kinds = set(signs)
    if kinds in ({"AND"}, {"OR"}):
        deciding = kinds == {"OR"}  # the outcome of a part that ends the evaluation
        if outcome is not deciding:
            return [[(part, outcome) for part in reversed(parts)]]
        return [
            [(parts[at], deciding), *((part, not deciding) for part in reversed(parts[:at]))]
            for at in range(len(parts))
        ]
    if len(parts) > MAX_MIXED:
        return None
    ways: dict[bool, list[list[tuple[Node, bool]]]] = {each: [[(parts[0], each)]] for each in (True, False)}
    for sign, part in zip(signs, parts[1:], strict=True):
        yes = {each: [[(part, True), *way] for way in ways[each]] for each in ways}
        no = {each: [[(part, False), *way] for way in ways[each]] for each in ways}
        if sign == "AND":
            ways = {True: yes[True], False: ways[False] + no[True]}
        elif sign == "OR":
            ways = {True: ways[True] + yes[False], False: no[False]}
        else:
            ways = {True: no[True] + yes[False], False: yes[True] + no[False]}
    return ways[outcome]


def _ways_of_equality(left: Node, right: Node, equal: bool) -> Ways | None:
    left, right = unwrapped(left), unwrapped(right)
    if right.value is not None and type(right.value) is bool:
        return [[(left, right.value is equal)]]
    both = (True, False)
    if right.value is not None and left.kind is bool:
        cast, value = CASTS[type(right.value)], right.value
        found = [[(left, each)] for each in both if (cast(each) == value) is equal]
        return found or None
    if left.value is not None and right.kind is bool:
        return [[(right, CASTS[bool](left.value) is equal)]]
    if left.kind is bool and right.kind is bool:
        return [[(right, other), (left, one)] for one in both for other in both if (one == other) is equal]
    return None
