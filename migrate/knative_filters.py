"""The filters of a Knative Trigger as a matcher: `filter.attributes`, and `filters`, which replace it.

Rules: Knative's control-plane specification ("TriggerFilter"), the Trigger's resource definition, and
CloudEvents Subscriptions for the dialects. Where Knative's own dispatchers disagree, a filter is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

from ..conditions import ConditionError, Matcher, event
from ..conditions.filters import All, Any, Exact, Filter, Not, Prefix, Sql, Suffix
from ..events.attributes import REQUIRED, kind, shown
from .errors import NotTranslated
from .fields import FieldNote, Members, texts
from .knative_cesql import MIXED, UNTYPED, is_grouped_otherwise, untyped_comparisons

T = TypeVar("T")

DIALECTS: Final = ("exact", "prefix", "suffix", "all", "any", "not", "cesql")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*")
_COMPARISONS: Final = {"exact": Exact, "prefix": Prefix, "suffix": Suffix}
# Names that Knative's dispatchers read as something else than the attribute of this name.
_ALIASES: Final = {
    "schemaurl": "Knative reads dataschema for it: write dataschema",
    "datamediatype": "no attribute of CloudEvents 1.0: write a prefix filter on datacontenttype",
    "datacontentencoding": "no attribute of CloudEvents 1.0",
}
_TIME: Final = (
    "compared with the text that the sender wrote; Knative compares the time in a form of its own, so"
    " 2026-11-20T06:00:00.000Z equals 2026-11-20T06:00:00Z there, and not here"
)
MAX_DEPTH: Final = 16  # of our filters

Part: TypeAlias = Filter | bool
EVERY_EVENT: Final = "EXISTS type"  # true for each event: a matcher has at least one filter


def matcher(spec: Members) -> tuple[Matcher, list[FieldNote]]:
    """Returns the matcher of a Trigger's spec, and what differs. Raises NotTranslated naming the filter."""
    notes: list[FieldNote] = []
    first, second = spec.members("filter"), spec.items("filters")
    path = spec.field("filters") if second else first.field("attributes")
    if second:
        if "attributes" in first:
            notes.append(FieldNote(first.path, "not read: filters replace it"))
        found = _listed(second, path, 1, notes)
        if found is False:
            raise NotTranslated(path, f"no event passes them. {notes[-1].field} is {notes[-1].text}")
        filters = [found] if isinstance(found, Filter) else []
    else:
        filters = _attributes(first, notes)
        for each in first.left({}, "no filter of Knative"):
            raise NotTranslated(each.field, each.text)
    if not filters:
        notes.append(
            FieldNote(
                path,
                "no filter, so every event: on a bus these are also those of Interlock"
                " (type interlock....) and the records of listed topics",
            )
        )
        filters = [Sql(EVERY_EVENT)]
    return _built(path, lambda: event(filters=filters)), notes


def _attributes(given: Members, notes: list[FieldNote]) -> list[Filter]:
    path = given.field("attributes")
    found: list[Filter] = []
    for name, value in texts(given.take("attributes") or {}, path).items():
        field = f"{path}.{name}"
        _check_name(name, field)
        if value:
            _note_time(name, field, notes)
            found.append(_built(field, partial(Exact, {name: value})))
        elif name not in REQUIRED:  # which each event has
            found.append(_built(field, partial(Sql, f"EXISTS {name}")))
    return found


def _listed(given: Sequence[object], path: str, depth: int, notes: list[FieldNote]) -> Part:
    """The filters of a list, all of which must be true; an empty one is always true."""
    parts = [
        _filter(Members(each, f"{path}[{number}]"), depth, notes, in_all=True)
        for number, each in enumerate(given)
    ]
    return _joined(All, parts, path)


def _joined(group: type[All | Any], parts: Sequence[Part], path: str) -> Part:
    """The parts in an All or Any, without those that are the same for each event."""
    deciding = group is Any  # a part that always has this value decides the group
    if any(part is deciding for part in parts):
        return deciding
    filters = [part for part in parts if not isinstance(part, bool)]
    if len(filters) < 2:
        return filters[0] if filters else not deciding
    return _built(path, lambda: group(*filters))


