"""Firings, and the action records that carry them to waiting tasks and dispatchers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .registration import Kind
from .versions import VERSION


class FiringRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that a condition is met or expired, in the form that tasks get.

    `events`: {label: events in the CloudEvents JSON format}. `origins`: {label: `{"topic", "partition",
    "offset", "timestamp_ms"}` of each event, in the same order}. `missing`: labels without an
    event. `left_out`: {label: how many events did not fit}. `timer_ms`: when the timer that fired was due.
    `written`: the key as the event writes it, if that differs from `key`, its canonical form.
    `incomplete`: the timer fired without a cut, so earlier events may not have been evaluated.
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
    written: str | None = None


class ActionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A firing for a task or dispatcher (JSON in the action topic, with the key `key`)."""

    v: int = VERSION
    subscription: str
    kind: Kind = "one-shot"
    incarnation: str
    state: Literal["fired", "acked"]
    firing: FiringRecord

    @property
    def key(self) -> bytes:
        """The record key: one per subscription, or per firing of a durable one."""
        text = self.subscription if self.kind == "one-shot" else f"{self.subscription}\0{self.firing.id}"
        return text.encode()
