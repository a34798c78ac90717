"""Conditions over events: matchers, combinations, windows, timers, keys, the index and `step`. All pure."""

from __future__ import annotations

from .errors import ConditionError
from .evaluate.firing import Firing, Part, firing_id
from .evaluate.state import EMPTY, Match, State
from .evaluate.step import Cancel, Tick, closes_at, next_wakeup, opened, step
from .explanation import Explanation, Seen, explain
from .forms.codec import from_json
from .forms.text import parse
from .index import Hit, MatcherIndex
from .nodes.combinations import AllOf, AnyOf, AtLeast, Count, Sequence, at_least, count, sequence
from .nodes.condition import Condition
from .nodes.key import canonical_key
from .nodes.matcher import Matcher, event
from .nodes.param import Param, param
from .nodes.timers import Absent, Expires, Ordered, Quiet, absent
from .nodes.windows import Not, Reset, Within
from .nodes.zoned import day, hour, month, week
from .recipes.completions import dag_run, spark_application, task_instance
from .recipes.lineage import dataset_written, openlineage_run
from .recipes.presets import all_of, any_of, burst, daily, debounce, every_nth, heartbeat, not_followed_by
from .rehearsal import Rehearsed, explain_rehearsal, rehearse

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
    "Explanation",
    "Firing",
    "Hit",
    "Match",
    "Matcher",
    "MatcherIndex",
    "Not",
    "Ordered",
    "Param",
    "Part",
    "Quiet",
    "Rehearsed",
    "Reset",
    "Seen",
    "Sequence",
    "State",
    "Tick",
    "Within",
    "absent",
    "all_of",
    "any_of",
    "at_least",
    "burst",
    "canonical_key",
    "closes_at",
    "count",
    "dag_run",
    "daily",
    "dataset_written",
    "day",
    "debounce",
    "event",
    "every_nth",
    "explain",
    "explain_rehearsal",
    "firing_id",
    "from_json",
    "heartbeat",
    "hour",
    "month",
    "next_wakeup",
    "not_followed_by",
    "opened",
    "openlineage_run",
    "param",
    "parse",
    "rehearse",
    "sequence",
    "spark_application",
    "step",
    "task_instance",
    "week",
]
