"""What is sent of a firing: its event, or the firing itself, as a CloudEvent over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from ...events import content
from ...events.attributes import PROOF, is_allowed
from ...events.event import Event
from ...events.http import JSON_EVENT, encode
from ...events.tracing import TRACE, Carrier
from ..delivery.firings import OpenFiring
from ..delivery.sinks import SinkRecord
from ..errors import FetchError
from ..records.event_form import raw_form
from ..records.firing_form import AnyFiring, firing_form

SEQUENCE: Final = "interlocksequence"  # the firing's offset: it grows within a lane
FIRING: Final = "interlockfiring"  # the firing's id
HOPS: Final = "interlockhops"  # how many replies may follow one another, from here on
MOST_HOPS: Final = 32
REPLY_ASKED: Final = ("Prefer", "reply")  # a header for sinks that may reply
# At most so much data are read for one firing. Events whose data do not fit are sent with their references.
MOST_RESOLVED_BYTES: Final = 8 * 1024 * 1024
NO_TRACE: Final[Carrier] = {}
_DATA: Final = frozenset({"data", "data_base64"})
_INTERNAL: Final = frozenset({HOPS, PROOF})  # no sink needs them; with a proof it could send the event again
# The events of a firing are decoded only if its JSON has one of these names.
_DECODED_FOR: Final = tuple(f'"{name}"'.encode() for name in (*_INTERNAL, *TRACE, "dataref"))

Members = dict[str, msgspec.Raw]  # of an event in CloudEvents' JSON format


class _Firing(msgspec.Struct):
    """A firing whose events are not decoded: their JSON stays byte for byte what it is."""

    id: str
    outcome: str
    key: str | None
    events: dict[str, list[msgspec.Raw]]
    fired_at: str = ""
    origins: dict[str, list[dict[str, Any]]] = {}
    missing: list[str] = []
    left_out: dict[str, int] = {}
    timer_ms: int | None = None
    incomplete: bool = False
    written: str | None = None


class _Action(msgspec.Struct):
    firing: _Firing


_decode = msgspec.json.Decoder(_Action).decode
_decode_members = msgspec.json.Decoder(Members).decode
_decode_value = msgspec.json.Decoder().decode


class Reference(NamedTuple):
    """An event of a firing whose data are in the record that `dataref` names."""

    label: str
    number: int
    dataref: str


class Sendable(NamedTuple):
    """A request's headers, without those of its sink, and its body.

    hops: how many replies may follow. trace: attributes of the trace that it belongs to.
    """

    headers: Sequence[tuple[str, str]]
    body: bytes
    hops: int
    trace: Carrier


class Content:
    """What is sent of a firing: itself, or its only event.

    Resolve the `references` before `encoded`, in their order, until one does not fit.
    """

    def __init__(self, sink: SinkRecord, firing: OpenFiring) -> None:
        value = firing.record.value or b""
        self._firing = _decode(value).firing
        self._subscription, self._offset = firing.subscription, firing.record.offset
        self._is_json = sink.format == "json"
        self._room = MOST_RESOLVED_BYTES
        events = self._firing.events
        has_one_event = [len(each) for each in events.values()] == [1] and not self._firing.left_out
        self._sends_event = sink.send == "event" and has_one_event
        is_decoded = self._sends_event or any(name in value for name in _DECODED_FOR)
        self._events: dict[tuple[str, int], Members] = {
            (label, number): _decode_members(raw)
            for label, together in (events.items() if is_decoded else ())
            for number, raw in enumerate(together)
        }

    def references(self) -> Iterator[Reference]:
        """The events whose data the engine left in their records.

        A `dataref` that a producer wrote does not count.
        """
        for (label, number), members in self._events.items():
            if "dataref" not in members or not _DATA.isdisjoint(members):
                continue
            at = self._firing.origins.get(label, [])[number : number + 1]
            dataref = _decode_value(members["dataref"])
            if at and dataref == f"kafka:{at[0].get('topic')}/{at[0].get('partition')}/{at[0].get('offset')}":
                yield Reference(label, number, dataref)

    def resolve(self, reference: Reference, event: Event) -> bool:
        """Put the event in the place of the reference, and return True; False if its data do not fit.

        Raises FetchError if it is another event.
        """
        self._room -= len(event.data or b"")
        if self._room < 0:
            return False
        members = self._events[reference.label, reference.number]
        known = [_decode_value(members[name]) for name in ("source", "id") if name in members]
        if known and known != [event.source, event.id]:
            raise FetchError(f"{reference.dataref} contains another event now.")
        self._events[reference.label, reference.number] = _decode_members(
            msgspec.json.encode(raw_form(event))
        )
        return True

    @property
    def firing(self) -> AnyFiring:
        """The firing, whose id and key its spans have."""
        return self._firing

    @property
    def traces(self) -> list[Carrier]:
        """The trace of each event; an empty one for an event without a trace."""
        return [*map(_trace, self._events.values())]

    def encoded(self, trace_of_firing: Carrier = NO_TRACE) -> Sendable:
        """The request. trace_of_firing: the trace of a request whose events have none, or several."""
        own = {SEQUENCE: str(self._offset), FIRING: self._firing.id}
        if self._sends_event:
            (members,) = self._events.values()
            hops, trace = _hops(members), _trace(members)
            if not trace:
                trace = trace_of_firing
                own.update(trace)
            if self._is_json:
                return _structured({**_without_internal(members), **own}, hops, trace)
            headers, body = encode(_event_of(_without_internal(members), own))
            return Sendable(headers, body, hops, trace)
        hops = min(map(_hops, self._events.values()), default=MOST_HOPS)
        traces = self.traces
        trace = traces[0] if traces and all(each == traces[0] for each in traces) else NO_TRACE
        trace = trace or trace_of_firing
        form = firing_form(self._firing)
        if self._events:
            form["events"] = {
                label: [_without_internal(self._events[label, number]) for number in range(len(together))]
                for label, together in self._firing.events.items()
            }
        attributes = {**self._attributes(), **trace, **own}
        if self._is_json:
            return _structured({**attributes, "data": form}, hops, trace)
        headers, body = encode(Event(attributes, msgspec.json.encode(form)))
        return Sendable(headers, body, hops, trace)

    def _attributes(self) -> dict[str, str]:
        firing = self._firing
        found = {
            "specversion": "1.0",
            "id": firing.id,
            "source": f"/{quote(self._subscription)}",
            "type": f"interlock.firing.{firing.outcome}",
            "datacontenttype": content.JSON,
        }
        key = firing.key if firing.written is None else firing.written
        if key and is_allowed(key):
            found["subject"] = key
        if firing.fired_at:
            found["time"] = firing.fired_at
        return found


def trace_headers(trace: Carrier) -> Iterator[tuple[str, str]]:
    """The trace as headers, without values that are no header of W3C's: an event may have any text there."""
    for name, text in trace.items():
        if text.isascii() and text.isprintable():
            yield name, text


