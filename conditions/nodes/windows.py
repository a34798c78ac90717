"""The nodes that limit which events take part together: a sliding window, a period, and `~` inside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import ConditionError
from .combinations import AllOf, AnyOf, called_text, operand_text
from .condition import Condition, Role, check_operand, check_tree, not_a_condition, shortened
from .duration import checked_ms, duration_text
from .matcher import Matcher

if TYPE_CHECKING:
    from .calendar import Periods

# How long after the end of a window an event may be recorded and still take part in it (I5, R4).
DEFAULT_LATENESS_MS: Final = 3_600_000
MAX_NESTED_WINDOWS: Final = 4


@dataclass(frozen=True, init=False, repr=False)
class Not(Condition):
    """Met when none of these events is in the window around it (cases E1 to E10); `~a` makes it."""

    of: Condition

    def __init__(self, of: Condition) -> None:
        if not isinstance(of, Condition):
            raise ConditionError(not_a_condition("operand of ~", of))
        if not is_matchers(of):  # E2
            raise ConditionError(
                f"~ cannot be applied to {shortened(of)}: it negates a matcher, or matchers joined with |;"
                " ~(b | c) means that neither comes; 'not both' cannot be expressed"
            )
        object.__setattr__(self, "of", of)
        check_tree(self)

    @property
    def role(self) -> Role:
        return Role.NEGATION

    def __str__(self) -> str:
        return f"~{operand_text(self.of)}"


@dataclass(frozen=True, init=False, repr=False)
class Window(Condition):
    """A condition whose events lie in one window; if it has a `~`, it is met when the window ends (E4).

    lateness_ms: None for the default: DEFAULT_LATENESS_MS, or 0 with a `~`.
    """

    of: Condition
    lateness_ms: int | None

    def _set(self, what: str, of: object, lateness_ms: int | None) -> None:
        checked = check_operand(f"operand of {what}", of, Role.EVENTS, Role.NEGATION)
        if lateness_ms is not None:
            checked_ms("lateness", lateness_ms, zero=True)
        if is_matchers(checked):  # I8
            raise ConditionError(
                f"{what} around {shortened(checked)} has no effect: a single event meets it; put several into"
                " the window, such as a & b or count(a, 2), or leave the window out"
            )
        object.__setattr__(self, "of", checked)
        object.__setattr__(self, "lateness_ms", lateness_ms)
        if checked.role is Role.NEGATION:
            _check_negation(self)

    @property
    def role(self) -> Role:
        return Role.WINDOW_END if self.of.role is Role.NEGATION else Role.EVENTS

    @property
    def timed(self) -> bool:
        return self.role is Role.WINDOW_END

    @property
    def late_ms(self) -> int:
        """The lateness in milliseconds, with the default applied."""
        if self.lateness_ms is not None:
            return self.lateness_ms
        return 0 if self.role is Role.WINDOW_END else DEFAULT_LATENESS_MS

    @property
    def positive(self) -> Condition:
        """The condition without its `~` operands."""
        if self.of.role is not Role.NEGATION:
            return self.of
        kept = [operand for operand in self.of.operands if not isinstance(operand, Not)]
        return kept[0] if len(kept) == 1 else AllOf(*kept)

    @property
    def negated(self) -> tuple[Matcher, ...]:
        """The matchers of the `~` operands."""
        if self.of.role is not Role.NEGATION:
            return ()
        nots = (operand for operand in self.of.operands if isinstance(operand, Not))
        return tuple(dict.fromkeys(matcher for operand in nots for matcher in operand.matchers))


@dataclass(frozen=True, init=False, repr=False)
class Within(Window):
    """Met by events whose times are at most `duration_ms` apart (cases I1 to I8); `.within()` makes it."""

    duration_ms: int

    def __init__(self, of: Condition, duration_ms: int, lateness_ms: int | None = None) -> None:
        object.__setattr__(self, "duration_ms", checked_ms("within()", duration_ms))
        self._set("within()", of, lateness_ms)
        _check_nesting(self)
        check_tree(self)

    def __str__(self) -> str:
        late = "" if self.lateness_ms is None else f', lateness="{duration_text(self.lateness_ms)}"'
        return f'{called_text(self.of)}.within("{duration_text(self.duration_ms)}"{late})'


@dataclass(frozen=True, init=False, repr=False)
class Reset(Window):
    """Met by events of one period of a cron expression (cases R1 to R6); `.resets()` makes it."""

    cron: str
    timezone: str

    def __init__(
        self, of: Condition, cron: str, timezone: str = "UTC", lateness_ms: int | None = None
    ) -> None:
        from .calendar import Periods

        periods = Periods(cron, timezone)
        object.__setattr__(self, "cron", periods.cron)  # normalised
        object.__setattr__(self, "timezone", timezone)
        self._set("resets()", of, lateness_ms)
        _check_nesting(self)
        check_tree(self)

    @property
    def periods(self) -> Periods:
        """The periods of the cron expression."""
        from .calendar import Periods

        return Periods(self.cron, self.timezone)

    def __str__(self) -> str:
        zone = "" if self.timezone == "UTC" else f', timezone="{self.timezone}"'
        late = "" if self.lateness_ms is None else f', lateness="{duration_text(self.lateness_ms)}"'
        return f'{called_text(self.of)}.resets("{self.cron}"{zone}{late})'


def is_matchers(condition: Condition) -> bool:
    """True for a matcher, and for matchers joined with `|`: one event meets them."""
    if isinstance(condition, AnyOf):
        return all(isinstance(operand, Matcher) for operand in condition.of)
    return isinstance(condition, Matcher)


def _check_negation(window: Window) -> None:
    if not isinstance(window.of, AllOf):  # E1: `~a` alone
        raise ConditionError(
            f"{shortened(window)}: nothing opens this window, because everything in it is negated; write"
            ' absent(b, "1h") for no event in an hour, or (a & ~b).within("1h")'
        )
    if all(isinstance(operand, Not) for operand in window.of.of):
        raise ConditionError(
            f"{shortened(window)}: nothing opens this window, because everything in it is negated; write"
            ' (absent(b, "1h") & absent(c, "1h")) for no event in an hour'
        )
    for operand in window.of.of:
        check_operand("operand beside ~", operand, Role.EVENTS, Role.NEGATION)
    both = [matcher for matcher in window.negated if matcher in window.positive.matchers]
    if both:  # E10
        raise ConditionError(
            f"{shortened(window)} requires and negates {shortened(both[0])}: it could never be met"
        )


def _check_nesting(condition: Condition) -> None:
    levels = _levels(condition)
    if levels > MAX_NESTED_WINDOWS:
        raise ConditionError(f"windows are nested {levels} deep: at most {MAX_NESTED_WINDOWS}")


def _levels(condition: Condition) -> int:
    below = max((_levels(operand) for operand in condition.operands), default=0)
    return below + isinstance(condition, Window)
