"""The moments in a trigger's arguments, which are ISO 8601 texts, and how long it is until then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

READ_S: Final = 30.0  # how long a trigger that starts after `renew_at` tries to read its connection


def seconds_until(moment: str) -> float:
    """Returns the seconds until a moment; 0 if it has passed."""
    return max(0.0, (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds())


def seconds_to_read(renew_at: str) -> float:
    """Returns how long a trigger that ends at `renew_at` may try to read its connection."""
    return max(seconds_until(renew_at), READ_S)
