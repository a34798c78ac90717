"""The nodes that join others: all, any, at least n, n events of one matcher, a sequence."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, TypeAlias

from ...events.attributes import shown
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from .by import By, checked_paths, paths_text
from .condition import Condition, Role, check_operand, check_tree, not_a_condition, shortened
from .matcher import DEFAULT_LIMIT, Matcher

MAX_COUNT: Final = 1000
# Operands of at_least(distinct=): the search for events with different values tries them in turn.
MAX_DISTINCT_OPERANDS: Final = 16
_MET = (Role.EVENTS, Role.TIMED)


@dataclass(frozen=True, init=False, repr=False)
class Combination(Condition):
    """`&` or `|`: nested nodes of the same kind are merged in, repeated operands count once."""

    of: tuple[Condition, ...]
    symbol: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    roles: ClassVar[tuple[Role, ...]] = _MET

    def __init__(self, *operands: Condition) -> None:
        name = type(self).__name__
        for number, operand in enumerate(operands, 1):
            check_operand(f"argument {number} of {name}", operand, *self.roles)
        merged = _merged(type(self), operands)
        if len(merged) < 2:
            raise ConditionError(f"{name} needs at least two different conditions, it got {len(merged)}")
        object.__setattr__(self, "of", merged)
        check_tree(self)

    @property
    def role(self) -> Role:
        roles = {operand.role for operand in self.of}
        for role in (Role.NEGATION, Role.WINDOW_END, Role.TIMED):
            if role in roles:
                return role
        return Role.EVENTS

    def __str__(self) -> str:
        return f" {self.symbol} ".join(operand_text(operand) for operand in self.of)


class AllOf(Combination):
    """Met when every operand is (docs/use/conditions.md, cases A1 to A7); `a & b` makes it."""

    symbol = "&"
    kind = "all"
    roles = (*_MET, Role.NEGATION)  # an operand may be a `~` if a window is around the whole (E1)


class AnyOf(Combination):
    """Met when one operand is; the first in order takes part (cases O1 to O6); `a | b` makes it."""

    symbol = "|"
    kind = "any"
    roles = (*_MET, Role.WINDOW_END)


@dataclass(frozen=True, init=False, repr=False)
class AtLeast(Condition):
    """Met when n of the operands are (cases N1 to N6); `at_least()` makes it.

    distinct: if given, by events whose values at this path, or these paths, all differ.
    """

    n: int
    of: tuple[Condition, ...]
    distinct: str | tuple[str, ...] | None

    def __init__(self, n: int, *operands: Condition, distinct: By | None = None) -> None:
        for number, operand in enumerate(operands, 1):
            check_operand(f"argument {number} of at_least", operand, *_MET)
        different = tuple(dict.fromkeys(operands))
        paths = None if distinct is None else checked_paths("at_least", "distinct", distinct)
        if paths is not None:
            _check_distinct_operands(different)
        most, why = len(different), "at most the number of conditions; for 1, write at_least()"
        if paths is None:
            most, why = most - 1, "fewer than the conditions; for 1 or for all of them, write at_least()"
        _check_number("AtLeast(n)", n, 2, most, why)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "of", different)
        object.__setattr__(self, "distinct", paths)
        check_tree(self)

    def with_operands(self, *operands: Condition) -> AtLeast:
        return AtLeast(self.n, *operands, distinct=self.distinct)

    @cached_property
    def distinct_of(self) -> dict[Matcher, str | tuple[str, ...] | None]:
        return super().distinct_of if self.distinct is None else dict.fromkeys(self.matchers, self.distinct)

    @property
    def role(self) -> Role:
        return Role.TIMED if any(operand.role is Role.TIMED for operand in self.of) else Role.EVENTS

    def __str__(self) -> str:
        return f"at_least({self.n}, {', '.join(map(str, self.of))}{_distinct_text(self.distinct)})"


@dataclass(frozen=True, init=False, repr=False)
class Count(Condition):
    """Met by n different events of one matcher (cases Q1 to Q8); `count()` makes it.

    distinct: if given, events with the same value at this path, or these paths, count once.
    """

    of: Matcher
    n: int
    distinct: str | tuple[str, ...] | None

    def __init__(self, of: Matcher, n: int, distinct: By | None = None) -> None:
        if not isinstance(of, Condition):
            raise ConditionError(not_a_condition("argument 1 of count", of))
        if not isinstance(of, Matcher):  # Q3
            raise ConditionError(
                f"count() counts the events of one matcher, not {shortened(of)}: count each matcher, or let"
                ' one accept several types with filters=[{"any": [...]}]'
            )
        _check_number(
            "Count(n)", n, 2, MAX_COUNT, "because the state holds all of them; for 1 write the matcher alone"
        )
        held = of.limit or DEFAULT_LIMIT
        if of.keeps == "all" and held < n:
            raise ConditionError(
                f"count() asks for {n} events, but the matcher holds at most {held}: raise limit="
            )
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "n", n)
        paths = None if distinct is None else checked_paths("count", "distinct", distinct)
        object.__setattr__(self, "distinct", paths)
        check_tree(self)

    @cached_property
    def distinct_of(self) -> dict[Matcher, str | tuple[str, ...] | None]:
        return {self.of: self.distinct or ()}

    def __str__(self) -> str:
        distinct = _distinct_text(self.distinct)
        if self.distinct is None and self.of.counted_by is not None:
            distinct = ", distinct=None"
        return f"count({self.of}, {self.n}{distinct})"


@dataclass(frozen=True, init=False, repr=False)
class Sequence(Condition):
    """Met by events in this order (cases P1 to P7); `sequence()` makes it.

    in_order: matches enter in one total order by stamp, each after a tick later than its stamp (W5).
    """

    of: tuple[Condition, ...]
    in_order: bool

    def __init__(self, *operands: Condition, ordered: bool = True) -> None:
        if not isinstance(ordered, bool):
            raise ConditionError(f"sequence(ordered=...) is a {type(ordered).__name__}: write True or False")
        flat: list[Condition] = []
        for number, operand in enumerate(operands, 1):
            checked = check_operand(f"argument {number} of sequence", operand, Role.EVENTS)
            nested = isinstance(checked, Sequence) and checked.in_order is ordered
            flat.extend(checked.operands if nested else (checked,))
        if len(flat) < 2:
            raise ConditionError(f"sequence needs at least two conditions, it got {len(flat)}")
        object.__setattr__(self, "of", tuple(flat))
        object.__setattr__(self, "in_order", ordered)
        check_tree(self)

    def with_operands(self, *operands: Condition) -> Sequence:
        return Sequence(*operands, ordered=self.in_order)

    @property
    def timed(self) -> bool:
        return self.in_order

    def __str__(self) -> str:
        ordered = "" if self.in_order else ", ordered=False"
        return f"sequence({', '.join(map(str, self.of))}{ordered})"


@takes_plain_text
def at_least(n: int, *conditions: Condition, distinct: By | None = None) -> Condition:
    """Met when at least n of these conditions are; n = 1 gives their `|`, n = all of them their `&` (N2).

    distinct: a path as in `by`, or several: n of the conditions must be met by events with different values
    there, such as approvals of different people. All conditions must be matchers then (N4).
    """
    for number, condition in enumerate(conditions, 1):
        check_operand(f"argument {number} of at_least", condition, *_MET)
    different = tuple(dict.fromkeys(conditions))
    if not different:
        raise ConditionError("at_least() got no conditions: write at_least(2, a, b, c)")
    _check_number("at_least(n)", n, 1, len(different), "the number of different conditions")
    if distinct is not None:
        checked_paths("at_least", "distinct", distinct)
        _check_distinct_operands(different)
    if len(different) == 1:
        return different[0]
    if n == 1:
        return AnyOf(*different)
    if distinct is not None:
        return AtLeast(n, *different, distinct=distinct)
    return AllOf(*different) if n == len(different) else AtLeast(n, *different)


class _OfMatcher:
    """The default of count(distinct=): what the matcher's type says."""

    def __repr__(self) -> str:
        return "that of the matcher"


