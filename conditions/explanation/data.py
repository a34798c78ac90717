"""Why the data of an event cannot be read for a key or a predicate: never their content."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ...events import content
from ...events.errors import EventError
from ...events.event import Event
from ...events.plain import TYPE as PLAIN
from ..errors import ConditionError
from ..nodes.epoch import as_number
from ..nodes.instants import as_date
from ..nodes.key import MAX_KEY_BYTES, canonical_key
from ..nodes.paths import DATA, Path, key_at, member_at, parse_path, value_at
from ..nodes.zoned import why_no_time
from .formats import json_kind, kind_of, looks_like

# Members that wrap data: of Kafka Connect and outboxes, of Debezium, of MongoDB, and of Canal, EventBridge,
# SNS and REST proxies.
_ENVELOPES: Final = (
    *("payload", "after", "before", "fullDocument"),
    *("data", "detail", "message", "Message", "value", "record", "body"),
)
_OTHER_SIDE: Final = {"after": "before", "before": "after"}  # of a change in Debezium's form
# Kafka's names for parts of a record, and the attributes of the event of a plain record (docs/understand).
_OF_RECORD: Final = {"key": "subject", "topic": "source", "timestamp": "time"}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{2,}={1,2}")
_JOINERS: Final = re.compile(r"[\s_-]+")  # between the words of a name
_MOST_ITEMS: Final = 10  # of a list that are looked into
# The only member of an object that stands for one value: in Avro's JSON a union, in MongoDB's a type.
_TYPED: Final = frozenset(
    {
        *("string", "int", "long", "float", "double", "boolean", "bytes"),
        *("$date", "$oid", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"),
    }
)


def why_unreadable(event: Event) -> str | None:
    """Why the event's data cannot be read as JSON, and what it looks like; None if it can, or is null."""
    data, stated = event.data, event.datacontenttype
    if data is None:
        return "it has no data (a null value)"
    if not content.is_json(stated):
        looks = looks_like(data)
        return f"its data is {stated}, not JSON" + (f": it looks like {looks}" if looks else "")
    if not data:
        return "its data is empty (0 bytes)"
    try:
        content.parse_json(data)  # without a type `payload` gives bytes instead of the error
    except EventError as error:
        looks = looks_like(data)
        return f"its data is not valid JSON: it looks like {looks}" if looks else f"its {error}"
    return None


def why_no_key(paths: Iterable[str], event: Event) -> str | None:
    """Why the event has no key: the reason at the first path without one.

    None if a member is missing there, and nothing says where its value may be instead.
    """
    for path in paths:
        if key_at(path, event) is not None:
            continue
        parsed = parse_path(path)
        base, members = parsed.base, parsed.members
        if members is not None:
            reason = why_unreadable(event) or _at(members, event)
        elif base not in event.attributes:
            reason = member_instead(base, event, f'by="{DATA}{base}"') or f"it has no attribute {base}"
            if base == "subject" and event.type == PLAIN:
                reason += ": its record has no key, or one that is not text"
            elif base in _OF_RECORD and event.type == PLAIN:
                reason += f': a plain record has it as {_OF_RECORD[base]}, by="{_OF_RECORD[base]}"'
        else:
            reason = None
        return reason or _unusable(parsed, value_at(path, event))
    return None


def member_instead(name: str, event: Event, write: str) -> str | None:
    """Says that the event has no such attribute, but its data has a member of this name; None if it has not.

    write: how to name that member, for the end of the sentence.
    """
    if name in event.attributes or not _has(event, name):
        return None
    return f'it has no attribute {name}, but its data has a member "{name}": {write}'


def _unusable(path: Path, value: object) -> str | None:
    """Why a text, number or bool gives no key; None for other values."""
    if not isinstance(value, (str, int, float)):
        return None
    its = f"its {path.base}"
    if path.zoned is not None:
        return f"{its} {path.zoned.why_none(value)}"
    try:
        canonical_key(value)
    except ConditionError:
        if isinstance(value, str) and "\0" in value:
            return f"{its} holds a NUL character"
        return f"{its} is longer than {MAX_KEY_BYTES} bytes of UTF-8"
    if as_date(value) is not None:
        return f"{its} is a day, to which only whole days can be added"
    return f"{its} {why_no_time(value)}"


def _at(members: tuple[str, ...], event: Event, in_where: bool = False) -> str | None:
    """Why JSON data has no usable value at these members; None if it has one.

    in_where: a predicate reads the members; it can use any value there.
    """
    value: object = event.payload
    above: object = None
    where = "its data"
    for number, member in enumerate(members):
        if not isinstance(value, dict):
            row = _row_instead(members[:number], above) if value is None else ""
            return f"{where} is {_not_an_object(value)}{row}"
        if member not in value and number + 1 < len(members) and members[number + 1] in value:
            below = ".".join((*members[:number], *members[number + 1 :]))
            return f'{where} has no member "{member}", but "{members[number + 1]}" itself: {DATA}{below}'
        if member not in value:
            dotted = _dotted(members[number:], value)
            if dotted is not None:
                reach = f"{DATA[:-1]}{''.join(f'.{each}' for each in members[:number])}['{dotted}']"
                write = f"write {reach}" if in_where else "by= cannot reach it"
                return f'{where} has a member "{dotted}", whose name has a dot: {write}'
            return _missing_member(member, value, where, members[:number], event, in_where)
        above, value = value, value[member]
        where = f"its {DATA}{'.'.join(members[: number + 1])}"
    if in_where:
        return None
    if isinstance(value, dict) and len(value) == 1 and (typed := next(iter(value))) in _TYPED:
        return f'{where} is an object that names a type: the value is at "{DATA}{".".join(members)}.{typed}"'
    if isinstance(value, (dict, list)) or value is None:
        return f"{where} is {kind_of(value)}"
    if value == "":
        return f"{where} is empty"
    return None


