"""What Knative's filters accept, written from its specification and resource definitions, without Interlock.

An event is a dict of attributes as texts. Expressions of CESQL are trees here, so that none is parsed:
`written` gives their text. As in Knative's dispatchers an error is no match, and extensions are texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, str]
REQUIRED = ("specversion", "id", "source", "type")


class Sql:
    """An expression; in the JSON of a filter it stands where Knative has its text.

    ("exists", name), ("=" or "!=", name, text), ("like", name, pattern), ("not", x), ("and" or "or", x, y).
    """

    def __init__(self, *tree: Any) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        return written(self.tree)

    def accepts(self, event: Attributes) -> bool:
        try:
            return evaluated(self.tree, event)
        except KeyError:  # a missing attribute
            return False


def written(tree: Any) -> str:
    sign, *parts = tree
    if sign == "exists":
        return f"EXISTS {parts[0]}"
    if sign in ("=", "!=", "like"):
        return f"{parts[0]} {sign.upper()} '{parts[1]}'"
    if sign == "not":
        return f"NOT ({written(parts[0])})"
    return f"({written(parts[0])}) {sign.upper()} ({written(parts[1])})"


def evaluated(tree: Any, event: Attributes) -> bool:
    sign, *parts = tree
    if sign == "exists":
        return parts[0] in event
    if sign == "=":
        return event[parts[0]] == parts[1]
    if sign == "!=":
        return event[parts[0]] != parts[1]
    if sign == "like":
        start, wildcard, end = parts[1].partition("%")
        value = event[parts[0]]
        if not wildcard:
            return value == start
        return value.startswith(start) and value.endswith(end) and len(value) >= len(start) + len(end)
    if sign == "not":
        return not evaluated(parts[0], event)
    left = evaluated(parts[0], event)
    if left is (sign == "or"):
        return left
    return evaluated(parts[1], event)


def accepts(spec: Mapping[str, Any], event: Attributes) -> bool:
    """Whether a Trigger with this spec wants the event."""
    if spec.get("filters"):
        return all(dialect_accepts(each, event) for each in spec["filters"])
    wanted = (spec.get("filter") or {}).get("attributes") or {}
    return all(name in event and value in ("", event[name]) for name, value in wanted.items())


def dialect_accepts(given: Mapping[str, Any], event: Attributes) -> bool:
    if not given:
        return True
    [(dialect, value)] = given.items()
    if dialect == "all":
        return all(dialect_accepts(each, event) for each in value)
    if dialect == "any":
        return any(dialect_accepts(each, event) for each in value)
    if dialect == "not":
        return not dialect_accepts(value, event)
    if dialect == "cesql":
        accepted: bool = value.accepts(event)
        return accepted
    compare = {"exact": str.__eq__, "prefix": str.startswith, "suffix": str.endswith}[dialect]
    return all(name in event and compare(event[name], wanted) for name, wanted in value.items())


def as_json(given: Any) -> Any:
    """The filter as it stands in a file: expressions are texts."""
    if isinstance(given, Sql):
        return given.text
    if isinstance(given, Mapping):
        return {name: as_json(each) for name, each in given.items()}
    return [as_json(each) for each in given] if isinstance(given, list) else given
