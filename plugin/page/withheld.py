"""Explanations without texts of events, for whoever may see that a wait exists but not the task's log.

What is left of an event is its identity, its type, its time and its place; of a near miss, which term of the
condition refused it. The condition and the key of the wait are the DAG's own texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...conditions import Explanation

_OF_EVENTS: Final = frozenset({"value", "error", "key", "raw", "difference", "data"})  # of a NearMiss
_NOTES: Final = frozenset({"values"})  # whose text holds values of events


def explanation_json(explanation: Explanation, *, with_texts: bool) -> dict[str, Any]:
    """`Explanation.to_json`, without texts of events unless `with_texts`."""
    found: dict[str, Any] = dict(explanation.to_json())
    if with_texts:
        return found
    found["tree"] = _node(found["tree"])
    found["near_misses"] = [
        {**each, "misses": [_without(miss, _OF_EVENTS) for miss in each["misses"]]}
        for each in found["near_misses"]
    ]
    return found


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(node)
    if "notes" in node:
        found["notes"] = [
            _without(note, {"text"}) if note["what"] in _NOTES else note for note in node["notes"]
        ]
    if "of" in node:
        found["of"] = [_node(below) for below in node["of"]]
    return found


def _without(member: Mapping[str, Any], names: frozenset[str] | set[str]) -> dict[str, Any]:
    return {name: value for name, value in member.items() if name not in names}
