"""Conditions over events: matchers, & and |, keys, the matcher index and the step function. All pure."""

from __future__ import annotations

from .codec import from_json
from .condition import AllOf, AnyOf, Condition
from .errors import ConditionError
from .index import Hit, MatcherIndex
from .key import canonical_key
from .matcher import Matcher, event
from .state import EMPTY, Match, State
from .step import Firing, Part, firing_id, step

__all__ = [
    "EMPTY",
    "AllOf",
    "AnyOf",
    "Condition",
    "ConditionError",
    "Firing",
    "Hit",
    "Match",
    "Matcher",
    "MatcherIndex",
    "Part",
    "State",
    "canonical_key",
    "event",
    "firing_id",
    "from_json",
    "step",
]
