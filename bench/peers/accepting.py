"""What the provider's trigger is told to apply to each message: whether it is the one that is waited for."""

from __future__ import annotations

import json
from typing import Any


def only(message: Any, key: str) -> str | None:
    """The message's text where it is for this key."""
    return message.value().decode() if json.loads(message.value()).get("k") == key else None
