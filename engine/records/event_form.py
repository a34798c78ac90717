"""The form of an event in matches and firings: small, and valid in JSON, msgpack and PostgreSQL."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import msgspec

from ...events import content
from ...events.errors import EventError
from ...events.event import Event
from .sizes import MAX_ATTRIBUTE_BYTES, MAX_INLINE_BYTES

# Events pass through JSON parsers with a nesting limit, msgpack (64-bit integers) and PostgreSQL's jsonb (no
# NUL). A task could never resume with a value beyond these limits.
MAX_DEPTH = 64
# Maps all digits to 0, and { to [: then a plain search finds long numbers and counts nesting, five times as
# fast as a regular expression.
_FLATTEN = bytes.maketrans(b"123456789{", b"000000000[")
_LONG_NUMBER = b"0" * 19
_decode = msgspec.json.Decoder().decode
# A quick check that accepts most data, but no nested data, numbers beyond 64 bits or invalid JSON.
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode_flat = msgspec.json.Decoder(dict[str, str | _Integer | float | bool | None]).decode
_NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def json_form(event: Event) -> dict[str, Any]:
    """The event in CloudEvents' JSON format. Data that are not portable are in `data_base64`."""
    form = event.to_json_dict(assume_json=True)
    if event.data is not None and "data" in form and not is_portable(form["data"]):
        del form["data"]
        form["data_base64"] = base64.b64encode(event.data).decode("ascii")
    return form


def raw_form(event: Event) -> dict[str, Any]:
    """Like `json_form`, but can only be encoded as JSON: data that need no change stay encoded."""
    data = event.data
    attributes = event.attributes
    if data and attributes.get("datacontenttype") == content.JSON and is_surely_portable(data):
        return {**attributes, "data": msgspec.Raw(data)}
    return json_form(event)


def check_attributes(event: Event) -> None:
    """Raises EventError if the event's attributes are too large for matches."""
    text = "".join(event.attributes.values())  # cheaper than a sum of lengths
    if len(text) > MAX_ATTRIBUTE_BYTES // 4 and len(text.encode()) > MAX_ATTRIBUTE_BYTES:
        raise EventError(
            f"its attributes exceed {MAX_ATTRIBUTE_BYTES} bytes, the limit: each match contains them"
        )


def by_reference(event: Event, topic: str, partition: int, offset: int) -> Event:
    """The event for a match: a reference to its record (`dataref`) replaces large data."""
    if event.data is None or len(event.data) <= MAX_INLINE_BYTES:
        return event
    return Event({**event.attributes, "dataref": f"kafka:{topic}/{partition}/{offset}"}, None)


def is_surely_portable(data: bytes) -> bool:
    """A fast check of JSON: True if it is portable (see `is_portable`); False if that is not certain."""
    if b"\\" not in data:
        try:
            _decode_flat(data)
        except _NO_JSON:
            pass
        else:
            return True
    flat = data.translate(_FLATTEN)
    if flat.count(b"[") > MAX_DEPTH or _LONG_NUMBER in flat or (b"\\" in data and b"\\u0000" in data):
        return False
    try:
        _decode(data)
    except _NO_JSON:
        return False
    return True


def is_portable(data: object) -> bool:
    """Whether JSON parsers, msgpack and PostgreSQL all accept these decoded data: see MAX_DEPTH."""
    left = [(data, 1)]
    while left:
        value, depth = left.pop()
        if isinstance(value, str):
            if "\0" in value:
                return False
        elif isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                return False
        elif isinstance(value, (dict, list)):
            if depth > MAX_DEPTH:
                return False
            left.extend((inner, depth + 1) for inner in value)
            if isinstance(value, dict):
                left.extend((inner, depth + 1) for inner in value.values())
    return True
