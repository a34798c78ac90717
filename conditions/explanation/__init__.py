"""Why a condition has not fired: what its state holds, what is missing, what nearly matched. All pure."""

from __future__ import annotations

from .explain import explain
from .explanation import Explanation
from .search import Seen

__all__ = ["Explanation", "Seen", "explain"]
