"""The error that this package raises."""

from __future__ import annotations

from ..events.errors import InterlockError


class ConditionError(InterlockError, ValueError):
    """A condition, a key or a stored state is invalid; the message names the argument or the JSON path."""
