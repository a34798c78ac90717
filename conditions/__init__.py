"""Conditions over events: matchers, what joins and bounds them, keys, the index and `step`. All pure."""

from __future__ import annotations

from .codec import from_json
from .combinations import AllOf, AnyOf, AtLeast, Count, Sequence, at_least, count, sequence
from .condition import Condition
from .errors import ConditionError
from .firing import Firing, Part, firing_id
from .index import Hit, MatcherIndex
from .key import canonical_key
from .matcher import Matcher, event
from .state import EMPTY, Match, State
from .step import Cancel, Tick, closes_at, next_wakeup, opened, step
from .timers import Absent, Expires, Ordered, Quiet, absent
from .windows import Not, Reset, Within

__all__ = [
    "EMPTY",
    "Absent",
    "AllOf",
    "AnyOf",
    "AtLeast",
    "Cancel",
    "Condition",
    "ConditionError",
    "Count",
    "Expires",
    "Firing",
    "Hit",
    "Match",
    "Matcher",
    "MatcherIndex",
    "Not",
    "Ordered",
    "Part",
    "Quiet",
    "Reset",
    "Sequence",
    "State",
    "Tick",
    "Within",
    "absent",
    "at_least",
    "canonical_key",
    "closes_at",
    "count",
    "event",
    "firing_id",
    "from_json",
    "next_wakeup",
    "opened",
    "sequence",
    "step",
]
