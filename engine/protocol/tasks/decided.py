"""The record of a firing, made of what a condition decided."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from ....conditions import Firing as Decision
from ....conditions import firing_id
from ....events.event import Event
from ...records import ActionRecord, Firing, encode_json
from ...records.firing import fit, json_form, raw_form
from ...records.sizes import MAX_VALUE_BYTES
from ...registry.registry import Registered


def action_of(
    registered: Registered, key: str, decision: Decision, now_ms: int, incomplete: bool, version: int
) -> tuple[bytes, bytes]:
    """Key and value of the action record; never larger than a record may be (see `fit`)."""
    action = _action(registered, key, decision, now_ms, incomplete, version, raw_form)
    value = encode_json(action)
    if len(value) > MAX_VALUE_BYTES:
        action = _action(registered, key, decision, now_ms, incomplete, version, json_form)
        firing = fit(action.firing, MAX_VALUE_BYTES // 2)
        value = encode_json(msgspec.structs.replace(action, firing=firing))
    return action.key, value


def _action(
    registered: Registered,
    key: str,
    decision: Decision,
    now_ms: int,
    incomplete: bool,
    version: int,
    form: Callable[[Event], dict[str, Any]],
) -> ActionRecord:
    events: dict[str, list[dict[str, Any]]] = {}
    origins: dict[str, list[dict[str, Any]]] = {}
    for part in decision.taking_part:
        label, match = part.label, part.match
        event = form(match.event)
        origin = {
            "topic": match.topic,
            "partition": match.partition,
            "offset": match.offset,
            "timestamp_ms": match.timestamp_ms,
        }
        if label in events:
            events[label].append(event)
            origins[label].append(origin)
        else:
            events[label], origins[label] = [event], [origin]
    firing = Firing(
        id=firing_id(registered.incarnation, key, decision.outcome, decision.taking_part, decision.timer_ms),
        outcome=decision.outcome,
        key=key or None,
        fired_at=_iso(now_ms),
        events=events,
        origins=origins,
        missing=list(decision.missing),
        timer_ms=decision.timer_ms,
        incomplete=incomplete,
    )
    return ActionRecord(
        v=version,
        subscription=registered.registration.subscription,
        kind=registered.registration.kind,
        incarnation=registered.incarnation,
        state="fired",
        firing=firing,
    )


@lru_cache(1)  # the firings of a pass have one time
def _iso(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
