"""The filters of a Sensor's dependency as arguments of a matcher: exact attributes, and `where` in CEL.

Rules: the resource definitions of argoproj.io/v1alpha1, and what a Sensor does with them. A filter that
cannot be written in CEL is refused: without it the condition would accept other events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ..events.attributes import shown
from .errors import NotTranslated
from .fields import FieldNote, Members

_CONTEXT: Final = ("type", "source", "subject", "datacontenttype")
_NOT_COMPARED: Final = "a Sensor does not compare it either"
_NO_CEL: Final = {
    "exprs": "expressions of govaluate: write them as `where`, in CEL",
    "exprLogicalOperator": "expressions of govaluate: write them as `where`, in CEL",
    "script": "Lua: write it as `where`, in CEL, or check in a first task",
}
_STEP: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9]+")
# Words that CEL keeps for itself.
_RESERVED: Final = frozenset(
    ("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
     "loop", "namespace", "null", "package", "return", "true", "var", "void", "while")
)  # fmt: skip
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), "true") | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), "false"
)
_SIGNS: Final = {"": "==", "=": "==", "!=": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}  # in CEL
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_BODY: Final = (
    "read as {}: a Sensor's events have body and header, here the data is the body alone. Check it with an"
    " event"
)
_NO_BODY: Final = "read as {}: check it with an event; Argo's EventSources put more around the data"
_NOT_ALL: Final = (
    "one value that differs is enough, as in a Sensor, so nearly every event passes: if none of the values"
    " may be there, join their terms in `where` with &&"
)
_ONE_MISSING: Final = (
    "or: an event without one of the members that data filters read passes if another filter accepts it, as"
    " Argo's documentation says; the code of its Sensors drops such an event"
)
_NOTHING_COMPARED: Final = (
    "it compares nothing, so with filtersLogicalOperator or each event passes: leave it out, or all filters"
)
_CONVERTED: Final = "{}: a Sensor converts other types first, here they do not match"


def exact_and_where(
    filters: Members, operator: str | None, notes: list[FieldNote]
) -> tuple[dict[str, str], str | None]:
    """Returns the exact attributes, and the expression of `where`, None without one. Raises NotTranslated."""
    has_context = "context" in filters
    exact = _context(filters.members("context"), notes)
    data = _data(filters, notes)
    terms = [each for each in (data, _time(filters.members("time"))) if each]
    if "exprs" not in filters:
        filters.take("exprLogicalOperator")  # which joins nothing then
    filters.take("name")  # of Sensors before 1.0, which did not read it either
    for each in filters.left(_NO_CEL, "no filter of a Sensor"):
        raise NotTranslated(each.field, each.text)
    if operator not in (None, "", "and", "or"):
        raise NotTranslated(f"{filters.path}LogicalOperator", f"{shown(operator)} is neither and nor or")
    if operator == "or" and has_context and not exact:
        raise NotTranslated(filters.field("context"), _NOTHING_COMPARED)
    if operator == "or" and bool(exact) + len(terms) > 1:
        if data:
            notes.append(FieldNote(f"{filters.path}LogicalOperator", _ONE_MISSING))
        compared = " && ".join(f"event.{name} == {_text(value)}" for name, value in exact.items())
        return {}, " || ".join(f"({each})" for each in (*([compared] if exact else []), *terms))
    return exact, " && ".join(terms) or None


def _context(given: Members, notes: list[FieldNote]) -> dict[str, str]:
    exact = {name: text for name in _CONTEXT if (text := given.text(name))}
    notes += given.left(dict.fromkeys(("id", "specversion", "time"), _NOT_COMPARED), "no attribute")
    return exact


def _data(filters: Members, notes: list[FieldNote]) -> str | None:
    path, operator = filters.field("data"), filters.text("dataLogicalOperator")
    if operator not in (None, "", "and", "or"):
        raise NotTranslated(filters.field("dataLogicalOperator"), f"{shown(operator)} is neither and nor or")
    terms = [
        _entry(Members(each, f"{path}[{number}]"), notes) for number, each in enumerate(filters.items("data"))
    ]
    if not terms:
        return None
    return f"({' || '.join(terms)})" if operator == "or" and len(terms) > 1 else " && ".join(terms)


def _entry(given: Members, notes: list[FieldNote]) -> str:
    path = _path(given, notes)
    kind, sign, values = given.text("type"), given.text("comparator") or "", given.items("value")
    for each in given.left({"template": "a template of Go: write a `where`, in CEL"}, "unknown field"):
        raise NotTranslated(each.field, each.text)
    texts = [each for each in values if isinstance(each, str)]
    if not texts or len(texts) < len(values):
        raise NotTranslated(
            given.field("value"), "it must be a list of one or more texts. Write them in quotes"
        )
    if sign not in _SIGNS:
        raise NotTranslated(given.field("comparator"), f"{shown(sign)} is not a comparator")
    if kind == "string":
        notes.append(FieldNote(given.field("type"), _CONVERTED.format("only texts")))
        terms = list(_matches(path, sign, texts, given.field("comparator")))
    elif kind == "number":
        notes.append(FieldNote(given.field("type"), _CONVERTED.format("only numbers, and texts of numbers")))
        terms = [f"double({path}) {_SIGNS[sign]} {_double(each, given.field('value'))}" for each in texts]
    elif kind == "bool":  # the comparator is left out: a Sensor ignores it
        notes.append(FieldNote(given.field("type"), _CONVERTED.format("only true and false")))
        terms = [f"{path} == {_boolean(each, given.field('value'))}" for each in texts]
    else:
        raise NotTranslated(given.field("type"), f"{shown(kind)} is none of bool, number, string")
    # One of several values is enough, whatever the comparator.
    if _SIGNS[sign] == "!=" and len(terms) > 1 and kind != "bool":
        notes.append(FieldNote(given.field("comparator"), _NOT_ALL))
    return terms[0] if len(terms) == 1 else f"({' || '.join(terms)})"


def _path(given: Members, notes: list[FieldNote]) -> str:
    text = given.text("path") or ""
    steps = text.split(".")
    if not all(_STEP.fullmatch(step) for step in steps):
        raise NotTranslated(
            given.field("path"),
            f"{shown(text)} has more than names and numbers with dots: write a `where`, in CEL",
        )
    if steps[0] == "header":
        raise NotTranslated(
            given.field("path"), "data has no headers here: make an extension attribute of it"
        )
    has_body = steps[0] == "body" and len(steps) > 1
    found = "data" + "".join(_step(step) for step in steps[has_body:])
    notes.append(FieldNote(given.field("path"), (_BODY if has_body else _NO_BODY).format(found)))
    return found


def _step(step: str) -> str:
    if step.isdigit():
        return f"[{int(step)}]"
    return f".{step}" if step.isidentifier() and step not in _RESERVED else f"[{_text(step)}]"


def _matches(path: str, sign: str, patterns: Sequence[str], field: str) -> Iterator[str]:
    if _SIGNS[sign] not in ("==", "!="):
        raise NotTranslated(field, f"{shown(sign)} of texts is never true in a Sensor")
    for each in patterns:
        yield f"{'!' if sign == '!=' else ''}{path}.matches({_text(each)})"


def _double(text: str, field: str) -> str:
    if _NUMBER.fullmatch(text) is None:
        raise NotTranslated(field, f"{shown(text)} is not a decimal number")
    return repr(float(text))


def _boolean(text: str, field: str) -> str:
    if text not in _BOOLEANS:
        raise NotTranslated(field, f"{shown(text)} is neither true nor false")
    return _BOOLEANS[text]


def _time(given: Members) -> str | None:
    if not given:
        return None
    start, stop = (_second_of_day(given, name) for name in ("start", "stop"))
    zone = given.text("timezone") or "UTC"
    for each in given.left({}, "unknown field"):
        raise NotTranslated(each.field, each.text)
    if _ZONE.fullmatch(zone) is None:
        raise NotTranslated(given.field("timezone"), f"{shown(zone)} is not the name of a time zone")
    parts = (("Hours", " * 3600"), ("Minutes", " * 60"), ("Seconds", ""))
    now = " + ".join(f"timestamp(event.time).get{name}('{zone}'){times}" for name, times in parts)
    joined = "&&" if start < stop else "||"
    return f"({now} >= {start} {joined} {now} < {stop})"


def _second_of_day(given: Members, name: str) -> int:
    found = _CLOCK.fullmatch(given.text(name) or "")
    if found is None:
        raise NotTranslated(given.field(name), "it must be hh:mm:ss")
    hours, minutes, seconds = map(int, found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _text(text: str) -> str:
    """A literal of CEL."""
    escaped = "".join(
        {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, char) for char in text
    )
    return f"'{escaped}'"
