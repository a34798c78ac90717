"""The JSON form of conditions: {"v": 1, "condition": node}; its schema is condition.schema.json.

The incarnation of a registration is a hash of this form, so a release must write a condition as earlier
releases did. Every release reads all published versions; a changed form needs a new version number.

_ROWS has a row for each kind of node, by which its form is written and read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

from ...events.attributes import shown
from ..errors import ConditionError
from ..filters import Where, filter_from_json
from ..filters.cel.texts import sizes
from ..filters.cel.where import MAX_TEXT_CHARS
from ..nodes.combinations import AllOf, AnyOf, AtLeast, Count, Sequence
from ..nodes.condition import MAX_DEPTH, MAX_NODES, Condition, Keep
from ..nodes.duration import MAX_DURATION_MS
from ..nodes.matcher import Matcher
from ..nodes.timers import Absent, Expires, Ordered, Quiet, moment_ms, moment_text
from ..nodes.windows import Not, Reset, Within
from .vocabulary import near

VERSION: Final = 1
# For all matchers of a form together, so that the cost of reading is limited: members and items; characters
# (Kafka's default limit for a record); characters of `where` and `sql`, which take about 10 us each
# to compile, without the texts in `where`.
MAX_VALUES: Final = 16_384
MAX_CHARS: Final = 1_048_576
MAX_EXPRESSION_CHARS: Final = 4096

_Built = TypeVar("_Built")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def to_json(condition: Condition) -> dict[str, object]:
    """The JSON form of a whole condition, as plain dicts, lists, strings, numbers and booleans.

    Equal conditions have equal forms. Raises ConditionError for one that cannot stand alone (`~a`), or whose
    form is larger than `from_json` reads.
    """
    condition.check()
    return {"v": VERSION, "condition": _node(condition, _Size())}


def from_json(obj: object) -> Condition:
    """The condition in a JSON form. Raises only ConditionError, with the path of the fault."""
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


class Expressions:
    """Counts the characters of `where` and `sql`; the texts in a `where` count apart."""

    def __init__(self) -> None:
        self._chars = self._texts = 0

    def add(self, where: object, sql: object) -> None:
        """Add the two of one object; anything but a text counts as none."""
        if isinstance(where, str):
            outside, inside = sizes(where[: MAX_EXPRESSION_CHARS + MAX_TEXT_CHARS + 1])
            self._chars += outside
            self._texts += inside
        if isinstance(sql, str):
            self._chars += len(sql)

    @property
    def are_too_large(self) -> bool:
        """Whether they have more characters than a form may have."""
        return self._chars > MAX_EXPRESSION_CHARS or self._texts > MAX_TEXT_CHARS


class _Size:
    """Counts the content of all matchers of one form, in writing and in reading."""

    def __init__(self) -> None:
        self._values = self._chars = 0
        self._expressions = Expressions()

    def add(self, obj: object, path: str) -> None:
        """Add a matcher's form, which may be any object. Raises ConditionError if the whole is too large."""
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
                    self._expressions.add(each.get("where"), each.get("sql"))
            if self._values > MAX_VALUES or self._chars > MAX_CHARS or self._expressions.are_too_large:
                raise ConditionError(
                    f"{path}: the filters of the condition are too large together: at most {MAX_VALUES:,}"
                    f" members and items, {MAX_CHARS:,} characters, {MAX_EXPRESSION_CHARS:,} in where and sql"
                    f" and {MAX_TEXT_CHARS:,} in the string literals of where"
                )


# -- writing


