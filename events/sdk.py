"""The CloudEvents SDK's type at the public edge; no other module of this package knows the SDK."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cloudevents.core.v1.event import CloudEvent

from . import content
from .attributes import REQUIRED, SPECVERSION, shown
from .errors import EventError
from .event import Event

_SOME_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def to_cloudevent(event: Event) -> CloudEvent:
    """The SDK's event. Data: the payload for JSON objects and for text, the bytes for all else.

    The SDK writes JSON data other than objects wrongly (a list with Python's quotes, null as nothing), so
    such data stays bytes, which it passes through. `time` is cut to microseconds; one beyond datetime's years
    is an EventError.
    """
    attributes: dict[str, Any] = dict(event.attributes)
    # The SDK puts the present moment in where there is no time: give it one and take it out again.
    attributes["time"] = _SOME_TIME
    if "time" in event.attributes:
        attributes["time"] = event.time
        if event.time is None:
            raise EventError(
                f"attribute time is {shown(event.attributes['time'])}: the SDK's year is 1 to 9999"
            )
    result = CloudEvent(attributes, _data(event))
    if "time" not in event.attributes:
        del result.get_attributes()["time"]
    return result


def from_cloudevent(cloudevent: CloudEvent) -> Event:
    """The event in the SDK's one, validated; a dict or str in it becomes JSON unless its type is another."""
    attributes = dict(cloudevent.get_attributes())
    missing = [f"attribute {name} is missing" for name in REQUIRED if attributes.get(name) is None]
    if missing:
        raise EventError(missing)
    version = attributes.pop("specversion")
    if version != SPECVERSION:
        raise EventError(f"attribute specversion is {shown(version)}: only '{SPECVERSION}' is supported")
    return Event.of(
        attributes.pop("type"), attributes.pop("source"), data=cloudevent.get_data(), **attributes
    )


def _data(event: Event) -> dict[str, Any] | str | bytes | None:
    try:
        payload = event.payload
    except EventError:
        return event.data
    stated = event.datacontenttype
    if isinstance(payload, dict) and content.is_json(stated):
        return payload
    if isinstance(payload, str) and content.is_text(stated):
        return payload
    return event.data
