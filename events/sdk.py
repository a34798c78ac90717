"""Converts to and from the CloudEvents SDK's type. The only module that imports the SDK."""

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
    """Returns the SDK's event. Its data: the parsed value for JSON objects and text, else the bytes.

    The SDK writes other JSON data wrongly (a list with Python's quotes, null as nothing), but passes bytes
    through. `time` is cut to microseconds. Raises EventError for a time that datetime cannot hold.
    """
    attributes: dict[str, Any] = dict(event.attributes)
    # The SDK adds the current time if there is no time, so set one and remove it afterwards.
    attributes["time"] = _SOME_TIME
    if "time" in event.attributes:
        attributes["time"] = event.time
        if event.time is None:
            raise EventError(
                f"attribute time is {shown(event.attributes['time'])}: the SDK supports the years 1 to 9999"
            )
    result = CloudEvent(attributes, _data(event))
    if "time" not in event.attributes:
        del result.get_attributes()["time"]
    return result


def from_cloudevent(cloudevent: CloudEvent) -> Event:
    """Returns the validated event of an SDK event; dict or str data without a content type becomes JSON."""
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