OF_MATCHER: Final = _OfMatcher()
Distinct: TypeAlias = By | _OfMatcher | None


@takes_plain_text
def count(matcher: Matcher, n: int, *, distinct: Distinct = OF_MATCHER) -> Condition:
    """Met by n different events of the matcher; n = 1 gives the matcher itself.

    distinct: a path as in `by`, or several: events with the same value there count once (Q5). So a run that
    was cleared, and ended twice, counts once. Default: the run for completion events of DAG runs, run and
    map index for those of task instances, and None, every event, for other matchers.
    """
    if n == 1 and isinstance(matcher, Matcher) and not isinstance(n, bool):
        return matcher
    if isinstance(distinct, _OfMatcher):
        distinct = matcher.counted_by if isinstance(matcher, Matcher) else None
    return Count(matcher, n, distinct)


@takes_plain_text
def sequence(*conditions: Condition, ordered: bool = True) -> Sequence:
    """Met by events of these conditions in this order. ordered=False: it does not wait for ticks (P6)."""
    return Sequence(*conditions, ordered=ordered)


def joined(kind: type[Combination], left: Condition, right: object) -> Condition:
    """`left & right` or `left | right`; equal operands count once."""
    if not isinstance(right, Condition):
        raise ConditionError(not_a_condition(f"right side of {kind.symbol}", right))
    merged = _merged(kind, (left, right))
    return merged[0] if len(merged) == 1 else kind(*merged)


def operand_text(condition: Condition) -> str:
    """The text of a condition as operand of `&`, `|` or `~`."""
    return f"({condition})" if isinstance(condition, Combination) else str(condition)


def called_text(condition: Condition) -> str:
    """The text of a condition before a method call, which binds more tightly than `~`."""
    return f"({condition})" if condition.role is Role.NEGATION else operand_text(condition)


def _check_distinct_operands(operands: SequenceOf[Condition]) -> None:
    for operand in operands:
        if not isinstance(operand, Matcher):  # N4
            raise ConditionError(
                f"at_least(distinct=...) compares the events of matchers, and {shortened(operand)} is not"
                " one: let a matcher accept several types with filters=[Any(...)]"
            )
    if len(operands) > MAX_DISTINCT_OPERANDS:
        raise ConditionError(
            f"at_least(distinct=...) has {len(operands)} matchers: at most {MAX_DISTINCT_OPERANDS}"
        )


def _distinct_text(distinct: str | tuple[str, ...] | None) -> str:
    return "" if distinct is None else f", distinct={paths_text(distinct)}"


def _merged(kind: type[Combination], operands: SequenceOf[Condition]) -> tuple[Condition, ...]:
    flat: dict[Condition, None] = {}
    for operand in operands:
        flat.update(dict.fromkeys(operand.operands if type(operand) is kind else (operand,)))
    return tuple(flat)


def _check_number(what: str, value: object, least: int, most: int, why: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConditionError(f"{what} is a {type(value).__name__}: give a whole number")
    if not least <= value <= most:
        raise ConditionError(f"{what} is {shown(value)}: from {least} to {most}, {why}")
