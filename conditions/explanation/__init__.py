"""Why a condition has not fired: its held events, what is missing, which events nearly matched. All pure."""

from __future__ import annotations

from .explain import explain
from .explanation import Explanation
from .records import Seen

__all__ = ["Explanation", "Seen", "explain"]