def _filter(given: Members, depth: int, notes: list[FieldNote], *, in_all: bool = False) -> Part:
    """The filter; True for one in an `all` that has no dialect, so that it accepts each event."""
    if depth > MAX_DEPTH:
        raise NotTranslated(given.path, f"filters are nested at most {MAX_DEPTH} levels deep")
    taken = {name: given.take(name) for name in DIALECTS}
    present = {
        name: value
        for name, value in taken.items()
        if value not in (None, {}, [], "") or (name == "not" and value is not None)
    }
    for each in given.left({}, f"no dialect of Knative: it has {', '.join(DIALECTS)}"):
        raise NotTranslated(each.field, each.text)
    if not present and in_all:
        notes.append(FieldNote(given.path, "left out: it has no dialect, so it accepts each event"))
        return True
    if len(present) != 1:
        what = f"{', '.join(present)} together" if present else "no dialect"
        hint = "write all: [...]" if present else "Knative's dispatchers disagree about what that means"
        raise NotTranslated(given.path, f"it has {what}, and needs exactly one: {hint}")
    [(name, value)] = present.items()
    return _dialect(name, value, given.field(name), depth, notes, in_all=in_all)


def _dialect(
    name: str, value: object, path: str, depth: int, notes: list[FieldNote], *, in_all: bool
) -> Part:
    if name == "cesql":
        return _sql(value, path, notes)
    if name == "not":
        inner = _filter(Members(value, path), depth + 1, notes)
        return not inner if isinstance(inner, bool) else _built(path, lambda: Not(inner))
    if name in _COMPARISONS:
        pairs = texts(value, path)
        for attribute, wanted in pairs.items():
            _check_name(attribute, f"{path}.{attribute}")
            if not wanted:
                raise NotTranslated(
                    f"{path}.{attribute}", "the value is empty, which the dialect does not allow"
                )
            _note_time(attribute, f"{path}.{attribute}", notes)
        return _built(path, lambda: _COMPARISONS[name](pairs))
    if not isinstance(value, list):
        raise NotTranslated(path, f"it is {kind(value)}: it must be a list of filters")
    if name == "all" and in_all:
        return _listed(value, path, depth + 1, notes)
    parts = [
        _filter(Members(each, f"{path}[{number}]"), depth + 1, notes) for number, each in enumerate(value)
    ]
    return _joined(All if name == "all" else Any, parts, path)


def _sql(value: object, path: str, notes: list[FieldNote]) -> Part:
    """The expression; a bool if it is true, or false, for each event, without an error."""
    if not isinstance(value, str):
        raise NotTranslated(path, f"it is {kind(value)}: it must be a text. Write it in quotes")
    from ..conditions.filters.cesql import compile  # noqa: A004  # loads the parser

    compiled = _built(path, lambda: compile(value))
    if compiled.kind is not bool:
        raise NotTranslated(
            path,
            f"the expression {shown(value)} is not a Boolean, and Knative's dispatchers disagree on others:"
            " write a comparison, or BOOL(...)",
        )
    if is_grouped_otherwise(value):
        raise NotTranslated(path, MIXED)
    if names := untyped_comparisons(value):
        notes.append(FieldNote(path, UNTYPED.format(", ".join(names))))
    if not (compiled.missing or compiled.errors):
        if not compiled.attributes:
            notes.append(FieldNote(path, "left out: it reads no attribute"))
            return compiled.evaluate({}).value is True
        if compiled.never_true:
            notes.append(
                FieldNote(path, f"left out: it is never true: {compiled.reason or 'no event can have that'}")
            )
            return False
    return _built(path, lambda: Sql(value))


def _check_name(name: str, path: str) -> None:
    if name in _ALIASES:
        raise NotTranslated(path, _ALIASES[name])
    if _NAME.fullmatch(name) is None:
        raise NotTranslated(path, "not an attribute name of Knative: a letter a-z, then letters and digits")


def _note_time(name: str, path: str, notes: list[FieldNote]) -> None:
    if name == "time":
        notes.append(FieldNote(path, _TIME))


def _built(path: str, build: Callable[[], T]) -> T:
    try:
        return build()
    except ConditionError as error:
        raise NotTranslated(path, str(error)) from error