def _missing_member(
    member: str,
    value: dict[str, object],
    where: str,
    above: tuple[str, ...],
    event: Event,
    in_where: bool,
) -> str | None:
    """Where the value of a missing member may be instead; None if that is not known.

    It names only members that the condition names too.
    """
    alike = next((name for name in value if _folded(name) == _folded(member)), None)
    if alike is not None:
        return f'{where} has no member "{member}", but "{alike}"'
    inside = _in_envelope(member, value, (*above,))
    if inside is not None:
        return f"{where} is an envelope: {inside}"
    if not above and member in event.attributes:
        write = f"event.{member}" if in_where else f'by="{member}"'
        return f'{where} has no member "{member}", but the event has an attribute of this name: {write}'
    return None


def _dotted(members: tuple[str, ...], value: dict[str, object]) -> str | None:
    """The member whose name is that of these members, joined with dots; None if there is none."""
    names = (".".join(members[:count]) for count in range(len(members), 1, -1))
    return next((name for name in names if name in value), None)


def _folded(name: str) -> str:
    """One text for the usual spellings of a name: businessDate, business_date, Business-Date."""
    return _JOINERS.sub("", name).casefold()


def _in_envelope(member: str, value: dict[str, object], above: tuple[str, ...], depth: int = 2) -> str | None:
    """Where the member is in the envelopes of this value; with a schema, Debezium has payload and after.

    At most `depth` envelopes are opened.
    """
    for envelope in _ENVELOPES:
        path, inner = (*above, envelope), value.get(envelope)
        if isinstance(inner, dict):
            if member in inner:
                return f'the member is at "{DATA}{".".join((*path, member))}"'
            below = _in_envelope(member, inner, path, depth - 1) if depth > 1 else None
            if below is not None:
                return below
        elif isinstance(inner, str) and json_kind(inner) == "an object":
            if _has_member(content.parse_json(inner.encode("utf-8", "surrogatepass")), member):
                return (
                    f"its {DATA}{'.'.join(path)} is a text that itself holds JSON with the member: it was"
                    " encoded twice"
                )
        elif isinstance(inner, list) and any(_has_member(each, member) for each in inner[:_MOST_ITEMS]):
            return f"its {DATA}{'.'.join(path)} is a list whose items have the member; by= cannot reach them"
    return None


def _has_member(value: object, member: str) -> bool:
    return isinstance(value, dict) and member in value


def _row_instead(members: tuple[str, ...], above: object) -> str:
    """Says where the row of a change is, if the path names the side of the change that is null."""
    other = _OTHER_SIDE.get(members[-1]) if members else None
    if other is None or not isinstance(above, dict) or not isinstance(above.get(other), dict):
        return ""
    what = "a deletion" if other == "before" else "an insertion"
    return f'; as in the event of {what}, whose row is at "{DATA}{".".join((*members[:-1], other))}"'


def why_no_member(paths: Iterable[tuple[str, ...]], event: Event) -> str | None:
    """Why the JSON data has no value at the first of these paths without one; None if that is not known."""
    if why_unreadable(event) is not None:
        return None
    return next(filter(None, (_at(path, event, in_where=True) for path in paths)), None)


def why_not_selected(paths: Iterable[tuple[str, ...]], event: Event) -> str | None:
    """Which of these members is null, where a predicate reads members of it; None if none is."""
    for path in paths:
        above = member_at(path[:-1], event)
        if isinstance(above, dict) and path[-1] in above and above[path[-1]] is None:
            return f"its {DATA}{'.'.join(path)} is null, not an object{_row_instead(path, above)}"
    return None


def why_no_number(paths: Iterable[tuple[str, ...]], event: Event) -> str | None:
    """Which of these members is a text, where a predicate needs a number; None if that is not clear."""
    texts = {
        f"{DATA}{'.'.join(path)}": value for path in paths if isinstance(value := member_at(path, event), str)
    }
    for name, text in texts.items():
        if as_number(text) is not None:
            return f"its {name} is a text: write double({name})"
    for name, text in texts.items():
        if _BASE64.fullmatch(text) and len(text) % 4 == 0:
            return (
                f"its {name} is a text, no number: perhaps base64, as Debezium writes decimals unless its"
                " decimal.handling.mode is string or double"
            )
    # Of several, another may be compared with a text.
    return f"its {next(iter(texts))} is a text, no number" if len(texts) == 1 else None


def _has(event: Event, name: str) -> bool:
    try:
        payload = event.payload if content.is_json(event.datacontenttype) else None
    except EventError:
        return False
    return isinstance(payload, dict) and name in payload


def why_no_object(event: Event) -> str | None:
    """As `why_unreadable`; for JSON data that is no object or list, what it is instead."""
    reason = why_unreadable(event)
    if reason is not None:
        return reason
    payload = event.payload
    if isinstance(payload, (dict, list)):
        return None
    return f"its data is {_not_an_object(payload)}"


def _not_an_object(value: object) -> str:
    inside = json_kind(value) if isinstance(value, str) else None
    if inside is not None:
        return f"a text that itself holds JSON, {inside}: it was encoded twice"
    return f"{kind_of(value)}, not an object"
