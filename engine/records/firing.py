"""The forms of events in matches and firings: small, and readable by everything they pass through."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import msgspec

from ...events import content
from ...events.event import Event
from .action import ActionRecord, Firing
from .sizes import MAX_HANDED_BYTES, MAX_INLINE_BYTES

# Events pass through JSON parsers with a nesting limit, msgpack (64-bit integers) and PostgreSQL's jsonb (no
# NUL). A value beyond these limits would fail the task whenever it is resumed.
MAX_DEPTH = 64
# Maps all digits to 0 and all openings to [, so that plain searches suffice: a regular expression takes five
# times as long.
_ALIKE = bytes.maketrans(b"123456789{", b"000000000[")
_LONG_NUMBER = b"0" * 19
_decode = msgspec.json.Decoder().decode
# A quick check that most data pass. Nested data, numbers beyond 64 bits and invalid JSON do not.
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode_flat = msgspec.json.Decoder(dict[str, str | _Integer | float | bool | None]).decode
_NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_ALWAYS_KEPT = ("specversion", "id", "source", "type", "subject", "time")


def json_form(event: Event) -> dict[str, Any]:
    """The event in CloudEvents' JSON format. Data that JSON cannot carry everywhere are in `data_base64`."""
    form = event.to_json_dict()
    if event.data is not None and "data" in form and not travels(form["data"]):
        del form["data"]
        form["data_base64"] = base64.b64encode(event.data).decode("ascii")
    return form


def raw_form(event: Event) -> dict[str, Any]:
    """Like `json_form`, but only for encoding as JSON: data that need no change are not decoded."""
    data = event.data
    attributes = event.attributes
    if data and attributes.get("datacontenttype") == content.JSON and is_plain(data):
        return {**attributes, "data": msgspec.Raw(data)}
    return json_form(event)


def by_reference(event: Event, topic: str, partition: int, offset: int) -> Event:
    """The event as matches contain it: large data are replaced by a reference to its record (`dataref`)."""
    if event.data is None or len(event.data) <= MAX_INLINE_BYTES:
        return event
    return Event({**event.attributes, "dataref": f"kafka:{topic}/{partition}/{offset}"}, None)


def fitted(action: ActionRecord) -> ActionRecord:
    """The firing as tasks and dispatchers get it: in at most MAX_HANDED_BYTES (see `fit`)."""
    return msgspec.structs.replace(action, firing=fit(action.firing, MAX_HANDED_BYTES))


def fit(firing: Firing, most: int) -> Firing:
    """The same firing in at most `most` bytes of ASCII JSON.

    If it is larger, in this order until it fits: the events' data are replaced, largest first, by a `dataref`
    (`kafka:topic/partition/offset`, CloudEvents' claim check); extension attributes are removed; all other
    attributes but the `dataref` are removed; the last events of the longest lists are removed (`left_out`).
    Labels stay.
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


def _shortened(firing: Firing, most: int) -> Firing:
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
    """Whether `data` is JSON that surely passes `travels`. False if only `travels` can decide."""
    if b"\\" not in data:
        try:
            _decode_flat(data)
        except _NO_JSON:
            pass
        else:
            return True
    alike = data.translate(_ALIKE)
    if alike.count(b"[") > MAX_DEPTH or _LONG_NUMBER in alike or (b"\\" in data and b"\\u0000" in data):
        return False
    try:
        _decode(data)
    except _NO_JSON:
        return False
    return True


def travels(data: object) -> bool:
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
