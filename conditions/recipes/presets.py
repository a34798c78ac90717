"""Conditions under the names that people look for; each is a few nodes, and equal to them."""

from __future__ import annotations

from datetime import timedelta

from ..nodes.combinations import AllOf, AnyOf, count
from ..nodes.condition import Condition
from ..nodes.matcher import Matcher
from ..nodes.timers import Absent, ArmedBy, Quiet, absent
from ..nodes.windows import Reset, Within


def all_of(*conditions: Condition, within: str | timedelta | None = None) -> Condition:
    """Met when every one of these is: their `&`. within: by events that lie so close together."""
    joined = _one_or(AllOf, conditions)
    return joined if within is None else joined.within(within)


def any_of(*conditions: Condition) -> Condition:
    """Met when one of these is: their `|`."""
    return _one_or(AnyOf, conditions)


def every_nth(matcher: Matcher, n: int) -> Condition:
    """Fires with every n events of the matcher, each of which takes part once."""
    return count(matcher, n)


def burst(matcher: Matcher, n: int, within: str | timedelta) -> Within:
    """Fires with the nth event of the matcher inside a sliding window: the third failure in an hour."""
    return count(matcher, n).within(within)


def debounce(condition: Condition, duration: str | timedelta) -> Quiet:
    """Fires once its matches have paused for `duration`, for a whole burst of them."""
    return condition.quiet(duration)


def heartbeat(matcher: Condition, every: str | timedelta, *, armed_by: ArmedBy = "event") -> Absent:
    """Fires when the events that should come at least so often stop coming, once for each silence.

    armed_by: "event", a key is watched from its first event on; "subscription", from the start of the wait
    on, so that one that never comes is missed too.
    """
    return absent(matcher, every, armed_by=armed_by)


def not_followed_by(condition: Condition, unwanted: Condition, within: str | timedelta) -> Within:
    """Fires when this long has passed since an event of the condition, and none of `unwanted` has come.

    condition: what must be met in that time; of several events each begins a window of its own (E3).
    unwanted: a matcher, or matchers joined with |.
    """
    return (condition & ~unwanted).within(within)


def daily(*conditions: Condition, timezone: str = "UTC") -> Reset:
    """Met when every one of these is, by events of one calendar day in a time zone."""
    return _one_or(AllOf, conditions).resets("0 0 * * *", timezone=timezone)


def _one_or(kind: type[AllOf] | type[AnyOf], conditions: tuple[Condition, ...]) -> Condition:
    """The conditions joined; one alone, or one that stands several times, is itself."""
    distinct = tuple(dict.fromkeys(conditions))
    if len(distinct) == 1 and isinstance(distinct[0], Condition):
        return distinct[0]
    return kind(*distinct)
