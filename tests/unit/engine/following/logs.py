"""Records of a bus's state and action topics, for the tests of what follows them."""

from __future__ import annotations

from typing import Any

import msgspec
from interlock import Event, event
from interlock.conditions import EMPTY, Match, step
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.records import (
    ActionRecord,
    FiringRecord,
    Kind,
    MetaRecord,
    StateRecord,
    encode_json,
    encode_msgpack,
    state_key,
)

CONFIG = BusConfig(name="bus", client={"bootstrap.servers": "one:1"})
PAIR = event("x", by="subject", label="x") & event("y", by="subject", label="y")


def an_event(id_: str, kind: str = "x", **more: Any) -> Event:
    return Event.of(kind, "/shop", id=id_, subject="s", **more)


HALF_MET = step(PAIR, EMPTY, Match(an_event("e1"), (0,), "bus-event", 0, 0, 1000))[0].encode()
# After a firing, only what recognises repeats is kept.
IDLE = msgspec.msgpack.encode([[], b"12345678", 1000, [], None, None, None, None, {}, {}, 0])


def of_state(
    offset: int, incarnation: str, key: str | None, value: bytes | None, partition: int = 0
) -> Record:
    """A record of the state topic."""
    place = TopicPartition("bus-state", partition)
    return Record(place, offset, 1000 + offset, state_key(incarnation, key), value, None)


def state(data: bytes, v: int = 1) -> bytes:
    """The value of a key's state record."""
    return encode_msgpack(StateRecord(v, 0, None, data))


def meta(only: bytes | None = None, closed: bool = False, v: int = 1) -> bytes:
    """The value of an incarnation's meta record."""
    return encode_msgpack(MetaRecord(v, 0, {}, closed, True, None if only is None else (None, only)))


def of_action(
    offset: int,
    name: str,
    firing: str,
    *,
    state: str = "fired",
    kind: Kind = "one-shot",
    second: int = 0,
    events: tuple[Event, ...] = (),
    **more: Any,
) -> Record:
    """A record of the action topic. second: of 1970, when it fired."""
    origin = {"topic": "bus-event", "partition": 1, "offset": 7, "timestamp_ms": 5}
    fired = FiringRecord(
        id=firing,
        outcome="met",
        key="k",
        fired_at=f"1970-01-01T00:00:{second:02}+00:00",
        events={"x": [each.to_json_dict() for each in events]},
        origins={"x": [origin] * len(events)},
    )
    record = ActionRecord(
        subscription=name,
        kind=kind,
        incarnation="i",
        state=state,  # type: ignore[arg-type]
        firing=msgspec.structs.replace(fired, **more),
    )
    place = TopicPartition("bus-action", 0)
    return Record(place, offset, 60_000 + offset, record.key, encode_json(record), None)
