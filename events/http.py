"""HTTP protocol binding of CloudEvents 1.0.2: converts messages to events and back.

It does not use the SDK: SDK 2.2.0 raises AttributeError for a batch, reads a structured event with a `ce-`
header as binary, and invents a missing id, specversion and time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from .attributes import REQUIRED, SPECVERSION, find_problems, shown
from .errors import EventError
from .event import Event
from .usual import of_batch, of_http, remember

JSON_EVENT: Final = "application/cloudevents+json"
JSON_BATCH: Final = "application/cloudevents-batch+json"
_PREFIX: Final = b"ce-"
_CONTENT_TYPE: Final = b"content-type"
_CLOUDEVENTS: Final = b"application/cloudevents"
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)"')
_ESCAPED: Final = re.compile(rb"\\(.)")
# Section 3.1.3.2: all printable ASCII but space, double quote and percent sign is written as it is.
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_SAFE: Final = "".join(char for char in _PRINTABLE if char not in ' "%')
_is_safe: Final = re.compile(f"[{re.escape(_SAFE)}]*").fullmatch  # a sixth of the time that `quote` takes
# Of the extension "Distributed Tracing": its HTTP headers have no prefix.
_PARENT, _STATE = "traceparent", "tracestate"
_TRACE_CHARACTERS: Final = 512  # of each; W3C Trace Context asks for no more (3.3.1.5)


class MediaTypeError(EventError):
    """The content type names an event format that is not supported (HTTP: 415)."""


class BatchTooLargeError(EventError):
    """A batch has more events than the caller allows (HTTP: 413)."""

    def __init__(self, events: int, most: int) -> None:
        super().__init__(f"the batch has {events} events; send at most {most} in a request")


def decode(
    headers: Iterable[tuple[bytes, bytes]], body: bytes, most_events: int | None = None
) -> list[Event]:
    """Returns the events of an HTTP request: one, or those of a batch, which may be empty.

    headers: names in lower case, as ASGI has them. The content type decides the mode (section 3):
    application/cloudevents-batch+json is a batch and application/cloudevents+json is structured, where `ce-`
    headers are ignored; anything else is binary. In binary mode an empty body means no data. An event without
    a `traceparent` gets the trace of the request, which may be that of a proxy.
    Raises MediaTypeError for another event format, BatchTooLargeError for a batch of more than `most_events`
    whatever they are, and EventError for anything else that is not an event. If an event of a batch is
    wrong, the error names it, and no event is returned.
    """
    headers = list(headers)
    if (usual := of_http(headers)) is not None:
        return [Event(usual, body or None)]
    types = [value for name, value in headers if name == _CONTENT_TYPE]
    if len(types) > 1:
        raise EventError("header content-type appears twice")
    stated = types[0] if types else b""
    if stated[: len(_CLOUDEVENTS)].lower() != _CLOUDEVENTS:
        return _with_trace([_decode_binary(headers, body)], headers)
    media_type = _json_format(stated)
    events = [Event.from_json_bytes(body)] if media_type == JSON_EVENT else _decode_batch(body, most_events)
    return _with_trace(events, headers)


def encode(event: Event) -> tuple[list[tuple[str, str]], bytes]:
    """Returns (headers, body) of a request or response: binary, or structured if the data is a CloudEvent."""
    attributes = event.attributes
    if attributes.get("datacontenttype", "")[: len(_CLOUDEVENTS)].lower() == _CLOUDEVENTS.decode():
        return [("content-type", JSON_EVENT)], event.to_json_bytes()
    headers = [
        ("content-type", _content_type(text))
        if name == "datacontenttype"
        else (f"ce-{name}", text if _is_safe(text) else quote(text, safe=_SAFE))
        for name, text in attributes.items()
    ]
    return headers, event.data or b""


def _content_type(media_type: str) -> str:
    """The media type (section 3.1.1); only characters that a header cannot contain are percent-encoded."""
    is_ascii = media_type.isascii() and media_type.isprintable()
    return media_type if is_ascii else quote(media_type, safe=_PRINTABLE)


def _json_format(stated: bytes) -> str:
    text = stated.decode("ascii", "replace")
    media_type, _, parameters = text.partition(";")
    media_type = media_type.strip().lower()
    if media_type not in (JSON_EVENT, JSON_BATCH):
        raise MediaTypeError(
            f"content-type {shown(media_type)} is not supported: send {JSON_EVENT}, {JSON_BATCH}, or the"
            " attributes as ce- headers"
        )
    charset = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", parameters, re.IGNORECASE)
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise MediaTypeError(f"the charset {shown(charset[1])} is not supported: JSON is UTF-8")
    return media_type


def _decode_batch(body: bytes, most_events: int | None) -> list[Event]:
    if (usual := of_batch(body)) is not None:
        if most_events is not None and len(usual) > most_events:
            raise BatchTooLargeError(len(usual), most_events)
        return [Event(*each) for each in usual]
    try:
        parts = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise EventError(f"the batch is not a JSON array of objects: {error}") from error
    if most_events is not None and len(parts) > most_events:
        raise BatchTooLargeError(len(parts), most_events)
    events: list[Event] = []
    for number, part in enumerate(parts, 1):
        try:
            events.append(Event.from_json_bytes(bytes(part)))
        except EventError as error:
            raise EventError(
                [f"event {number} of {len(parts)}: {each}" for each in error.problems]
            ) from error
    return events


def _decode_binary(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Event:
    attributes: dict[str, str] = {}
    problems: list[str] = []
    escaped: list[str] = []
    for name, raw in headers:
        if name[:3] == _PREFIX:
            attribute = name[3:].decode("latin-1")
            if attribute == "datacontenttype":
                problems.append("header ce-datacontenttype is not allowed: use content-type")
                continue
        elif name == _CONTENT_TYPE:
            attribute = "datacontenttype"
        else:
            continue
        if attribute in attributes:
            problems.append(f"header {shown(name.decode('latin-1'))} appears twice")
        if b"%" in raw and attribute != "datacontenttype":
            escaped.append(attribute)
        try:
            attributes[attribute] = raw.decode("ascii") if attribute == "datacontenttype" else _value(raw)
        except UnicodeDecodeError:
            problems.append(
                f"header {shown(name.decode('latin-1'))} is {shown(raw, 40)}: write UTF-8, each byte outside"
                " printable ASCII as %XX"
            )
            attributes[attribute] = "-"
    if not any(name != "datacontenttype" for name in attributes):
        problems.insert(
            0, f"the request is not a CloudEvent: no ce- headers and no content-type {JSON_EVENT}"
        )
    absent = [name for name in REQUIRED if name not in attributes]
    problems += [f"attribute {name} is missing: send it as header ce-{name}" for name in absent]
    problems += find_problems({**dict.fromkeys(absent, SPECVERSION), **attributes})
    if problems:
        # Libraries that do not encode the values of headers (sdk-go, sdk-java) send a source such as /a%20b.
        wrong = [name for name in escaped if any(each.startswith(f"attribute {name} ") for each in problems)]
        problems += [
            f"header ce-{name} was percent-decoded first: write each percent sign that is part of the value"
            " as %25, or send the event as JSON"
            for name in wrong
        ]
        raise EventError(problems)
    remember(attributes)
    return Event(attributes, body or None)


def _with_trace(events: list[Event], headers: Iterable[tuple[bytes, bytes]]) -> list[Event]:
    """The events; those without a trace get that of the request's headers, if it has one."""
    parents = [raw for name, raw in headers if name == b"traceparent"]
    if len(parents) != 1 or not _is_trace(parents[0]):
        return events
    trace = {_PARENT: parents[0].decode()}
    # It is a list, which may be in several headers (RFC 9110, section 5.3).
    state = b",".join(raw for name, raw in headers if name == b"tracestate")
    if _is_trace(state):
        trace[_STATE] = state.decode()
    return [_traced(event, trace) for event in events]


def _is_trace(raw: bytes) -> bool:
    return 0 < len(raw) <= _TRACE_CHARACTERS and raw.isascii() and raw.decode().isprintable()


def _traced(event: Event, trace: Mapping[str, str]) -> Event:
    if _PARENT in event.attributes or _STATE in event.attributes:
        return event
    traced = Event({**trace, **event.attributes}, event.data)
    traced.__dict__.update(event.__dict__)  # the types of extensions in JSON
    return traced


def _value(raw: bytes) -> str:
    """Returns an attribute's text: without double quotes, then percent-decoded once (section 3.1.3.2)."""
    if b'"' in raw:
        raw = _QUOTED.sub(lambda match: _ESCAPED.sub(rb"\1", match[1]), raw)
    if b"%" not in raw:
        return raw.decode("ascii")
    raw.decode("ascii")
    return unquote_to_bytes(raw).decode()
