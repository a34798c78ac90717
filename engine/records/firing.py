"""How events travel to the task that waits: in forms that every hop can carry, and small."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import msgspec

from ...events import content
from ...events.event import Event
from .action import ActionRecord, Firing
from .sizes import MAX_HANDED_BYTES, MAX_INLINE_BYTES

# On their way events pass JSON readers with a nesting limit, msgpack (integers of 64 bits) and PostgreSQL's
# jsonb (no NUL). A value beyond that would fail a task each time it is resumed.
MAX_DEPTH = 64
# What is looked for, made alike: a pattern takes five times as long to say no.
_ALIKE = bytes.maketrans(b"123456789{", b"000000000[")
_LONG_NUMBER = b"0" * 19
_decode = msgspec.json.Decoder().decode
# Of most events: one look, which nesting, numbers beyond 64 bits and whatever is no JSON do not pass.
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode_flat = msgspec.json.Decoder(dict[str, str | _Integer | float | bool | None]).decode
_NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_ALWAYS_KEPT = ("specversion", "id", "source", "type", "subject", "time")


def json_form(event: Event) -> dict[str, Any]:
    """The event in CloudEvents' JSON format; data that cannot travel as JSON are in `data_base64`."""
    form = event.to_json_dict()
    if event.data is not None and "data" in form and not _travels(form["data"]):
        del form["data"]
        form["data_base64"] = base64.b64encode(event.data).decode("ascii")
    return form


def raw_form(event: Event) -> dict[str, Any]:
    """As `json_form`, for a writer of JSON alone: data that may stay as they are, are not taken apart."""
    data = event.data
    attributes = event.attributes
    if data and attributes.get("datacontenttype") == content.JSON and _is_plain(data):
        return {**attributes, "data": msgspec.Raw(data)}
    return json_form(event)


def by_reference(event: Event, topic: str, partition: int, offset: int) -> Event:
    """The event as matches hold it: large data stay in its record, and a reference travels (`dataref`)."""
    if event.data is None or len(event.data) <= MAX_INLINE_BYTES:
        return event
    return Event({**event.attributes, "dataref": f"kafka:{topic}/{partition}/{offset}"}, None)


def fitted(action: ActionRecord) -> ActionRecord:
    """The firing as it is handed to whoever takes it: in MAX_HANDED_BYTES (see `fit`)."""
    return msgspec.structs.replace(action, firing=fit(action.firing, MAX_HANDED_BYTES))


def fit(firing: Firing, most: int) -> Firing:
    """The same firing in at most `most` bytes of ASCII JSON.

    Where it is larger, the events' data are replaced, largest first, by a `dataref`
    (`kafka:topic/partition/offset`, the claim check of CloudEvents); where that does not suffice, extension
    attributes are left out as well, then all but the `dataref`, and then the last events of the longest lists
    (`left_out`). Labels stay.
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
    """Without the last events of the longest lists, and their coordinates; each list keeps one at least."""
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


def _is_plain(data: bytes) -> bool:
    """Whether these are JSON that `_travels` lets through; False where only a closer look could tell."""
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


def _travels(data: object) -> bool:
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
