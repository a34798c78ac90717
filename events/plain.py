"""Reads plain records, which are not CloudEvents, as events, so that a bus can read any topic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from .attributes import is_allowed, is_media_type
from .content import parse_json
from .errors import EventError
from .event import Event
from .kafka import CONTENT_TYPE

TYPE: Final = "org.apache.kafka.record"
ATTRIBUTES: Final = frozenset({"datacontenttype", "id", "source", "specversion", "subject", "time", "type"})
_CLOUDEVENTS: Final = b"application/cloudevents"


def is_plain(headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
    """Returns whether no header marks the record as a CloudEvent."""
    for name, raw in headers or ():
        if name.startswith("ce_") or (name == CONTENT_TYPE and (raw or b"")[:23].lower() == _CLOUDEVENTS):
            return False
    return True


def is_tombstone(form: Mapping[str, object]) -> bool:
    """Returns whether the JSON form of an event is that of a plain record without a value."""
    return form.get("type") == TYPE and "datacontenttype" not in form


def event_of_record(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> Event:
    """Returns the event of a plain record. Never raises; the same record always gives an equal event.

    source: the topic; type: `org.apache.kafka.record`; id: partition/offset; subject: the key if it is text
    without control characters; time: the record's timestamp, if it has one; data: the value. The content type
    comes from the header content-type, or is detected from the value.
    """
    attributes = {
        "specversion": "1.0",
        "type": TYPE,
        "source": topic,
        "id": f"{partition}/{offset}",
    }
    if timestamp_ms >= 0:
        time = datetime.fromtimestamp(min(timestamp_ms, _LAST_MS) / 1000, UTC)
        attributes["time"] = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    subject = _text(key)
    if subject:
        attributes["subject"] = subject
    if value is not None:
        attributes["datacontenttype"] = content_type(value, headers)
    return Event(attributes, value)


_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_LAST_MS: Final = 253_402_300_799_000  # the end of the year 9999


def _text(raw: bytes | None) -> str | None:
    try:
        text = (raw or b"").decode()
    except UnicodeDecodeError:
        return None
    # Not `isprintable`: it also refuses characters of names in Japanese, Persian or French, and new emoji,
    # depending on Python's version.
    return text if is_allowed(text) else None


def _is_text(value: bytes) -> bool:
    """Returns whether this is UTF-8 text. Line breaks are allowed, other control characters are not."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(value) is None


def content_type(value: bytes, headers: Sequence[tuple[str, bytes | None]] | None = None) -> str:
    """Returns the media type in the header content-type; without one JSON, text or bytes, as the value is."""
    for name, raw in headers or ():
        if name == CONTENT_TYPE:
            given = _text(raw)
            if given and is_media_type(given):
                return given
    try:
        parse_json(value)
    except EventError:
        return "text/plain" if _is_text(value) else "application/octet-stream"
    return "application/json"
