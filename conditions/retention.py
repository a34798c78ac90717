"""`keep` for a whole condition: which of repeated matches its matchers hold (H1 to H3)."""

from __future__ import annotations

from .combinations import AtLeast, Combination, Count, Sequence
from .condition import Condition, Keep
from .errors import ConditionError
from .matcher import Matcher
from .timers import Absent, Expires, Ordered, Quiet
from .windows import Not, Reset, Within


def with_keep(condition: Condition, keep: Keep, limit: int | None) -> Condition:
    """The condition with `keep` for every matcher that has none; those under `~` and `absent` hold one."""
    if isinstance(condition, Matcher):
        return _kept(condition, keep, limit)
    if isinstance(condition, (Not, Absent)):
        return condition
    if isinstance(condition, Combination):
        return type(condition)(*(with_keep(operand, keep, limit) for operand in condition.of))
    if isinstance(condition, AtLeast):
        return AtLeast(condition.n, *(with_keep(operand, keep, limit) for operand in condition.of))
    if isinstance(condition, Sequence):
        operands = (with_keep(operand, keep, limit) for operand in condition.of)
        return Sequence(*operands, ordered=condition.in_order)
    if isinstance(condition, Count):
        return Count(_kept(condition.of, keep, limit), condition.n)
    if isinstance(condition, Within):
        return Within(with_keep(condition.of, keep, limit), condition.duration_ms, condition.lateness_ms)
    if isinstance(condition, Reset):
        inside = with_keep(condition.of, keep, limit)
        return Reset(inside, condition.cron, condition.timezone, condition.lateness_ms)
    if isinstance(condition, Quiet):
        return Quiet(with_keep(condition.of, keep, limit), condition.duration_ms)
    if isinstance(condition, Ordered):
        return Ordered(with_keep(condition.of, keep, limit))
    if isinstance(condition, Expires):
        return Expires(with_keep(condition.of, keep, limit), condition.after_ms, condition.at_ms)
    raise ConditionError(f"keep() of a {type(condition).__name__} has no meaning")


def _kept(matcher: Matcher, keep: Keep, limit: int | None) -> Matcher:
    if matcher.keeps is not None:
        return matcher
    return Matcher(
        matcher.exact,
        by=matcher.by,
        label=matcher.label,
        filters=matcher.filters,
        where=matcher.where,
        keeps=keep,
        limit=limit,
    )
