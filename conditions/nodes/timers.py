"""The nodes that need ticks: absence, quiet period, expiry, and the total order of matches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from ...events.attributes import shown
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from .combinations import called_text
from .condition import Condition, Role, check_operand, check_tree, not_a_condition, shortened
from .duration import checked_ms, duration_ms, duration_text
from .windows import is_matchers

ArmedBy = Literal["event", "subscription"]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_MOMENT_MS: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MILLISECOND


class TimedNode(Condition):
    """A node that a tick meets."""

    @property
    def timed(self) -> bool:
        return True

    @property
    def role(self) -> Role:
        return Role.TIMED


class WholeNode(TimedNode):
    """A node that applies to the whole condition and needs ticks."""

    @property
    def role(self) -> Role:
        return Role.WHOLE


@dataclass(frozen=True, init=False, repr=False)
class Absent(TimedNode):
    """Met when no event of `of` has come for `duration_ms` (cases B1 to B6); `absent()` makes it."""

    of: Condition
    duration_ms: int
    armed_by: ArmedBy

    def __init__(self, of: Condition, duration_ms: int, armed_by: ArmedBy = "event") -> None:
        if not isinstance(of, Condition):
            raise ConditionError(not_a_condition("argument 1 of absent", of))
        if not is_matchers(of):  # B4
            raise ConditionError(
                f"absent() watches a matcher, or matchers joined with |, not {shortened(of)}: join several"
                " absent() with &"
            )
        _check_armed_by("absent", armed_by)
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "duration_ms", checked_ms("absent()", duration_ms))
        object.__setattr__(self, "armed_by", armed_by)
        check_tree(self)

    def __str__(self) -> str:
        armed = "" if self.armed_by == "event" else ', armed_by="subscription"'
        return f'absent({self.of}, "{duration_text(self.duration_ms)}"{armed})'


@dataclass(frozen=True, init=False, repr=False)
class Quiet(TimedNode):
    """Met when `of` is and no further match has come for `duration_ms` (cases U1 to U4)."""

    of: Condition
    duration_ms: int

    def __init__(self, of: Condition, duration_ms: int) -> None:
        object.__setattr__(self, "of", check_operand("operand of quiet()", of, Role.EVENTS))
        object.__setattr__(self, "duration_ms", checked_ms("quiet()", duration_ms))
        check_tree(self)

    def __str__(self) -> str:
        return f'{called_text(self.of)}.quiet("{duration_text(self.duration_ms)}")'


@dataclass(frozen=True, init=False, repr=False)
class Ordered(WholeNode):
    """The condition `of`, with matches that enter in one total order (W5); `.ordered()` makes it."""

    of: Condition

    def __init__(self, of: Condition) -> None:
        checked = check_operand("operand of ordered()", of, Role.EVENTS, Role.TIMED, Role.WINDOW_END)
        object.__setattr__(self, "of", checked)
        check_tree(self)

    def __str__(self) -> str:
        return f"{called_text(self.of)}.ordered()"


@dataclass(frozen=True, init=False, repr=False)
class Expires(WholeNode):
    """Fires `expired` if its condition is not met in time (cases X1 to X8).

    after_ms: from the start of the wait if it has one, else from a key's first match; at_ms: a time in ms
    since the epoch. At least one is given. armed_by: "event" always counts from the first match.
    """

    of: Condition
    after_ms: int | None
    at_ms: int | None
    armed_by: ArmedBy

    def __init__(
        self,
        of: Condition,
        after_ms: int | None = None,
        at_ms: int | None = None,
        armed_by: ArmedBy = "subscription",
    ) -> None:
        inside = of.of if isinstance(of, Ordered) else of
        check_operand("operand of expires()", inside, Role.EVENTS, Role.TIMED, Role.WINDOW_END)
        if after_ms is None and at_ms is None:
            raise ConditionError('expires() needs a time: write expires(after="2h") or expires(at=...)')
        if after_ms is not None:
            checked_ms("expires(after=)", after_ms)
        if at_ms is not None and (
            not isinstance(at_ms, int) or isinstance(at_ms, bool) or not 0 < at_ms <= _MAX_MOMENT_MS
        ):
            raise ConditionError(f"expires(at=): {shown(at_ms)} is not a time in the years 1970 to 9999")
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "after_ms", after_ms)
        _check_armed_by("expires", armed_by)
        object.__setattr__(self, "at_ms", at_ms)
        object.__setattr__(self, "armed_by", armed_by)
        check_tree(self)

    def __str__(self) -> str:
        given = [] if self.after_ms is None else [f'after="{duration_text(self.after_ms)}"']
        given += [] if self.at_ms is None else [f'at="{moment_text(self.at_ms)}"']
        given += [] if self.armed_by == "subscription" else ['armed_by="event"']
        return f"{called_text(self.of)}.expires({', '.join(given)})"


@takes_plain_text
def absent(
    condition: Condition,
    duration: str | timedelta | None = None,
    *,
    armed_by: ArmedBy = "event",
    **units: float,
) -> Absent:
    """Met when no event of the matcher (or of matchers joined with |) has come for `duration`.

    armed_by: "event": a key is watched from its first event on; "subscription": from the start of the wait.
    """
    return Absent(condition, duration_ms("absent()", duration, units), armed_by)


def ordered(condition: Condition) -> Condition:
    """The condition inside Ordered, which goes inside an expiry; an ordered one is returned unchanged."""
    if isinstance(condition, Ordered):
        return condition
    if isinstance(condition, Expires):
        return condition.with_operands(ordered(condition.of))
    return Ordered(condition)


def _check_armed_by(where: str, armed_by: object) -> None:
    if not isinstance(armed_by, str) or armed_by not in ("event", "subscription"):
        raise ConditionError(f'{where}(armed_by={shown(armed_by)}): give "event" or "subscription"')


def moment_ms(value: datetime | str) -> int:
    """Milliseconds since the epoch of an aware datetime or its ISO 8601 text, rounded down.

    Raises ConditionError for anything else.
    """
    moment = value
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        except ValueError as error:
            raise ConditionError(
                f"expires(at={shown(value)}) is not an ISO 8601 time: write 2026-11-20T18:00:00+00:00"
            ) from error
    if not isinstance(moment, datetime):
        raise ConditionError(f"expires(at=) is a {type(value).__name__}: give an aware datetime")
    if moment.tzinfo is None:
        raise ConditionError(f"expires(at={value}) has no time zone: give one")
    # datetime's own operator: DAG files may hold pendulum's datetimes, whose differences have no //.
    ms = datetime.__sub__(moment, _EPOCH) // _MILLISECOND
    if not 0 < ms <= _MAX_MOMENT_MS:
        raise ConditionError(f"expires(at={value}) is outside the years 1970 to 9999")
    return ms


def moment_text(ms: int) -> str:
    """The RFC 3339 text of a time; `moment_ms` reads it back."""
    text = (_EPOCH + ms * _MILLISECOND).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text.removesuffix(".000") + "Z"
