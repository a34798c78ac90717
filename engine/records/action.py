"""Firings, and the action records that carry them to waiting tasks and dispatchers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .registration import Kind
from .versions import VERSION


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that was met, or whose time is up: what a waiting task gets.

    `events`: per label the events that took part, in the CloudEvents JSON format, and `origins` their
    records' `{"topic", "partition", "offset", "timestamp_ms"}` in the same order. `missing`: labels of what
    was not there. `left_out`: by label, how many events there was no room for. `timer_ms`: the due time that
    brought it. `incomplete`: that time passed without a cut.
    """

    id: str
    outcome: Literal["met", "expired"]
    key: str | None
    fired_at: str
    events: dict[str, list[dict[str, Any]]]
    origins: dict[str, list[dict[str, Any]]]
    missing: list[str] = []
    left_out: dict[str, int] = {}
    timer_ms: int | None = None
    incomplete: bool = False


class ActionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A firing on its way to who waits for it (JSON in the action topic, key: `action_key`)."""

    v: int = VERSION
    subscription: str
    kind: Kind = "one-shot"
    incarnation: str
    state: Literal["fired", "acked"]
    firing: Firing

    @property
    def key(self) -> bytes:
        """The record key: one per subscription, or per firing of a durable one."""
        text = self.subscription if self.kind == "one-shot" else f"{self.subscription}\0{self.firing.id}"
        return text.encode()
