"""Records that are no CloudEvents, read as events: any topic can be a source of a bus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from .event import Event
from .kafka import CONTENT_TYPE

TYPE: Final = "org.apache.kafka.record"
_CLOUDEVENTS: Final = b"application/cloudevents"


def is_plain(headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
    """Whether nothing in the headers says that the record is a CloudEvent."""
    for name, raw in headers or ():
        if name.startswith("ce_") or (name == CONTENT_TYPE and (raw or b"")[:23].lower() == _CLOUDEVENTS):
            return False
    return True


def event_of_record(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> Event:
    """The event that a plain record is read as; every record gives one, the same each time.

    source: the topic; type: `org.apache.kafka.record`; id: partition/offset; subject: the key, where it is
    text; time: the record's timestamp; data: the value. The content type is the header's of that name, else
    what the value looks like.
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
        attributes["datacontenttype"] = _content_type(value, headers)
    return Event(attributes, value)


_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_LAST_MS: Final = 253_402_300_799_000  # the end of the year 9999


def _text(raw: bytes | None) -> str | None:
    try:
        text = (raw or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _is_text(value: bytes) -> bool:
    """Whether it is UTF-8 of any number of lines, without the control characters that binary forms have."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(value) is None


def _content_type(value: bytes, headers: Sequence[tuple[str, bytes | None]] | None) -> str:
    for name, raw in headers or ():
        if name == CONTENT_TYPE:
            given = _text(raw)
            if given and given.isascii() and "/" in given:
                return given
    try:
        msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "text/plain" if _is_text(value) else "application/octet-stream"
    return "application/json"
