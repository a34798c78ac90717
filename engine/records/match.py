"""Matches: events that matchers accepted, on their way to a trigger partition."""

from __future__ import annotations

import msgspec

from ...events.event import Event


class Target(msgspec.Struct, frozen=True, array_like=True):
    """One registration that an event met: its registry offset, and which of its matchers."""

    registry_offset: int
    incarnation: str
    matchers: tuple[int, ...]
    key: str


class MatchRecord(msgspec.Struct, frozen=True, array_like=True):
    """An event with all its targets on one trigger partition (msgpack in the trigger topic).

    `topic_id`: offsets of a topic that is deleted and made again are other offsets.
    """

    v: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    event: Event
    targets: list[Target]
    topic_id: str = ""

    @property
    def source(self) -> str:
        """The source partition, as marks name it."""
        return f"{self.topic_id or self.topic}/{self.partition}"
