"""`keep` for a whole condition: which of repeated matches its matchers hold (H1 to H3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import ConditionError
from .condition import Condition, Keep
from .matcher import Matcher
from .timers import Absent
from .windows import Not


def with_keep(condition: Condition, keep: Keep, limit: int | None) -> Condition:
    """The condition with `keep` for every matcher without its own.

    Matchers used only in `~` or `absent` stay unchanged, because `keep` has no effect there.
    Raises ConditionError for an invalid `keep` or `limit`.
    """
    if keep is None:
        raise ConditionError('keep(None): give "latest", "first" or "all"')
    condition.matchers[0].changed(
        keeps=keep, limit=limit
    )  # raises for invalid arguments even if no matcher changes
    changed = {
        matcher: matcher.changed(keeps=keep, limit=limit)
        for matcher in _holding(condition)
        if matcher.keeps is None
    }
    return replaced(condition, changed)


def _holding(condition: Condition) -> Iterator[Matcher]:
    if isinstance(condition, Matcher):
        yield condition
    elif not isinstance(condition, (Not, Absent)):
        for operand in condition.operands:
            yield from _holding(operand)


def replaced(condition: Condition, changed: Mapping[Matcher, Matcher]) -> Condition:
    """The same tree with other matchers; a matcher that stands in several places stays one matcher."""
    if isinstance(condition, Matcher):
        return changed.get(condition, condition)
    return condition.with_operands(*(replaced(operand, changed) for operand in condition.operands))