def _node(condition: Condition, size: _Size) -> dict[str, object]:
    if isinstance(condition, Matcher):
        return {"event": _matcher(condition, size)}
    form = _BY_KIND[type(condition)]
    operands: list[object] = [_node(operand, size) for operand in condition.operands]
    of: object = operands if form.several else operands[0]
    if not form.members:
        return {form.name: of}
    members = form.written(condition)
    # the published forms have n in front
    return {form.name: members | {"of": of} if "n" in members else {"of": of} | members}


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
    """Reads one tree and counts its nodes, so that it stops at the limits."""

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
            raise ConditionError(f"{path} has the member {shown(name)}: {hint or 'give ' + _either(_NAMES)}")
        path = f"{path}.{name}"
        if name == "event":
            return self._matcher(body, path)
        form = _FORMS[name]
        arguments: dict[str, object] = {}
        below = path
        if form.members:
            required = (*(member.name for member in form.members if not member.optional), "of")
            members = _members(body, path, required, tuple(m.name for m in form.members if m.optional))
            for member in form.members:
                if member.name in members:
                    arguments[member.attribute] = member.read(members[member.name], f"{path}.{member.name}")
            body, below = members["of"], f"{path}.of"
        operands = self._list(body, below, depth) if form.several else [self.read(body, below, depth + 1)]
        build = form.build or form.kind
        return _built(path, lambda: build(*operands, **arguments))

    def _list(self, obj: object, path: str, depth: int) -> list[Condition]:
        if not isinstance(obj, (list, tuple)):
            raise ConditionError(f"{path} is a {type(obj).__name__}: give a list of conditions")
        return [self.read(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(obj)]

    def _matcher(self, obj: object, path: str) -> Matcher:
        self._size.add(obj, path)
        members = _members(obj, path, optional=("exact", "by", "label", "filters", "where", "keep", "limit"))
        for name in ("exact", "filters"):
            if name in members and not members[name]:
                raise ConditionError(f"{path}.{name} is empty: leave it out")
        exact = members.get("exact", {})
        if not isinstance(exact, Mapping):
            raise ConditionError(f"{path}.exact is a {type(exact).__name__}: give an object")
        if not all(isinstance(name, str) for name in exact):
            raise ConditionError(f"{path}.exact has a name that is not a string")
        filters = members.get("filters", ())
        if not isinstance(filters, (list, tuple)):
            raise ConditionError(f"{path}.filters is a {type(filters).__name__}: give a list")
        for name in ("where", "label", "keep", "by"):
            if name in members and not (name == "by" and isinstance(members[name], (list, tuple))):
                _text(members[name], f"{path}.{name}")
        limit = _integer(members["limit"], f"{path}.limit") if "limit" in members else None
        read = [filter_from_json(item, f"{path}.filters[{number}]") for number, item in enumerate(filters)]
        where = members.get("where")
        return _built(
            path,
            lambda: Matcher(
                cast("list[tuple[str, str]]", list(exact.items())),  # checked there
                cast("str | tuple[str, ...] | None", members.get("by")),
                cast("str | None", members.get("label")),
                filters=read,
                where=None if where is None else _built(f"{path}.where", lambda: Where.stored(str(where))),
                keeps=cast("Keep | None", members.get("keep")),
                limit=limit,
            ),
        )


def _members(
    obj: object,
    path: str,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> Mapping[str, object]:
    if not isinstance(obj, Mapping):
        raise ConditionError(f"{path} is a {type(obj).__name__}: give an object")
    known = required + optional
    for name in obj:  # checked first, because a missing member may be here under a wrong name
        if name not in known:
            hint = (near(name, known) if isinstance(name, str) else "") or "known are " + ", ".join(known)
            raise ConditionError(f"{path} has an unknown member {shown(name)}: {hint}")
    for name in required:
        if name not in obj:
            raise ConditionError(f"{path}.{name} is missing")
    return obj


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise ConditionError(f"{path} is a {type(value).__name__}: give a string")
    return value


def _paths(value: object, path: str) -> object:
    return value if isinstance(value, (list, tuple)) else _text(value, path)


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise ConditionError(f"{path} is a {type(value).__name__}: give true or false")
    return value


def _integer(value: object, path: str) -> int:
    number = _whole(value)
    if number is None:
        raise ConditionError(f"{path} is a {type(value).__name__}: give a whole number")
    if path.endswith("_ms") and abs(number) > MAX_DURATION_MS:
        raise ConditionError(
            f"{path} is {shown(number)}: give milliseconds up to {MAX_DURATION_MS:,} (366 days)"
        )
    return number


def _whole(value: object) -> int | None:
    """The value if JSON Schema counts it as an integer, as it does 3.0; else None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _moment(value: object, path: str) -> int:
    text = _text(value, path)
    if not _MOMENT.fullmatch(text):
        raise ConditionError(f"{path} is {shown(text)}: write a time as 2026-11-20T18:00:00Z")
    return _built(path, lambda: moment_ms(text))


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _built(path: str, build: Callable[[], _Built]) -> _Built:
    try:
        return build()
    except ConditionError as error:
        raise ConditionError(f"{path}: {error}") from error


# -- the rows


class _Member(NamedTuple):
    """A member of a form. attribute: its name in the node. optional: left out if it has the default."""

    name: str
    read: Callable[[object, str], object]
    attribute: str
    optional: bool = False
    default: object = None
    write: Callable[[Any], object] = lambda value: value


class _Form(NamedTuple):
    """The form of one kind of node: {name: {"of": operands} | members}, or {name: operands} without members.

    several: it has a list of operands. build: called with the operands and the members; None: `kind` is.
    """

    name: str
    kind: type[Condition]
    members: tuple[_Member, ...] = ()
    several: bool = False
    build: Callable[..., Condition] | None = None

    def written(self, condition: Condition) -> dict[str, object]:
        """The members of a node, without its operands."""
        values = ((member, getattr(condition, member.attribute)) for member in self.members)
        return {
            member.name: member.write(value)
            for member, value in values
            if not (member.optional and value in (None, member.default))
        }


_N: Final = _Member("n", _integer, "n")
_DISTINCT: Final = _Member(
    "distinct",
    _paths,
    "distinct",
    optional=True,
    write=lambda paths: paths if isinstance(paths, str) else list(paths),
)
_DURATION: Final = _Member("duration_ms", _integer, "duration_ms")
_LATENESS: Final = _Member("lateness_ms", _integer, "lateness_ms", optional=True)
_ARMED_BY: Final = _Member("armed_by", _text, "armed_by")
_ORDERED: Final = _Member("ordered", _flag, "in_order")
_PERIOD: Final = (_Member("cron", _text, "cron"), _Member("timezone", _text, "timezone"))
_EXPIRY: Final = (
    _Member("after_ms", _integer, "after_ms", optional=True),
    _Member("at", _moment, "at_ms", optional=True, write=moment_text),
    _ARMED_BY._replace(optional=True, default="subscription"),
)
_ROWS: Final = (
    _Form("all", AllOf, several=True),
    _Form("any", AnyOf, several=True),
    _Form(
        "at_least",
        AtLeast,
        (_N, _DISTINCT),
        several=True,
        build=lambda *of, n, distinct=None: AtLeast(n, *of, distinct=distinct),
    ),
    _Form("count", Count, (_N, _DISTINCT)),
    _Form(
        "sequence",
        Sequence,
        (_ORDERED,),
        several=True,
        build=lambda *of, in_order: Sequence(*of, ordered=in_order),
    ),
    _Form("within", Within, (_DURATION, _LATENESS)),
    _Form("not", Not),
    _Form("reset", Reset, (*_PERIOD, _LATENESS)),
    _Form("absent", Absent, (_DURATION, _ARMED_BY)),
    _Form("quiet", Quiet, (_DURATION,)),
    _Form("expires", Expires, _EXPIRY),
    _Form("ordered", Ordered),
)
_FORMS: Final = {form.name: form for form in _ROWS}
_BY_KIND: Final = {form.kind: form for form in _ROWS}
_NAMES: Final = ("event", *_FORMS)
