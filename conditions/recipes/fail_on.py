"""A wait's condition joined with its `fail_on`: one condition, whose firing says which of the two was met."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..errors import ConditionError
from ..nodes.combinations import AnyOf
from ..nodes.condition import Condition, Role, check_operand, shortened
from ..nodes.matcher import Matcher
from ..nodes.retention import replaced
from ..nodes.timers import Expires, Ordered

PREFIX: Final = "fail_on: "


def with_fail_on(condition: Condition, fail_on: Condition | None) -> Condition:
    """A condition met when either of the two is; if an event meets both, `fail_on` fires.

    The labels of `fail_on` get a prefix, by which `is_failure` recognises them; `expires` and `ordered` stay
    outermost. Raises ConditionError if the two do not fit together.
    """
    if taken := [label for label in condition.labels if is_failure([label])]:
        raise ConditionError(f"label {taken[0]!r}: the prefix {PREFIX!r} is reserved for fail_on")
    if fail_on is None:
        return condition
    check_operand("fail_on", fail_on, Role.EVENTS, Role.TIMED, Role.WINDOW_END)
    if fail_on.plan.watches_from_the_start:  # its firing may have no event, and so no label
        raise ConditionError(
            'fail_on: absent(armed_by="subscription") is not possible here: end the wait with expires(), or'
            ' write armed_by="event"'
        )
    changed = {
        matcher: _labelled(matcher, PREFIX + label)
        for matcher, label in zip(fail_on.matchers, fail_on.labels, strict=True)
    }
    return _beside(condition, replaced(fail_on, changed))


def is_failure(labels: Iterable[str]) -> bool:
    """Whether a firing with events of these labels met `fail_on`."""
    return any(label.startswith(PREFIX) for label in labels)


def failure_matchers(condition: Condition) -> tuple[int, ...]:
    """The numbers of the matchers of `fail_on`."""
    return tuple(number for number, label in enumerate(condition.labels) if is_failure([label]))


def _beside(condition: Condition, fail_on: Condition) -> Condition:
    """`fail_on | condition`, inside the condition's `expires` and `ordered`; `fail_on` comes first (O2)."""
    if isinstance(condition, (Expires, Ordered)):
        return condition.with_operands(_beside(condition.of, fail_on))
    return AnyOf(fail_on, condition)


def _labelled(matcher: Matcher, label: str) -> Matcher:
    try:
        return matcher.changed(label=label)
    except ConditionError as e:
        raise ConditionError(f"fail_on: {shortened(matcher)} needs a shorter label=: {e}") from e
