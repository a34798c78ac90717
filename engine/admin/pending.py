"""What is missing until a subscription fires."""

from __future__ import annotations

from ...conditions import ConditionError, State
from ..registry.registry import Registered


def missing(registered: Registered, state: State) -> tuple[str, ...]:
    """The labels that an expiry would report as missing."""
    from ...conditions import explain

    try:
        return explain(registered.condition, state, state.last_ms or 0).missing
    except ConditionError:
        return ()
