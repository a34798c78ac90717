"""Common conditions under familiar names; each equals the nodes that it builds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from ...events.attributes import shown
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from ..nodes.combinations import OF_MATCHER, AllOf, AnyOf, Distinct, count
from ..nodes.condition import Condition
from ..nodes.duration import duration_ms
from ..nodes.matcher import Matcher
from ..nodes.timers import Absent, ArmedBy, Quiet, absent
from ..nodes.windows import Reset, Within

_Built = TypeVar("_Built", bound=Condition)


@takes_plain_text
def all_of(*conditions: Condition, within: str | timedelta | None = None) -> Condition:
    """Met when every one of these is: their `&`. within: how far apart the events may lie."""
    joined = _one_or("all_of", AllOf, conditions)
    return joined if within is None else joined.within(_duration("all_of", "within", within))


@takes_plain_text
def any_of(*conditions: Condition) -> Condition:
    """Met when one of these is: their `|`."""
    return _one_or("any_of", AnyOf, conditions)


@takes_plain_text
def every_nth(matcher: Matcher, n: int, *, distinct: Distinct = OF_MATCHER) -> Condition:
    """Fires after every n events of the matcher; each event takes part once. distinct: as for `count`."""
    return _counted("every_nth", matcher, n, distinct)


@takes_plain_text
def burst(matcher: Matcher, n: int, within: str | timedelta, *, distinct: Distinct = OF_MATCHER) -> Within:
    """Fires at the nth event of the matcher in a sliding window, such as the third failure in an hour.

    distinct: as for `count`.
    """
    return _counted("burst", matcher, n, distinct).within(_duration("burst", "within", within))


@takes_plain_text
def debounce(condition: Condition, duration: str | timedelta) -> Quiet:
    """Fires once for a whole burst of matches, when none has come for `duration`."""
    return _checked("debounce", "condition", condition).quiet(_duration("debounce", "duration", duration))


@takes_plain_text
def heartbeat(matcher: Condition, every: str | timedelta, *, armed_by: ArmedBy = "event") -> Absent:
    """Fires when no event of the matcher has come for `every`, and not again before the next event.

    armed_by: "event": a key is watched from its first event on; "subscription": from the start of the wait,
    so that it also fires if no event ever comes.
    """
    watched, duration = _checked("heartbeat", "matcher", matcher), _duration("heartbeat", "every", every)
    return _named("heartbeat", lambda: absent(watched, duration, armed_by=armed_by))


@takes_plain_text
def not_followed_by(condition: Condition, unwanted: Condition, within: str | timedelta) -> Within:
    """Fires when `within` has passed since an event of the condition and no event of `unwanted` has come.

    condition: must be met in that time; each of its events opens its own window (E3). unwanted: a matcher, or
    matchers joined with |.
    """
    name = "not_followed_by"
    wanted, other = _checked(name, "condition", condition), _checked(name, "unwanted", unwanted)
    duration = _duration(name, "within", within)
    return _named(name, lambda: (wanted & ~other).within(duration))


@takes_plain_text
def daily(*conditions: Condition, timezone: str = "UTC") -> Reset:
    """Met when every one of these is, by events of one calendar day in a time zone."""
    return _one_or("daily", AllOf, conditions).resets("0 0 * * *", timezone=timezone)


def _one_or(name: str, kind: type[AllOf] | type[AnyOf], conditions: tuple[Condition, ...]) -> Condition:
    """The conditions joined; a single one, or the same one several times, stays as it is."""
    if all(isinstance(condition, Condition) for condition in conditions):
        distinct = tuple(dict.fromkeys(conditions))
        if len(distinct) == 1:
            return distinct[0]
    return _named(name, lambda: kind(*conditions))


def _counted(name: str, matcher: Matcher, n: int, distinct: Distinct) -> Condition:
    return _named(name, lambda: count(matcher, n, distinct=distinct))


def _named(name: str, build: Callable[[], _Built]) -> _Built:
    try:
        return build()
    except ConditionError as error:
        raise ConditionError(f"{error} (in {name}())") from None


def _duration(name: str, argument: str, value: object) -> timedelta:
    return timedelta(milliseconds=duration_ms(f"{name}({argument}=)", value))  # type: ignore[arg-type]


def _checked(name: str, argument: str, value: object) -> Condition:
    if not isinstance(value, Condition):
        raise ConditionError(
            f"{name}(): {argument} is {shown(value)}: give a condition, such as event(type=...)"
        )
    return value
