"""`keep` for a whole condition: which of repeated matches its matchers hold (H1 to H3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import ConditionError
from .combinations import AtLeast, Combination, Count, Sequence
from .condition import Condition, Keep
from .matcher import Matcher
from .timers import Absent, Expires, Ordered, Quiet
from .windows import Not, Reset, Within


def with_keep(condition: Condition, keep: Keep, limit: int | None) -> Condition:
    """The condition with `keep` for every matcher that has none of its own.

    Those that stand only under `~` or `absent` are left: there one event is all that counts. ConditionError
    for a `keep` or `limit` that is none.
    """
    _kept(condition.matchers[0], keep, limit)  # wrong arguments are errors even where nothing changes
    changed = {matcher: _kept(matcher, keep, limit) for matcher in _holding(condition)}
    return replaced(condition, changed)


def _holding(condition: Condition) -> Iterator[Matcher]:
    if isinstance(condition, Matcher):
        yield condition
    elif not isinstance(condition, (Not, Absent)):
        for operand in condition.operands:
            yield from _holding(operand)


def replaced(condition: Condition, changed: Mapping[Matcher, Matcher]) -> Condition:
    """The same tree with other matchers: a matcher in several places stays one."""
    if isinstance(condition, Matcher):
        return changed.get(condition, condition)
    if isinstance(condition, Not):
        return Not(replaced(condition.of, changed))
    if isinstance(condition, Absent):
        return Absent(replaced(condition.of, changed), condition.duration_ms, condition.armed_by)
    if isinstance(condition, Combination):
        return type(condition)(*(replaced(operand, changed) for operand in condition.of))
    if isinstance(condition, AtLeast):
        return AtLeast(condition.n, *(replaced(operand, changed) for operand in condition.of))
    if isinstance(condition, Sequence):
        operands = (replaced(operand, changed) for operand in condition.of)
        return Sequence(*operands, ordered=condition.in_order)
    if isinstance(condition, Count):
        return Count(changed.get(condition.of, condition.of), condition.n)
    if isinstance(condition, Within):
        return Within(replaced(condition.of, changed), condition.duration_ms, condition.lateness_ms)
    if isinstance(condition, Reset):
        inside = replaced(condition.of, changed)
        return Reset(inside, condition.cron, condition.timezone, condition.lateness_ms)
    if isinstance(condition, Quiet):
        return Quiet(replaced(condition.of, changed), condition.duration_ms)
    if isinstance(condition, Ordered):
        return Ordered(replaced(condition.of, changed))
    if isinstance(condition, Expires):
        of = replaced(condition.of, changed)
        return Expires(of, condition.after_ms, condition.at_ms, condition.armed_by)
    raise ConditionError(f"keep() of a {type(condition).__name__} has no meaning")


def _kept(matcher: Matcher, keep: Keep, limit: int | None) -> Matcher:
    made = Matcher(
        matcher.exact,
        by=matcher.by,
        label=matcher.label,
        filters=matcher.filters,
        where=matcher.where,
        keeps=keep,
        limit=limit,
    )
    return made if matcher.keeps is None else matcher
