"""JSON form of conditions, version 1: {"v": 1, "condition": node}.

node: {"all": [node, ...]} | {"any": [node, ...]} | {"event": {"exact": {attribute: value}, "by"?, "label"?}}.
A published version is read for ever; what changes the form takes a new number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..events.attributes import shown
from .combinations import AllOf, AnyOf, Combination
from .condition import MAX_DEPTH, MAX_NODES, Condition
from .errors import ConditionError
from .matcher import Matcher

VERSION: Final = 1
_COMBINATIONS: Final[Mapping[str, type[Combination]]] = {kind.kind: kind for kind in (AllOf, AnyOf)}


def to_json(condition: Condition) -> dict[str, object]:
    """The JSON form of a condition, as plain dicts, lists and strings."""
    return {"v": VERSION, "condition": _node(condition)}


def from_json(obj: object) -> Condition:
    """The condition in a JSON form; ConditionError with the path to what is wrong, and nothing else."""
    members = _members(obj, "$", required=("v", "condition"))
    version = members["v"]
    if version != VERSION or not isinstance(version, int) or isinstance(version, bool):
        raise ConditionError(f"$.v is {shown(version)}: this release reads version {VERSION}")
    return _Reader().read(members["condition"], "$.condition", 1)


def _node(condition: Condition) -> dict[str, object]:
    if isinstance(condition, Combination):
        return {condition.kind: [_node(operand) for operand in condition.operands]}
    if isinstance(condition, Matcher):
        body: dict[str, object] = {"exact": dict(condition.exact)}
        if condition.by is not None:
            body["by"] = condition.by
        if condition.label is not None:
            body["label"] = condition.label
        return {"event": body}
    raise ConditionError(f"a {type(condition).__name__} has no JSON form")


class _Reader:
    """Reads one tree and counts its nodes, so that no input is followed beyond the limits."""

    def __init__(self) -> None:
        self._nodes = 0

    def read(self, obj: object, path: str, depth: int) -> Condition:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ConditionError(f"{path}: the condition has more than {MAX_NODES} nodes")
        if depth > MAX_DEPTH:
            raise ConditionError(f"{path}: the condition is nested more than {MAX_DEPTH} levels deep")
        if not isinstance(obj, Mapping) or len(obj) != 1:
            raise ConditionError(f"{path} must be an object with one member: all, any or event")
        name, body = next(iter(obj.items()))
        if name == "event":
            return self._matcher(body, f"{path}.event")
        kind = _COMBINATIONS.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ConditionError(f"{path} has the member {shown(name)}: all, any or event belongs there")
        path = f"{path}.{name}"
        if not isinstance(body, (list, tuple)):
            raise ConditionError(f"{path} is a {type(body).__name__}: a list of conditions belongs there")
        operands = [self.read(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(body)]
        try:
            return kind(*operands)
        except ConditionError as error:
            raise ConditionError(f"{path}: {error}") from error

    def _matcher(self, obj: object, path: str) -> Matcher:
        members = _members(obj, path, required=("exact",), optional=("by", "label"))
        exact = members["exact"]
        if not isinstance(exact, Mapping):
            raise ConditionError(f"{path}.exact is a {type(exact).__name__}: an object belongs there")
        for name in ("by", "label"):
            if name in members and not isinstance(members[name], str):
                raise ConditionError(
                    f"{path}.{name} is a {type(members[name]).__name__}: a string belongs there"
                )
        if not all(isinstance(name, str) for name in exact):
            raise ConditionError(f"{path}.exact has a name that is no string")
        try:
            return Matcher(exact.items(), members.get("by"), members.get("label"))  # type: ignore[arg-type]
        except ConditionError as error:
            raise ConditionError(f"{path}: {error}") from error


def _members(
    obj: object, path: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, object]:
    if not isinstance(obj, Mapping):
        raise ConditionError(f"{path} is a {type(obj).__name__}: an object belongs there")
    for name in required:
        if name not in obj:
            raise ConditionError(f"{path}.{name} is missing")
    for name in obj:
        if name not in required and name not in optional:
            raise ConditionError(
                f"{path} has an unknown member {shown(name)}: {', '.join(required + optional)}"
            )
    return obj