def _structured(form: Mapping[str, object], hops: int, trace: Carrier) -> Sendable:
    return Sendable([("content-type", JSON_EVENT)], msgspec.json.encode(form), hops, trace)


def _trace(members: Members) -> Carrier:
    return {name: text for name in TRACE if name in members and (text := _text(members[name]))}


def _without_internal(members: Members) -> Members:
    """The members that a sink gets."""
    if HOPS not in members and PROOF not in members:
        return members
    return {name: raw for name, raw in members.items() if name not in _INTERNAL}


def _event_of(members: Members, own: Mapping[str, str]) -> Event:
    """The event with these members. Interlock wrote them, so the attributes are valid."""
    attributes: dict[str, str] = {}
    for name, raw in members.items():
        if name not in _DATA:
            value = _decode_value(raw)
            if type(value) is not str:
                value = _text(raw)
            if value is not None:
                attributes[name] = value
    data: bytes | None = None
    if "data" in members:
        raw = members["data"]
        if content.is_json(attributes.setdefault("datacontenttype", content.JSON)):
            data = bytes(raw)
        else:  # text in UTF-8 (`Event.to_json_dict`)
            data = str(_decode_value(raw)).encode()
    elif "data_base64" in members:
        data = base64.b64decode(_decode_value(members["data_base64"]))
    attributes.update(own)
    return Event(attributes, data)


def _text(raw: msgspec.Raw) -> str | None:
    value = _decode_value(raw)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _hops(members: Members) -> int:
    """How many replies may still follow an event: at most MOST_HOPS, since any sender may set HOPS."""
    text = _text(members[HOPS]) if HOPS in members else None
    if text is None or not text.isascii() or not text.isdigit() or len(text) > len(str(MOST_HOPS)):
        return MOST_HOPS
    return min(int(text), MOST_HOPS)
