"""Firings for tests of deliveries."""

from __future__ import annotations

from typing import Any, Final

from interlock.engine.bus import Record, TopicPartition
from interlock.engine.delivery.firings import OpenFiring, open_firing, subscription_of
from interlock.engine.records import ActionRecord, FiringRecord, encode_json

TP: Final = TopicPartition("b-action", 0)
SINK: Final = subscription_of("airflow", "s")


def action(
    name: str, key: str | None = "a", *, state: Any = "fired", subscription: str = SINK, **members: Any
) -> ActionRecord:
    of_events = {part: members.pop(part, {}) for part in ("events", "origins")}
    fired_at = members.pop("fired_at", "")
    firing = FiringRecord(id=name, outcome="met", key=key, fired_at=fired_at, **of_events)
    return ActionRecord(
        subscription=subscription, kind="durable", incarnation="i", state=state, firing=firing, **members
    )


def record(
    offset: int, name: str, key: str | None = "a", *, at_ms: int = 0, tp: TopicPartition = TP, **members: Any
) -> Record:
    """The action record of a firing. state="acked": its acknowledgement."""
    written = action(name, key, **members)
    return Record(tp, offset, at_ms, written.key, encode_json(written), None)


def firing(
    offset: int, key: str | None = "a", *, name: str = "", at_ms: int = 0, **members: Any
) -> OpenFiring:
    made = record(offset, name or f"f{offset}", key, at_ms=at_ms, **members)
    found = open_firing(made, SINK)
    assert found is not None
    return found
