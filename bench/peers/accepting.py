"""The function that the provider's trigger applies to each message: accepts that of its wait."""

from __future__ import annotations

import json
from typing import Any


def only(message: Any, key: str) -> str | None:
    """The message's text if it is for this key; else None."""
    return message.value().decode() if json.loads(message.value()).get("k") == key else None
