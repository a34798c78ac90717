"""Conditions as values: what every node of the tree has, and the nodes that join others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Union

from .errors import ConditionError

if TYPE_CHECKING:
    from typing import NoReturn

    from .matcher import Matcher

MAX_NODES: Final = 256
MAX_DEPTH: Final = 32

# A condition with its matchers replaced by their numbers: a number, or ("all" | "any", shapes).
Shape = Union[int, "tuple[str, tuple[Shape, ...]]"]


class Condition:
    """A node of a condition: immutable, hashable, equal by content. Join conditions with & and |.

    Equal conditions have equal JSON: the order of operands counts, because it numbers the matchers and, in
    `|`, decides which branch a firing takes.
    """

    operands: tuple[Condition, ...] = ()

    @cached_property
    def matchers(self) -> tuple[Matcher, ...]:
        """The distinct matchers in order of first appearance; a matcher's number is its index here."""
        return tuple(dict.fromkeys(_leaves(self)))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each matcher's part, parallel to `matchers` and unique in this condition.

        The label given, else the matcher's default_label; where that is taken, "#2", "#3"... is appended.
        """
        taken = {matcher.label for matcher in self.matchers if matcher.label is not None}
        labels: list[str] = []
        for matcher in self.matchers:
            label = matcher.label
            if label is None:
                label, number = matcher.default_label, 1
                while label in taken:
                    number += 1
                    label = f"{matcher.default_label}#{number}"
                taken.add(label)
            labels.append(label)
        return tuple(labels)

    @cached_property
    def keyed(self) -> bool:
        """True if any matcher reads a correlation key (`by`)."""
        return any(matcher.by is not None for matcher in self.matchers)

    @cached_property
    def nodes(self) -> int:
        """Number of nodes in the tree, matchers included; at most MAX_NODES."""
        return 1 + sum(operand.nodes for operand in self.operands)

    @cached_property
    def depth(self) -> int:
        """Levels of the tree: 1 for a matcher; at most MAX_DEPTH."""
        return 1 + max((operand.depth for operand in self.operands), default=0)

    @cached_property
    def shape(self) -> Shape:
        """The tree with each matcher replaced by its number: what evaluation walks."""
        numbers = {matcher: number for number, matcher in enumerate(self.matchers)}
        return _shape(self, numbers)

    def check_key(self, key_given: bool) -> None:
        """Raise ConditionError if waiting on this condition with, or without, a given key has no meaning."""
        if key_given and not self.keyed:  # K21
            raise ConditionError(
                f"a key is given, but no matcher reads one: add by= to a matcher of {_shortened(self)}, or"
                " drop the key"
            )
        unkeyed = [matcher for matcher in self.matchers if matcher.by is None]
        if self.keyed and unkeyed and not key_given:  # K22
            raise ConditionError(
                f"{_shortened(unkeyed[0])} has no key to share with the matchers beside it: add by= to it, or"
                " give the wait a key"
            )

    def to_json(self) -> dict[str, object]:
        """The condition as plain JSON values, with the version of the form; `from_json` reads it back."""
        from .codec import to_json

        return to_json(self)

    @staticmethod
    def from_json(obj: object) -> Condition:
        """The condition in parsed JSON; ConditionError tells the path to what is wrong."""
        from .codec import from_json

        return from_json(obj)

    def __and__(self, other: Condition) -> Condition:
        return _joined(AllOf, self, other)

    def __or__(self, other: Condition) -> Condition:
        return _joined(AnyOf, self, other)

    def __rand__(self, other: object) -> NoReturn:
        raise ConditionError(_not_a_condition("left side of &", other))

    def __ror__(self, other: object) -> NoReturn:
        raise ConditionError(_not_a_condition("left side of |", other))

    def __invert__(self) -> NoReturn:
        raise ConditionError(
            f"~ cannot be applied to {_shortened(self)}: without an end to the wait, an event is never known"
            " not to come. Conditions join with & (all) and | (any)"
        )

    def __bool__(self) -> NoReturn:
        raise ConditionError(
            "a condition is neither true nor false while a DAG is parsed: join conditions with & and |, not"
            " with `and`, `or` and `not`; to ask whether there is one, write `condition is not None`"
        )

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, init=False, repr=False)
class Combination(Condition):
    """A node that joins others: nested ones of its own kind are merged in, repeated operands count once."""

    operands: tuple[Condition, ...]
    symbol: ClassVar[str] = ""
    kind: ClassVar[str] = ""

    def __init__(self, *operands: Condition) -> None:
        name = type(self).__name__
        for number, operand in enumerate(operands, 1):
            if not isinstance(operand, Condition):
                raise ConditionError(_not_a_condition(f"argument {number} of {name}", operand))
        merged = _merged(type(self), operands)
        if len(merged) < 2:
            raise ConditionError(f"{name} needs at least two different conditions, it got {len(merged)}")
        object.__setattr__(self, "operands", merged)
        if self.nodes > MAX_NODES:
            raise ConditionError(f"the condition has {self.nodes} nodes: at most {MAX_NODES}")
        if self.depth > MAX_DEPTH:
            raise ConditionError(f"the condition is nested {self.depth} levels deep: at most {MAX_DEPTH}")
        _check_labels(self.matchers)

    def __str__(self) -> str:
        return f" {self.symbol} ".join(
            f"({operand})" if isinstance(operand, Combination) else str(operand) for operand in self.operands
        )


class AllOf(Combination):
    """Met when every operand is (docs/conditions.md, cases A1 to A7); `a & b` makes it."""

    symbol = "&"
    kind = "all"


class AnyOf(Combination):
    """Met when one operand is; the first in order takes part (cases O1 to O6); `a | b` makes it."""

    symbol = "|"
    kind = "any"


def _joined(kind: type[Combination], left: Condition, right: object) -> Condition:
    if not isinstance(right, Condition):
        raise ConditionError(_not_a_condition(f"right side of {kind.symbol}", right))
    merged = _merged(kind, (left, right))
    return merged[0] if len(merged) == 1 else kind(*merged)


def _merged(kind: type[Combination], operands: tuple[Condition, ...]) -> tuple[Condition, ...]:
    flat: dict[Condition, None] = {}
    for operand in operands:
        flat.update(dict.fromkeys(operand.operands if type(operand) is kind else (operand,)))
    return tuple(flat)


def _check_labels(matchers: tuple[Matcher, ...]) -> None:
    named: dict[str, Matcher] = {}
    for matcher in matchers:
        if matcher.label is not None and named.setdefault(matcher.label, matcher) is not matcher:
            raise ConditionError(
                f"label {matcher.label!r} names two matchers, {_shortened(named[matcher.label])} and"
                f" {_shortened(matcher)}: give each its own"
            )


def _leaves(condition: Condition) -> Iterator[Matcher]:
    if not condition.operands:
        yield condition  # type: ignore[misc]  # the only node without operands is a matcher
    for operand in condition.operands:
        yield from _leaves(operand)


def _shape(condition: Condition, numbers: dict[Matcher, int]) -> Shape:
    if isinstance(condition, Combination):
        return (condition.kind, tuple(_shape(operand, numbers) for operand in condition.operands))
    return numbers[condition]  # type: ignore[index]


def _not_a_condition(where: str, value: object) -> str:
    return f"the {where} is a {type(value).__name__}: write a condition, such as event(type=...)"


def _shortened(condition: Condition) -> str:
    text = str(condition)
    return text if len(text) <= 200 else text[:200] + "..."
