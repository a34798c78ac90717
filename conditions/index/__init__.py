"""The matcher index: which subscriptions an event reaches, at a cost independent of all other subscriptions.

Each matcher becomes routes (`routes`), and each route a path in one tree (`tree`). An event follows the tree
by looking up exact values, prefixes and suffixes of texts (`prefix_map`), and keys. The remaining filters of
the matchers on its way are evaluated last, each once for an event (`checks`).
"""

from __future__ import annotations

from .matcher_index import MatcherIndex
from .tree import Hit

__all__ = ["Hit", "MatcherIndex"]
