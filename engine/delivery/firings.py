"""The firings of sinks, as they are read from the action topic and delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ..bus import Record, TopicPartition
from ..errors import RecordError
from ..records import ActionRecord, decode_json
from ..records.codec import UNREADABLE
from ..records.versions import is_read
from .answers import Answer

Order: TypeAlias = Literal["key", "partition", "none"]
_SUBSCRIPTION: Final = "{}/deliver/{}"


def subscription_of(deployment: str, name: str) -> str:
    """The subscription of a sink. By its prefix, deliverers know their firings before they know the sink."""
    return _SUBSCRIPTION.format(deployment, name)


class _Firing(msgspec.Struct):
    id: str
    key: str | None
    events: dict[str, list[msgspec.Raw]] = {}


class _Action(msgspec.Struct):
    """The members of an action record that a deliverer decodes before it delivers the firing."""

    v: int
    state: Literal["fired", "acked"]
    firing: _Firing


class _Event(msgspec.Struct):
    partitionkey: Any = None
    subject: Any = None
    source: Any = None


_decode = msgspec.json.Decoder(_Action).decode
_decode_event = msgspec.json.Decoder(_Event).decode


@dataclass(eq=False, slots=True)
class OpenFiring:
    """A firing that is not acknowledged. record: as it was read. by_key: its lane with the order `key`.

    tries: how many of its deliveries have failed in this process. failure: why the last one failed. answer:
    the sink's answer to that one.
    """

    record: Record
    subscription: str
    by_key: str
    tries: int = 0
    failure: str = ""
    answer: Answer | None = None
    # For `SinkLanes`. uncounted: how many of the sink's failures (`Pace.failures`) do not count for this
    # firing: those before it came, and its own, which are in `tries`. denied_at: of its last denial.
    # congested_at: of its last sign of congestion.
    uncounted: int = 0
    denied_at: float | None = None
    congested_at: float | None = None
    key: bytes = field(init=False)  # of its record: subscription and firing id

    def __post_init__(self) -> None:
        self.key = self.record.key or b""

    @property
    def place(self) -> tuple[TopicPartition, int]:
        """Its partition and offset."""
        return self.record.source, self.record.offset

    def lane(self, order: Order) -> str:
        """The name of its lane. Firings of one lane are delivered one after the other."""
        if order == "key":
            return self.by_key
        if order == "partition":
            return f"partition {self.record.source.partition}"
        return self.key.decode("utf-8", "replace")


def subscription_in(record: Record) -> str | None:
    """The durable subscription that an action record belongs to; None for a wait's."""
    subscription, durable, _ = (record.key or b"").partition(b"\0")
    return subscription.decode("utf-8", "replace") if durable else None


def open_firing(record: Record, subscription: str) -> OpenFiring | None:
    """The firing of an action record; None if it is acknowledged.

    Raises RecordError if it is unreadable, UnknownVersion if another version wrote it.
    """
    if record.value is None:
        return None
    try:
        action = _decode(record.value)
        lane = _lane_key(action.firing)
    except UNREADABLE as e:
        raise RecordError(f"{record} holds no valid ActionRecord: {e}.") from e
    if not is_read(action.v):
        decode_json(ActionRecord, record.value, str(record))  # raises UnknownVersion
    if action.state != "fired":
        return None
    return OpenFiring(record, subscription, lane)


def _lane_key(firing: _Firing) -> str:
    """The firing's key; without one, the partition key of its first event.

    All firings of a subscription without keys are on one partition. In one lane they would be delivered one
    by one. The event topic keeps the order only of events with the same partition key, so lanes by that key
    lose no order.
    """
    if firing.key is not None:
        return f"key {firing.key}"
    for together in firing.events.values():
        for raw in together:
            event = _decode_event(raw)
            return f"event {event.partitionkey or event.subject or event.source}"
    return "none"
