"""Reads the record of a listed topic, beside the event topic of a bus, as an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .attributes import shown
from .errors import EventError
from .event import Event
from .kafka import decode
from .misspelled import is_misspelled
from .plain import TYPE, event_of_record, is_plain

_OWN: Final = "interlock."  # the types that Interlock emits begin with this
Headers = Sequence[tuple[str, bytes | None]]


def is_own(event_type: str) -> bool:
    """Returns whether the type is reserved for Interlock: for what it emits, and for plain records."""
    return event_type.startswith(_OWN) or event_type == TYPE


def event_of_listed(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | None,
    *,
    cloudevents: bool,
) -> Event:
    """Returns the event in a record of a listed topic. Raises EventError only with `cloudevents`.

    cloudevents: the topic's owner says that it holds CloudEvents. Then a record with a header of a CloudEvent
    is one, or an error; types that are reserved for Interlock are refused. Without it each record is plain,
    so that whoever may write to that topic cannot choose the source and type of an event.
    """
    if not cloudevents or (is_plain(headers) and not is_misspelled(headers)):
        return event_of_record(topic, partition, offset, timestamp_ms, key, value, headers)
    event = decode(key, value, headers)
    if is_own(event.type):
        raise EventError(
            f"the type {shown(event.type)} is Interlock's own, and {topic} is a listed topic: only the event"
            " topic of the bus may hold it"
        )
    return event
