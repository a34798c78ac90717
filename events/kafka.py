"""Kafka protocol binding of CloudEvents 1.0: converts records to events and back.

This is the hot path: one pass over the headers; a binary event's value is not parsed. It does not use the
SDK, which takes several times as long and changes some events (docs/use/events.md lists how).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .attributes import REQUIRED, USUAL_NAMES, find_problems, shown
from .content import JSON
from .errors import EventError
from .event import Event
from .misspelled import likely_mistakes, quoted_values
from .usual import USUAL_TYPES, are_usual, remember

CONTENT_TYPE = "content-type"
_PREFIX = "ce_"
_CLOUDEVENTS = b"application/cloudevents"
_STRUCTURED_PREFIX = _CLOUDEVENTS.decode()
# {header name: attribute} of the usual attributes.
_USUAL = {_PREFIX + name: name for name in USUAL_NAMES - {"datacontenttype"}}
_USUAL[CONTENT_TYPE] = "datacontenttype"


class _Names(dict[str, str]):
    """{attribute: header name}, also of attributes that it does not hold."""

    def __missing__(self, attribute: str) -> str:
        return _PREFIX + attribute


_NAMES = _Names({attribute: name for name, attribute in _USUAL.items()})
_STRUCTURED = "application/cloudevents+json"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
TOPIC_RULE = "a topic's name: letters, digits, '.', '_' and '-', at most 249"


def is_topic(name: str) -> bool:
    """Returns whether Kafka allows a topic of this name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def decode(
    key: bytes | None,  # noqa: ARG001  # the record key is not part of the event
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> Event:
    """Returns the event in a Kafka record, binary or structured. Raises only EventError.

    The content type decides the mode: one that begins with application/cloudevents (in any case) means
    structured, and ce_ headers are ignored then. The record key is ignored, since it is not part of the event
    (Kafka binding, section 3.1: a key mapper must not change the event).
    """
    usual = _usual(headers)
    return _decode(value, headers) if usual is None else Event(usual, value)


def _usual(headers: Sequence[tuple[str, bytes | None]] | None) -> dict[str, str] | None:
    """Returns the attributes of a usual event; None if `_decode` must look closer.

    Accepts only events that `_decode` accepts, in half the time (2 us for seven headers).
    """
    try:
        attributes = {_USUAL[name]: raw.decode() for name, raw in headers or ()}  # type: ignore[union-attr]
    except (LookupError, AttributeError, UnicodeDecodeError):  # unusual, null, not UTF-8
        return None
    if len(attributes) != len(headers or ()) or not are_usual(attributes):  # fewer: a header is repeated
        return None
    return attributes


def _decode(value: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None) -> Event:
    attributes: dict[str, str] = {}
    problems: list[str] = []
    for name, raw in headers or ():
        if raw is None:  # a null header means no attribute, like null in JSON
            continue
        if name[:3] == _PREFIX:
            attribute = name[3:]
            if attribute == "datacontenttype":
                problems.append(f"header ce_datacontenttype is not allowed: use {CONTENT_TYPE}")
                continue
        elif name == CONTENT_TYPE:
            if raw[:23].lower() == _CLOUDEVENTS:
                return _decode_structured(raw, value)
            attribute = "datacontenttype"
        else:
            continue
        if attribute in attributes:
            problems.append(f"header {shown(name)} appears twice")
        try:
            attributes[attribute] = raw.decode()
        except UnicodeDecodeError:
            problems.append(f"header {shown(name)} is not UTF-8: {shown(raw, 40)}")
            attributes[attribute] = "-"
    found = find_problems(attributes)
    if found or problems:
        raise EventError(_explained(attributes, problems, found, headers, value))
    remember(attributes)
    return Event(attributes, value)


def encode(event: Event) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """Returns (key, value, headers) of the event's record, in binary mode.

    key: partitionkey, else subject, else source, so that the events of one subject keep their order. value:
    the data unchanged, null without data. If the datacontenttype says that the data is itself a CloudEvent,
    the mode is structured: in binary mode a reader would take the data for the event.
    """
    attributes = event.attributes
    key = attributes.get("partitionkey") or attributes.get("subject") or attributes["source"]
    stated = attributes.get("datacontenttype", JSON)
    if stated not in USUAL_TYPES and stated[:23].lower() == _STRUCTURED_PREFIX:
        return key.encode(), event.to_json_bytes(), [(CONTENT_TYPE, _STRUCTURED.encode())]
    headers = [(_NAMES[name], text.encode()) for name, text in attributes.items()]
    return key.encode(), event.data, headers


def _decode_structured(content_type: bytes, value: bytes | None) -> Event:
    media_type = content_type.partition(b";")[0].strip().lower().decode("utf-8", "replace")
    if media_type.startswith("application/cloudevents-batch"):
        raise EventError(
            "the record is a batch of CloudEvents, which the Kafka binding does not support: send one record"
            " for each event"
        )
    if media_type != _STRUCTURED:
        raise EventError(
            f"content-type {shown(media_type)} is not supported: use {_STRUCTURED} or the binary mode"
        )
    if value is None:
        raise EventError(f"the record has no value, although its content-type is {media_type}")
    return Event.from_json_bytes(value)


def _explained(
    attributes: dict[str, str],
    problems: list[str],
    found: list[str],
    headers: Sequence[tuple[str, bytes | None]] | None,
    value: bytes | None,
) -> list[str]:
    missing = [name for name in REQUIRED if name not in attributes]
    mistakes = quoted_values(headers) + (likely_mistakes(headers, value, missing) if missing else [])
    if not attributes.keys() - {"datacontenttype"} and not problems:
        head = f"the record is not a CloudEvent: it has no ce_ headers and no content-type {_STRUCTURED}"
        return [head, *mistakes, *found]
    return problems + mistakes + found
