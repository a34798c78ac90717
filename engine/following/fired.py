"""A firing as the questions need it: which events took part, where they are, and when; not what they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from ..bus import Record
from ..records.codec import UNREADABLE
from ..records.registration import Kind
from ..records.versions import is_read

MOST_EVENTS: Final = 1000  # of a firing


class EventPlace(msgspec.Struct, frozen=True, gc=False):
    """An event of a firing: its identity, and the place and timestamp of its record.

    time_ms: the event's time; that of the record if it has none. written_ms: of the record.
    """

    id: str
    source: str
    type: str
    subject: str | None
    time_ms: int
    topic: str
    partition: int
    offset: int
    written_ms: int

    @property
    def identity(self) -> tuple[str, str]:
        """(source, id)."""
        return self.source, self.id


class Fired(msgspec.Struct, frozen=True, gc=False):
    """A firing in the action topic.

    fired_ms: when an engine decided, by its clock. written_ms: when it was written, acked_ms: when it was
    acknowledged, both by the brokers' clock; None if that is not known, or not so yet. open: nobody
    acknowledged it. left_out: how many of its events are not in `events`, because they did not fit.
    """

    id: str
    subscription: str
    kind: Kind
    incarnation: str
    key: str | None
    outcome: str
    fired_at: str
    fired_ms: int
    open: bool
    written_ms: int | None
    acked_ms: int | None
    missing: tuple[str, ...]
    events: dict[str, tuple[EventPlace, ...]]
    left_out: int

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the order of firings: (fired_ms, id)."""
        return self.fired_ms, self.id


class _Event(msgspec.Struct, gc=False):
    id: str
    source: str
    type: str
    subject: str | None = None
    time: str | None = None


class _Origin(msgspec.Struct, gc=False):
    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 0


class _Firing(msgspec.Struct, gc=False):
    id: str
    outcome: str
    fired_at: str
    key: str | None = None
    events: dict[str, list[_Event]] = {}
    origins: dict[str, list[_Origin]] = {}
    missing: tuple[str, ...] = ()
    left_out: dict[str, int] = {}


class _Action(msgspec.Struct, gc=False):
    """What is read of an ActionRecord."""

    v: int
    incarnation: str
    state: Literal["fired", "acked"]
    firing: _Firing


_decode: Final = msgspec.json.Decoder(_Action).decode


def fired_in(record: Record) -> Fired | None:
    """The firing in a record of the action topic; None if it holds none that this release can read.

    The record's key says of which subscription it is, and of which kind (see `ActionRecord.key`).
    """
    if record.value is None or record.fault:
        return None
    try:
        action = _decode(record.value)
    except UNREADABLE:  # whoever delivers it logs it
        return None
    if not is_read(action.v):
        return None
    name, durable, _ = (record.key or b"").decode("utf-8", "replace").partition("\0")
    firing, is_open = action.firing, action.state == "fired"
    events, left_out = _events(firing)
    fired_ms = _ms(firing.fired_at)
    return Fired(
        firing.id,
        name,
        "durable" if durable else "one-shot",
        action.incarnation,
        firing.key,
        firing.outcome,
        firing.fired_at,
        record.timestamp_ms if fired_ms is None else fired_ms,
        is_open,
        record.timestamp_ms if is_open else None,
        None if is_open else record.timestamp_ms,
        firing.missing,
        events,
        left_out,
    )


def _events(firing: _Firing) -> tuple[dict[str, tuple[EventPlace, ...]], int]:
    """(the events, how many are left out)."""
    found, room, left_out = {}, MOST_EVENTS, sum(firing.left_out.values())
    for label, events in firing.events.items():
        origins = firing.origins.get(label, [])
        found[label] = tuple(
            _place(event, origins[number] if number < len(origins) else _Origin())
            for number, event in enumerate(events[:room])
        )
        left_out += max(0, len(events) - room)
        room -= len(found[label])
    return found, left_out


def _place(event: _Event, origin: _Origin) -> EventPlace:
    time_ms = None if event.time is None else _ms(event.time)
    return EventPlace(
        event.id,
        event.source,
        event.type,
        event.subject,
        origin.timestamp_ms if time_ms is None else time_ms,
        origin.topic,
        origin.partition,
        origin.offset,
        origin.timestamp_ms,
    )


def _ms(text: str) -> int | None:
    """A time as ms since the epoch; None if the text is none: it may be any program's."""
    try:
        time = datetime.fromisoformat(text)
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
