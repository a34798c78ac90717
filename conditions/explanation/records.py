"""Records that are searched or shown: an event, and where its record is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ...events.event import Event
from .node import EventRef
from .wording import clean

_MAX_ID_CHARS: Final = 1024
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Record(Protocol):
    """An event and the position of its record; a Match is one."""

    @property
    def event(self) -> Event: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def timestamp_ms(self) -> int | None: ...


# Whether the engines have read a record, and processed what it matched; None if that is not known.
WasRead: TypeAlias = Callable[[Record], bool | None]


class Seen(NamedTuple):
    """An event and, if known, the position and stamp of its record; for `explain`."""

    event: Event
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


def readable(value: object) -> Record | None:
    """The value as a record with a well-formed event; None if it is not one."""
    event = value if isinstance(value, Event) else getattr(value, "event", None)
    if not isinstance(event, Event):
        return None
    attributes: Any = event.attributes
    data: Any = event.data
    if not isinstance(attributes, Mapping) or not isinstance(data, (bytes, type(None))):
        return None
    if not all(isinstance(text, str) for item in attributes.items() for text in item):
        return None
    if "id" not in attributes or "source" not in attributes:
        return None
    topic = getattr(value, "topic", None)
    numbers = (getattr(value, name, None) for name in ("partition", "offset", "timestamp_ms"))
    return Seen(
        event,
        topic if isinstance(topic, str) else None,
        *(number if isinstance(number, int) else None for number in numbers),
    )


def reference(record: Record) -> EventRef:
    """The event without its data."""
    event = record.event
    time = event.time
    stamp = record.timestamp_ms
    stamped = stamp if stamp is None or stamp >= 0 else None  # Kafka's -1 means that there is none
    return EventRef(
        clean(event.id, _MAX_ID_CHARS),
        clean(event.source, _MAX_ID_CHARS),
        clean(event.attributes.get("type", ""), _MAX_ID_CHARS) or None,
        stamped if time is None else (time - _EPOCH) // _MILLISECOND,
        None if record.topic is None else clean(record.topic, _MAX_ID_CHARS),
        record.partition,
        record.offset,
        stamp,
    )


def position(record: Record) -> tuple[str, int, int] | None:
    """(Topic, partition, offset); None if one is not known."""
    topic, partition, offset = record.topic, record.partition, record.offset
    return None if topic is None or partition is None or offset is None else (topic, partition, offset)
