"""Forms of events in matches and firings: small, and valid in JSON, msgpack and PostgreSQL."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import msgspec

from ...events import content
from ...events.event import Event
from .action import ActionRecord, FiringRecord
from .sizes import MAX_FIRING_BYTES, MAX_INLINE_BYTES

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
_ALWAYS_KEPT = ("specversion", "id", "source", "type", "subject", "time")


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
    if data and attributes.get("datacontenttype") == content.JSON and is_plain(data):
        return {**attributes, "data": msgspec.Raw(data)}
    return json_form(event)


def by_reference(event: Event, topic: str, partition: int, offset: int) -> Event:
    """The event for a match: a reference to its record (`dataref`) replaces large data."""
    if event.data is None or len(event.data) <= MAX_INLINE_BYTES:
        return event
    return Event({**event.attributes, "dataref": f"kafka:{topic}/{partition}/{offset}"}, None)


def fitted(action: ActionRecord) -> ActionRecord:
    """The action with its firing in at most MAX_FIRING_BYTES, as tasks and dispatchers get it (see `fit`)."""
    return msgspec.structs.replace(action, firing=fit(action.firing, MAX_FIRING_BYTES))


def fit(firing: FiringRecord, most: int) -> FiringRecord:
    """The same firing in at most `most` bytes of ASCII JSON.

    Until it fits: 1. replaces events' data, largest first, by a `dataref` (`kafka:topic/partition/offset`,
    CloudEvents' claim check); 2. removes extension attributes; 3. removes all attributes but the `dataref`;
    4. removes the last events of the longest lists, and counts them in `left_out`. Labels stay.
    """
    size = _size(msgspec.to_builtins(firing))
    if size <= most:
        return firing
    slots = [(label, n) for label, events in firing.events.items() for n in range(len(events))]
    events = {label: list(together) for label, together in firing.events.items()}
    sizes = {(label, n): _size(events[label][n]) for label, n in slots}
    slots.sort(key=lambda slot: sizes[slot], reverse=True)
    for keeps in (
        lambda name: name not in ("data", "data_base64"),
        _ALWAYS_KEPT.__contains__,
        lambda _: False,
    ):
        for label, n in slots:
            if size <= most:
                break
            origin = firing.origins[label][n]
            small = {name: value for name, value in events[label][n].items() if keeps(name)}
            small["dataref"] = f"kafka:{origin['topic']}/{origin['partition']}/{origin['offset']}"
            saved = sizes[label, n] - _size(small)
            if saved > 0:
                size -= saved
                sizes[label, n] -= saved
                events[label][n] = small
    fitted = msgspec.structs.replace(firing, events=events)
    return fitted if size <= most else _shortened(fitted, most)


def _shortened(firing: FiringRecord, most: int) -> FiringRecord:
    """The firing without the last events of the longest lists, and their origins. Each list keeps one."""
    lengths = {label: len(together) for label, together in firing.events.items()}
    while True:
        left_out = {
            label: firing.left_out.get(label, 0) + len(firing.events[label]) - length
            for label, length in lengths.items()
            if firing.left_out.get(label, 0) or length < len(firing.events[label])
        }
        shortened = msgspec.structs.replace(
            firing,
            events={label: firing.events[label][:length] for label, length in lengths.items()},
            origins={label: firing.origins[label][:length] for label, length in lengths.items()},
            left_out=left_out,
        )
        longest = max(lengths.values(), default=1)
        if longest <= 1 or _size(msgspec.to_builtins(shortened)) <= most:
            return shortened
        lengths = {label: min(length, max(1, longest * 7 // 8)) for label, length in lengths.items()}


def _size(value: object) -> int:
    return len(json.dumps(value))


def is_plain(data: bytes) -> bool:
    """A fast check: True if the JSON `data` is portable; False if only `is_portable` can decide."""
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
