"""Match records: events that matchers accepted, written to trigger partitions."""

from __future__ import annotations

import msgspec

from ...events.event import Event


class MatchTarget(msgspec.Struct, frozen=True, array_like=True):
    """A registration, and the numbers of its matchers that accept an event for a key.

    values: {number of a matcher with `distinct`: the value that it reads from the event}; None if there is
    none. The event hop reads them, because large data do not reach the trigger partition. written: the key
    as the event writes it, if that differs from `key` and the match does not contain the data.
    """

    registry_offset: int
    incarnation: str
    matchers: tuple[int, ...]
    key: str
    values: dict[int, str] | None = None
    written: str | None = None


class MatchRecord(msgspec.Struct, frozen=True, array_like=True):
    """An event with all its targets on one trigger partition (msgpack in the trigger topic).

    `topic_id`: the source topic's id, because the offsets of a recreated topic mean other records. `resumed`:
    the registry position after the source partition's last resume record; 0 without one. Apply the registry
    up to this position before evaluating the match.
    """

    v: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    event: Event
    targets: list[MatchTarget]
    topic_id: str = ""
    resumed: int = 0

    @property
    def source(self) -> str:
        """The name of the source partition in `MetaRecord.marks`."""
        return f"{self.topic_id or self.topic}/{self.partition}"
