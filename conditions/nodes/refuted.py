"""Conditions that can never be met because of another part: a ~, an expiry (E10, X9), or fail_on."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConditionError
from ..filters.outcome import outcome
from .combinations import AllOf, AnyOf, AtLeast
from .condition import Condition, shortened
from .duration import duration_text
from .matcher import Matcher
from .timers import Absent, Expires, Ordered, Quiet
from .windows import Window, is_matchers


def check_windows(condition: Condition) -> None:
    """Raises ConditionError for a window whose ~ refutes it, and for an expiry that always comes first."""
    if isinstance(condition, Window) and condition.negated:
        matcher = _refuted(condition.positive, condition.negated)
        if matcher is not None:
            raise ConditionError(
                f"{shortened(condition)} could never be met: its ~ also negates each event of"
                f" {shortened(matcher)}, which it requires"
            )
    if isinstance(condition, Expires):
        _check_expiry(condition)
    for operand in condition.operands:
        check_windows(operand)


def check_fail_on(condition: Condition, fail_on: Condition) -> None:
    """Raises ConditionError if each event that the condition needs meets `fail_on`, which then fires.

    A condition that expires may be there for its expiry.
    """
    if isinstance(condition, Expires) or not is_matchers(fail_on):
        return
    matcher = _refuted(condition, fail_on.matchers)
    if matcher is not None:
        raise ConditionError(
            f"fail_on {shortened(fail_on)} is met by each event of {shortened(matcher)}, which the condition"
            ' requires: the wait could only fail. Give the events of failures, such as state="failed"'
        )


def _refuted(condition: Condition, negated: Sequence[Matcher]) -> Matcher | None:
    """A matcher whose events are all negated, if the condition cannot be met without such events."""
    if isinstance(condition, Matcher):
        return condition if any(_accepts_all_of(condition, each) for each in negated) else None
    if isinstance(condition, Window):
        return _refuted(condition.positive, negated)
    if isinstance(condition, Absent) and condition.armed_by == "subscription":
        return None  # met without any event
    refuted = [_refuted(operand, negated) for operand in condition.operands]
    found = [each for each in refuted if each is not None]
    needed = 1 if isinstance(condition, AnyOf) else len(refuted)
    needed = condition.n if isinstance(condition, AtLeast) else needed
    return found[0] if len(refuted) - len(found) < needed else None


def _accepts_all_of(narrow: Matcher, wide: Matcher) -> bool:
    """Whether each event that the first matcher accepts meets the second one too, with the same key."""
    if wide.by not in (None, narrow.by) or wide.where not in (None, narrow.where):
        return False
    known = dict(narrow.exact)
    return all(known.get(name) == value for name, value in wide.exact) and all(
        each in narrow.filters or outcome(each, known) is True for each in wide.filters
    )


def _check_expiry(condition: Expires) -> None:
    inside = condition.of.of if isinstance(condition.of, Ordered) else condition.of
    needed_ms = _needed_ms(inside)
    if condition.armed_by == "event" and condition.after_ms is not None and condition.after_ms < needed_ms:
        after, needed = duration_text(condition.after_ms), duration_text(needed_ms)
        raise ConditionError(
            f'expires(after="{after}", armed_by="event"): {shortened(inside)} is met {needed} after the first'
            f' match at the earliest, so it would always expire. Give at least after="{needed}"'
        )


def _needed_ms(condition: Condition) -> int:
    """How long after its first match a condition is met at the earliest."""
    if isinstance(condition, Quiet):
        return condition.duration_ms
    if isinstance(condition, Absent):
        return condition.duration_ms if condition.armed_by == "event" else 0
    operands = sorted(map(_needed_ms, condition.operands))
    if isinstance(condition, AllOf):
        return operands[-1]
    if isinstance(condition, AnyOf):
        return operands[0]
    return operands[condition.n - 1] if isinstance(condition, AtLeast) else 0
