"""Condition: the base class of all nodes of a condition.

A node's `Role` decides where it may stand. The constructors check this, so that a condition without a meaning
fails where its author wrote it (docs/use/conditions.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from ...events.attributes import kind
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError

if TYPE_CHECKING:
    from typing import NoReturn

    from ..evaluate.plan import Plan
    from .matcher import Matcher
    from .timers import ArmedBy, Expires, Quiet
    from .windows import Reset, Within

MAX_NODES: Final = 256
MAX_DEPTH: Final = 32

Keep = Literal["latest", "first", "all"]


class Role(Enum):
    """What meets a node, which decides where it may stand."""

    EVENTS = "events"  # events only: allowed everywhere
    TIMED = "timed"  # a tick: not allowed in windows and sequences, which compare event times
    WINDOW_END = "window end"  # the end of its window: allowed alone or in an outermost `|`
    NEGATION = "negation"  # the end of a window around it: allowed only directly in a window
    WHOLE = "whole"  # it applies to the whole condition: must be outermost


class Condition:
    """A node of a condition: immutable, hashable, equal by content. Join conditions with & and |.

    Equal conditions have equal JSON. The order of operands matters: it numbers the matchers and, in `|`,
    decides which branch a firing takes.
    """

    of: Condition | tuple[Condition, ...]

    @property
    def operands(self) -> tuple[Condition, ...]:
        """The nodes directly below this one."""
        return self.of if isinstance(self.of, tuple) else (self.of,)

    def with_operands(self, *operands: Condition) -> Condition:
        """The same node with other operands."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # every node is a dataclass
        return type(self)(*operands, **{name: getattr(self, name) for name in names if name != "of"})

    @property
    def role(self) -> Role:
        """What meets this node."""
        return Role.EVENTS

    @property
    def timed(self) -> bool:
        """True if this node itself needs ticks."""
        return False

    def timed_nodes(self) -> Iterator[Condition]:
        """The nodes of the tree that need ticks, outermost first."""
        if self.timed:
            yield self
        for operand in self.operands:
            yield from operand.timed_nodes()

    @cached_property
    def matchers(self) -> tuple[Matcher, ...]:
        """The distinct matchers in order of first appearance; a matcher's number is its index here."""
        return tuple(dict.fromkeys(_leaves(self)))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of each matcher, parallel to `matchers` and unique in this condition.

        The label given, else the matcher's default_label, with "#2", "#3"... appended if that is taken.
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
    def key_parts(self) -> int:
        """How many values a correlation key has: 1, more for a composite `by`, 0 if no matcher reads one."""
        paths = (matcher.by for matcher in self.matchers if matcher.by is not None)
        return next((1 if isinstance(by, str) else len(by) for by in paths), 0)

    @cached_property
    def distinct_of(self) -> dict[Matcher, str | tuple[str, ...] | None]:
        """{matcher: the paths whose values make its events different}.

        (): count() counts every event. None: the matcher stands in no count(). Raises ConditionError if it
        also stands in a count() with other paths than () or the default, or in two with different paths (Q8).
        """
        found: dict[Matcher, str | tuple[str, ...] | None] = {}
        for operand in self.operands:
            for matcher, paths in operand.distinct_of.items():
                known = found.setdefault(matcher, paths)
                if known == paths:
                    continue
                stated = paths if known is None else known
                if None in (known, paths) and stated in ((), matcher.counted_by):
                    found[matcher] = stated
                else:  # Q8
                    raise ConditionError(
                        f"{shortened(matcher)} stands in this condition with different distinct=: give one of"
                        " the two a label=, so that they are two matchers"
                    )
        return found

    @cached_property
    def distinct_paths(self) -> dict[int, str | tuple[str, ...]]:
        """{number of a matcher: the paths whose values make its events different}; without the others."""
        found = ((matcher, self.distinct_of.get(matcher)) for matcher in self.matchers)
        return {number: paths for number, (_, paths) in enumerate(found) if paths}

    @cached_property
    def nodes(self) -> int:
        """Number of nodes in the tree, matchers included; at most MAX_NODES."""
        return 1 + sum(operand.nodes for operand in self.operands)

    @cached_property
    def depth(self) -> int:
        """Levels of the tree: 1 for a matcher; at most MAX_DEPTH."""
        return 1 + max((operand.depth for operand in self.operands), default=0)

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of its parameters, in order of first appearance; empty once it is bound."""
        return tuple(dict.fromkeys(name for matcher in self.matchers for name in matcher.params))

    def bind(self, /, **values: str | int | bool) -> Condition:
        """The condition with a value for each parameter. Raises ConditionError for other or missing ones."""
        from .param import bound

        return bound(self, values)

    @cached_property
    def plan(self) -> Plan:
        """The condition in the form that `step` evaluates; built on first use."""
        from ..evaluate.plan import Plan
        from .zones import check_zones

        if self.params:
            from .param import without_value

            raise ConditionError(without_value(self.params))
        check_zones(self)
        if self.role is Role.NEGATION:
            raise ConditionError(negation_without_end(self))
        return Plan.of(self)

    @cached_property
    def needs_ticks(self) -> bool:
        """True if it has timers, so that `step` must be given ticks."""
        return self.plan.timed

    @property
    def merge_independent(self) -> bool:
        """True if firings do not depend on the order in which events of different partitions arrive (V3)."""
        return self.plan.merge_independent

    def check(self) -> None:
        """Raises ConditionError if it cannot be evaluated: `a & ~b` without a window, or too high a cost."""
        _ = self.plan

    def check_key(self, key_given: bool) -> None:
        """Raises ConditionError if waiting on this condition with, or without, a given key has no meaning."""
        if not isinstance(key_given, bool):
            raise ConditionError(f"check_key(key_given) is {kind(key_given)}: give True or False")
        self.check()
        if key_given and not self.keyed:  # K21
            raise ConditionError(
                f"a key is given, but no matcher reads one: add by= to a matcher of {shortened(self)}"
                f"{_such_as(self.matchers)}, or drop the key"
            )
        unkeyed = [matcher for matcher in self.matchers if matcher.by is None]
        if self.keyed and unkeyed and not key_given:  # K22
            raise ConditionError(
                f"{shortened(unkeyed[0])} reads no key, but other matchers of the condition do: add by= to"
                f" it{_such_as(unkeyed[:1])}, or give the wait a key"
            )
        if self.keyed and not key_given and self.plan.watches_from_the_start:  # B2
            raise ConditionError(
                'absent(armed_by="subscription") watches a key before its first event, but the keys of this'
                ' wait are not known: give the wait a key, or write armed_by="event"'
            )

    # -- forms

    def to_json(self) -> dict[str, object]:
        """The condition as plain JSON values with the form's version; `from_json` reads it back."""
        from ..forms.codec import to_json

        return to_json(self)

    @staticmethod
    def from_json(obj: object) -> Condition:
        """The condition in parsed JSON; ConditionError names the path of the fault."""
        from ..forms.codec import from_json

        return from_json(obj)

    @staticmethod
    def parse(text: str, names: Mapping[str, Condition] | None = None) -> Condition:
        """The condition in a text: what `str()` gives, or `(a && b) || c` over `names`."""
        from ..forms.text import parse

        return parse(text, names)

    # -- windows, timers and keep

    @takes_plain_text
    def within(
        self,
        duration: str | timedelta | None = None,
        *,
        lateness: str | timedelta | None = None,
        **units: float,
    ) -> Within:
        """Met by events whose times lie within `duration` of each other (I1 to I8; with `~` E1 to E10).

        duration: "2h", "1h30m", a timedelta, or hours=2. lateness: how much longer an event is held after it
        was recorded, default 1 hour; with `~`, how long after its end the window is evaluated, default 0.
        """
        from .duration import duration_ms
        from .windows import Within

        late = None if lateness is None else duration_ms("lateness", lateness, zero=True)
        return Within(self, duration_ms("within()", duration, units), late)

    @takes_plain_text
    def resets(self, cron: str, *, timezone: str = "UTC", lateness: str | timedelta | None = None) -> Reset:
        """Met by events of one period (R1 to R6). cron: five fields; a period begins at each of its times.

        timezone: a name such as "Europe/London". lateness: as for within(), counted from the period's end.
        """
        from .duration import duration_ms
        from .windows import Reset

        late = None if lateness is None else duration_ms("lateness", lateness, zero=True)
        return Reset(self, cron, timezone, late)

    @takes_plain_text
    def quiet(self, duration: str | timedelta | None = None, **units: float) -> Quiet:
        """Met when this is met and no further match has come for `duration` (U1 to U4)."""
        from .duration import duration_ms
        from .timers import Quiet

        return Quiet(self, duration_ms("quiet()", duration, units))

    @takes_plain_text
    def expires(
        self,
        after: str | timedelta | None = None,
        *,
        at: datetime | str | None = None,
        armed_by: ArmedBy = "subscription",
    ) -> Expires:
        """Fires once with outcome `expired` if this is not met in time (X1 to X8).

        after: a duration from the start of a task's wait, or from a key's first match if the keys are not
        known; with armed_by="event" always from the first match. at: an aware datetime, or ISO 8601 text.
        """
        from .duration import duration_ms
        from .timers import Expires, moment_ms

        return Expires(
            self,
            None if after is None else duration_ms("expires(after=)", after),
            None if at is None else moment_ms(at),
            armed_by,
        )

    def ordered(self) -> Condition:
        """The same, with events of all partitions entering in one total order (W5)."""
        from .timers import ordered

        return ordered(self)

    @takes_plain_text
    def keep(self, which: Keep, limit: int | None = None) -> Condition:
        """The same with `keep` for every matcher without its own (H1 to H3)."""
        from .retention import with_keep

        return with_keep(self, which, limit)

    # -- operators

    def __and__(self, other: Condition) -> Condition:
        from .combinations import AllOf, joined

        return joined(AllOf, self, other)

    def __or__(self, other: Condition) -> Condition:
        from .combinations import AnyOf, joined

        return joined(AnyOf, self, other)

    def __rand__(self, other: object) -> NoReturn:
        raise ConditionError(not_a_condition("left side of &", other))

    def __ror__(self, other: object) -> NoReturn:
        raise ConditionError(not_a_condition("left side of |", other))

    def __invert__(self) -> Condition:
        from .windows import Not

        return self.of if isinstance(self, Not) else Not(self)

    def __bool__(self) -> NoReturn:
        raise ConditionError(
            "a condition is neither true nor false while a DAG is parsed: join conditions with & and |, not"
            " with `and`, `or` and `not`; to test whether one is given, write `condition is not None`"
        )

    def __repr__(self) -> str:
        return str(self)


