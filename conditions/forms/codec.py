"""The JSON form of conditions: {"v": 1, "condition": node}; its schema is condition.schema.json.

The incarnation of a registration is a hash of this form, so a release must write a condition as earlier
releases did. A published version is read for ever; a change to the form takes a new number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from ...events.attributes import shown
from ..errors import ConditionError
from ..filters import Where, filter_from_json
from ..nodes.combinations import AllOf, AnyOf, AtLeast, Combination, Count, Sequence
from ..nodes.condition import MAX_DEPTH, MAX_NODES, Condition, Keep
from ..nodes.duration import MAX_DURATION_MS
from ..nodes.matcher import Matcher
from ..nodes.timers import Absent, ArmedBy, Expires, Ordered, Quiet, moment_ms, moment_text
from ..nodes.windows import Not, Reset, Within
from .vocabulary import near

VERSION: Final = 1
# Of all matchers of a form together, so that reading it costs no more than its size allows: members and
# items; characters (a Kafka record of default size holds as many); those of `where` and `sql`, which cost
# some 10 us each to compile.
MAX_VALUES: Final = 16_384
MAX_CHARS: Final = 1_048_576
MAX_EXPRESSION_CHARS: Final = 4096

_Built = TypeVar("_Built")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_COMBINATIONS: Final[Mapping[str, type[Combination]]] = {kind.kind: kind for kind in (AllOf, AnyOf)}


def to_json(condition: Condition) -> dict[str, object]:
    """The JSON form of a whole condition, as plain dicts, lists, strings, numbers and booleans.

    Equal conditions have equal forms. ConditionError for a part of a condition (`~a`), and for one whose form
    is larger than `from_json` reads.
    """
    condition.check()
    return {"v": VERSION, "condition": _node(condition, _Size())}


def from_json(obj: object) -> Condition:
    """The condition in a JSON form; ConditionError with the path to what is wrong, and nothing else."""
    if isinstance(obj, (str, bytes, bytearray)):
        raise ConditionError(f"$ is a {type(obj).__name__}: parse it with json.loads first")
    members = _members(obj, "$", required=("v", "condition"))
    if _whole(members["v"]) != VERSION:
        raise ConditionError(f"$.v is {shown(members['v'])}: this release reads version {VERSION}")
    condition = _Reader().read(members["condition"], "$.condition", 1)
    try:
        condition.check()
    except ConditionError as error:
        raise ConditionError(f"$.condition: {error}") from error
    return condition


class _Size:
    """Counts what the matchers of one form hold, in writing and in reading."""

    def __init__(self) -> None:
        self._values = self._chars = self._expressions = 0

    def add(self, obj: object, path: str) -> None:
        """Raise ConditionError if with this matcher the form is too large; `obj` may be anything."""
        waiting: list[object] = [obj]
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                self._chars += len(each)
            elif isinstance(each, (Mapping, list, tuple)):
                self._values += len(each)
                if self._values <= MAX_VALUES:
                    waiting += each
                if isinstance(each, Mapping):
                    waiting += each.values()
                    compiled = (each.get("where"), each.get("sql"))
                    self._expressions += sum(len(text) for text in compiled if isinstance(text, str))
            if (
                self._values > MAX_VALUES
                or self._chars > MAX_CHARS
                or self._expressions > MAX_EXPRESSION_CHARS
            ):
                raise ConditionError(
                    f"{path}: the filters of the condition are too large together: at most {MAX_VALUES:,}"
                    f" members and items, {MAX_CHARS:,} characters, {MAX_EXPRESSION_CHARS:,} in where and sql"
                )


# -- writing


def _node(condition: Condition, size: _Size) -> dict[str, object]:
    if isinstance(condition, Matcher):
        return {"event": _matcher(condition, size)}
    below: list[object] = [_node(operand, size) for operand in condition.operands]
    if isinstance(condition, Combination):
        return {condition.kind: below}
    if isinstance(condition, AtLeast):
        return {"at_least": {"n": condition.n, "of": below}}
    if isinstance(condition, Sequence):
        return {"sequence": {"of": below, "ordered": condition.in_order}}
    if isinstance(condition, Not):
        return {"not": below[0]}
    if isinstance(condition, Ordered):
        return {"ordered": below[0]}
    of: dict[str, object] = {"of": below[0]}
    if isinstance(condition, Count):
        return {"count": {"n": condition.n} | of}
    if isinstance(condition, Within):
        of["duration_ms"] = condition.duration_ms
        return {"within": of | _given(lateness_ms=condition.lateness_ms)}
    if isinstance(condition, Reset):
        of |= {"cron": condition.cron, "timezone": condition.timezone}
        return {"reset": of | _given(lateness_ms=condition.lateness_ms)}
    if isinstance(condition, Absent):
        return {"absent": of | {"duration_ms": condition.duration_ms, "armed_by": condition.armed_by}}
    if isinstance(condition, Quiet):
        return {"quiet": of | {"duration_ms": condition.duration_ms}}
    if isinstance(condition, Expires):
        at = None if condition.at_ms is None else moment_text(condition.at_ms)
        armed_by = None if condition.armed_by == "subscription" else condition.armed_by
        return {"expires": of | _given(after_ms=condition.after_ms, at=at, armed_by=armed_by)}
    raise ConditionError(f"a {type(condition).__name__} has no JSON form")


def _matcher(matcher: Matcher, size: _Size) -> dict[str, object]:
    body = _given(
        exact=dict(matcher.exact) or None,
        filters=[each.to_json() for each in matcher.filters] or None,
        where=None if matcher.where is None else matcher.where.source,
        by=list(matcher.by) if isinstance(matcher.by, tuple) else matcher.by,
        label=matcher.label,
        keep=matcher.keeps,
        limit=matcher.limit,
    )
    size.add(body, str(matcher)[:200])
    return body


def _given(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


# -- reading


class _Reader:
    """Reads one tree and counts its nodes, so that no input is followed beyond the limits."""

    def __init__(self) -> None:
        self._nodes = 0
        self._size = _Size()

    def read(self, obj: object, path: str, depth: int) -> Condition:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ConditionError(f"{path}: the condition has more than {MAX_NODES} nodes")
        if depth > MAX_DEPTH:
            raise ConditionError(f"{path}: the condition is nested more than {MAX_DEPTH} levels deep")
        if not isinstance(obj, Mapping) or len(obj) != 1:
            raise ConditionError(f"{path} must be an object with one member: {_either(_NAMES)}")
        name, body = next(iter(obj.items()))
        if not isinstance(name, str) or name not in _NAMES:
            hint = near(name, _NAMES) if isinstance(name, str) else ""
            belongs = hint or f"{_either(_NAMES)} belongs there"
            raise ConditionError(f"{path} has the member {shown(name)}: {belongs}")
        path = f"{path}.{name}"
        if name == "event":
            return self._matcher(body, path)
        kind = _COMBINATIONS.get(name)
        if kind is not None:
            operands = self._list(body, path, depth)
            return _built(path, lambda: kind(*operands))
        return _READERS[name](self, body, path, depth)

    def _list(self, obj: object, path: str, depth: int) -> list[Condition]:
        if not isinstance(obj, (list, tuple)):
            raise ConditionError(f"{path} is a {type(obj).__name__}: a list of conditions belongs there")
        return [self.read(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(obj)]

    def _matcher(self, obj: object, path: str) -> Matcher:
        self._size.add(obj, path)
        members = _members(obj, path, optional=("exact", "by", "label", "filters", "where", "keep", "limit"))
        for name in ("exact", "filters"):
            if name in members and not members[name]:
                raise ConditionError(f"{path}.{name} is empty: leave it out")
        exact = members.get("exact", {})
        if not isinstance(exact, Mapping):
            raise ConditionError(f"{path}.exact is a {type(exact).__name__}: an object belongs there")
        if not all(isinstance(name, str) for name in exact):
            raise ConditionError(f"{path}.exact has a name that is no string")
        filters = members.get("filters", ())
        if not isinstance(filters, (list, tuple)):
            raise ConditionError(f"{path}.filters is a {type(filters).__name__}: a list belongs there")
        for name in ("where", "label", "keep"):
            if name in members:
                _text(members, name, path)
        by = members.get("by")
        if not isinstance(by, (list, tuple)):
            by = _text(members, "by", path) if "by" in members else None
        limit = _integer(members, "limit", path) if "limit" in members else None
        read = [filter_from_json(item, f"{path}.filters[{number}]") for number, item in enumerate(filters)]
        where = (
            _built(f"{path}.where", lambda: Where(_text(members, "where", path)))
            if "where" in members
            else None
        )
        return _built(
            path,
            lambda: Matcher(
                cast("list[tuple[str, str]]", list(exact.items())),  # checked there
                cast("str | tuple[str, ...] | None", by),
                cast("str | None", members.get("label")),
                filters=read,
                where=where,
                keeps=cast("Keep | None", members.get("keep")),
                limit=limit,
            ),
        )

    def _at_least(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("n", "of"))
        n, of = _integer(members, "n", path), self._list(members["of"], f"{path}.of", depth)
        return _built(path, lambda: AtLeast(n, *of))

    def _count(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("n", "of"))
        n, of = _integer(members, "n", path), self._of(members, path, depth)
        return _built(path, lambda: Count(cast("Matcher", of), n))

    def _sequence(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("of", "ordered"))
        ordered = members["ordered"]
        if not isinstance(ordered, bool):
            raise ConditionError(f"{path}.ordered is a {type(ordered).__name__}: true or false belongs there")
        of = self._list(members["of"], f"{path}.of", depth)
        return _built(path, lambda: Sequence(*of, ordered=ordered))

    def _within(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("of", "duration_ms"), optional=("lateness_ms",))
        duration, late = _integer(members, "duration_ms", path), _late(members, path)
        of = self._of(members, path, depth)
        return _built(path, lambda: Within(of, duration, late))

    def _reset(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("of", "cron", "timezone"), optional=("lateness_ms",))
        cron, zone, late = (
            _text(members, "cron", path),
            _text(members, "timezone", path),
            _late(members, path),
        )
        of = self._of(members, path, depth)
        return _built(path, lambda: Reset(of, cron, zone, late))

    def _absent(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("of", "duration_ms", "armed_by"))
        duration = _integer(members, "duration_ms", path)
        armed_by = cast("ArmedBy", _text(members, "armed_by", path))
        of = self._of(members, path, depth)
        return _built(path, lambda: Absent(of, duration, armed_by))

    def _quiet(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("of", "duration_ms"))
        duration, of = _integer(members, "duration_ms", path), self._of(members, path, depth)
        return _built(path, lambda: Quiet(of, duration))

    def _expires(self, body: object, path: str, depth: int) -> Condition:
        members = _members(body, path, required=("of",), optional=("after_ms", "at", "armed_by"))
        after = _integer(members, "after_ms", path) if "after_ms" in members else None
        at = _moment(_text(members, "at", path), f"{path}.at") if "at" in members else None
        armed_by = _text(members, "armed_by", path) if "armed_by" in members else "subscription"
        of = self._of(members, path, depth)
        return _built(path, lambda: Expires(of, after, at, cast("ArmedBy", armed_by)))

    def _not(self, body: object, path: str, depth: int) -> Condition:
        of = self.read(body, path, depth + 1)
        return _built(path, lambda: Not(of))

    def _ordered(self, body: object, path: str, depth: int) -> Condition:
        of = self.read(body, path, depth + 1)
        return _built(path, lambda: Ordered(of))

    def _of(self, members: Mapping[str, object], path: str, depth: int) -> Condition:
        return self.read(members["of"], f"{path}.of", depth + 1)


_READERS: Final[Mapping[str, Callable[[_Reader, object, str, int], Condition]]] = {
    "at_least": _Reader._at_least,
    "count": _Reader._count,
    "sequence": _Reader._sequence,
    "within": _Reader._within,
    "not": _Reader._not,
    "reset": _Reader._reset,
    "absent": _Reader._absent,
    "quiet": _Reader._quiet,
    "expires": _Reader._expires,
    "ordered": _Reader._ordered,
}
_NAMES: Final = ("all", "any", "event", *_READERS)


def _members(
    obj: object,
    path: str,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> Mapping[str, object]:
    if not isinstance(obj, Mapping):
        raise ConditionError(f"{path} is a {type(obj).__name__}: an object belongs there")
    known = required + optional
    for name in obj:  # before what is missing: that may be here under a wrong name
        if name not in known:
            hint = near(name, known) if isinstance(name, str) else ""
            raise ConditionError(f"{path} has an unknown member {shown(name)}: {hint or ', '.join(known)}")
    for name in required:
        if name not in obj:
            raise ConditionError(f"{path}.{name} is missing")
    return obj


def _text(members: Mapping[str, object], name: str, path: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        raise ConditionError(f"{path}.{name} is a {type(value).__name__}: a string belongs there")
    return value


def _integer(members: Mapping[str, object], name: str, path: str) -> int:
    value = _whole(members[name])
    if value is None:
        raise ConditionError(
            f"{path}.{name} is a {type(members[name]).__name__}: a whole number belongs there"
        )
    if name.endswith("_ms") and abs(value) > MAX_DURATION_MS:
        raise ConditionError(
            f"{path}.{name} is {shown(value)}: milliseconds up to {MAX_DURATION_MS:,} (366 days) belong there"
        )
    return value


def _whole(value: object) -> int | None:
    """The value if it is an integer to JSON Schema, where 3.0 is one too."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _late(members: Mapping[str, object], path: str) -> int | None:
    return _integer(members, "lateness_ms", path) if "lateness_ms" in members else None


def _moment(text: str, path: str) -> int:
    if not _MOMENT.fullmatch(text):
        raise ConditionError(f"{path} is {shown(text)}: write a moment as 2026-11-20T18:00:00Z")
    return _built(path, lambda: moment_ms(text))


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _built(path: str, build: Callable[[], _Built]) -> _Built:
    try:
        return build()
    except ConditionError as error:
        raise ConditionError(f"{path}: {error}") from error
