"""The matcher index: which subscriptions an event reaches, in time that does not grow with the others.

The conditions' matchers are turned into routes (`routes`), and routes into paths of one tree (`tree`): exact
values are looked up, beginnings and endings of texts probed (`texts`), keys looked up, and what remains of a
matcher is evaluated last, once an event (`checks`).
"""

from __future__ import annotations

from .matcher_index import MatcherIndex
from .tree import Hit

__all__ = ["Hit", "MatcherIndex"]