def check_tree(condition: Condition) -> None:
    """Raises ConditionError if a tree is too large, too deep, or its matchers do not fit together."""
    if condition.nodes > MAX_NODES:
        raise ConditionError(f"the condition has {condition.nodes} nodes: at most {MAX_NODES}")
    if condition.depth > MAX_DEPTH:
        raise ConditionError(f"the condition is nested {condition.depth} levels deep: at most {MAX_DEPTH}")
    _ = condition.distinct_of
    named: dict[str, Matcher] = {}
    parts: dict[int, Matcher] = {}
    for matcher in condition.matchers:
        if matcher.label is not None and named.setdefault(matcher.label, matcher) is not matcher:
            raise ConditionError(
                f"label {matcher.label!r} names two matchers, {shortened(named[matcher.label])} and"
                f" {shortened(matcher)}: give each its own"
            )
        if matcher.by is not None:
            parts.setdefault(1 if isinstance(matcher.by, str) else len(matcher.by), matcher)
    if len(parts) > 1:
        (n, one), (m, other) = list(parts.items())[:2]
        raise ConditionError(
            f"{shortened(one)} and {shortened(other)} read keys of {n} and {m} values, which are never equal:"
            " give each by= the same number of paths"
        )


def check_operand(where: str, value: object, *roles: Role) -> Condition:
    """The value if it is a condition of one of these roles; ConditionError says what to write instead."""
    if not isinstance(value, Condition):
        raise ConditionError(not_a_condition(where, value))
    if value.role in roles:
        return value
    text = shortened(value)
    if value.role is Role.NEGATION:
        raise ConditionError(f"{where}: {negation_without_end(value)}")
    if value.role is Role.WHOLE:
        raise ConditionError(
            f"{where}: {text} applies to a whole condition: put it outside, as the last call"
        )
    if value.role is Role.WINDOW_END:
        raise ConditionError(
            f"{where}: {text} is met when its window ends, and must stand alone or in an outermost |: put the"
            " other conditions into the window, (a & ~b & c).within(...), or join with |"
        )
    raise ConditionError(
        f"{where}: {text} is met by a timer; within(), resets(), quiet() and sequences need conditions that"
        " events meet: put it beside them, with & or |"
    )


def negation_without_end(condition: Condition) -> str:
    """The error text for a `~` that no window is around."""
    return (
        f"{shortened(condition)}: ~ needs a window, because only its end shows that the event did not come;"
        ' write (a & ~b).within("1h") or (a & ~b).resets("0 0 * * *"), or absent(b, "1h") for no event in an'
        " hour"
    )


def not_a_condition(where: str, value: object) -> str:
    """The error text for something that is not a condition."""
    return f"the {where} is a {type(value).__name__}: write a condition, such as event(type=...)"


def shortened(condition: Condition) -> str:
    """The text of a condition, cut to 200 characters, for a message."""
    text = str(condition)
    return text if len(text) <= 200 else text[:200] + "..."


def _such_as(matchers: Sequence[Matcher]) -> str:
    """How the first of the matchers that a recipe makes is written with `by`; "" if there is none."""
    from .recipe_text import keyed_recipe

    found = next((text for text in map(keyed_recipe, matchers) if text is not None), None)
    return "" if found is None else f", such as {found}"


def _leaves(condition: Condition) -> Iterator[Matcher]:
    operands = condition.operands
    if not operands:
        yield condition  # type: ignore[misc]  # the only node without operands is a matcher
    for operand in operands:
        yield from _leaves(operand)
