"""Common conditions under familiar names; each equals the nodes that it builds."""

from __future__ import annotations

from datetime import timedelta

from ..nodes.combinations import OF_MATCHER, AllOf, AnyOf, Distinct, count
from ..nodes.condition import Condition
from ..nodes.matcher import Matcher
from ..nodes.timers import Absent, ArmedBy, Quiet, absent
from ..nodes.windows import Reset, Within


def all_of(*conditions: Condition, within: str | timedelta | None = None) -> Condition:
    """Met when every one of these is: their `&`. within: how far apart the events may lie."""
    joined = _one_or(AllOf, conditions)
    return joined if within is None else joined.within(within)


def any_of(*conditions: Condition) -> Condition:
    """Met when one of these is: their `|`."""
    return _one_or(AnyOf, conditions)


def every_nth(matcher: Matcher, n: int, *, distinct: Distinct = OF_MATCHER) -> Condition:
    """Fires after every n events of the matcher; each event takes part once. distinct: as for `count`."""
    return count(matcher, n, distinct=distinct)


def burst(matcher: Matcher, n: int, within: str | timedelta, *, distinct: Distinct = OF_MATCHER) -> Within:
    """Fires at the nth event of the matcher in a sliding window, such as the third failure in an hour.

    distinct: as for `count`.
    """
    return count(matcher, n, distinct=distinct).within(within)


def debounce(condition: Condition, duration: str | timedelta) -> Quiet:
    """Fires once for a whole burst of matches, when none has come for `duration`."""
    return condition.quiet(duration)


def heartbeat(matcher: Condition, every: str | timedelta, *, armed_by: ArmedBy = "event") -> Absent:
    """Fires when no event of the matcher has come for `every`, once until the next event comes.

    armed_by: "event": a key is watched from its first event on; "subscription": from the start of the wait,
    so that it also fires if no event ever comes.
    """
    return absent(matcher, every, armed_by=armed_by)


def not_followed_by(condition: Condition, unwanted: Condition, within: str | timedelta) -> Within:
    """Fires when `within` has passed since an event of the condition and no event of `unwanted` has come.

    condition: must be met in that time; each of its events opens its own window (E3). unwanted: a matcher, or
    matchers joined with |.
    """
    return (condition & ~unwanted).within(within)


def daily(*conditions: Condition, timezone: str = "UTC") -> Reset:
    """Met when every one of these is, by events of one calendar day in a time zone."""
    return _one_or(AllOf, conditions).resets("0 0 * * *", timezone=timezone)


def _one_or(kind: type[AllOf] | type[AnyOf], conditions: tuple[Condition, ...]) -> Condition:
    """The conditions joined; a single one, or the same one several times, stays as it is."""
    distinct = tuple(dict.fromkeys(conditions))
    if len(distinct) == 1 and isinstance(distinct[0], Condition):
        return distinct[0]
    return kind(*distinct)
