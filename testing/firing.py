"""The action record of a rehearsed firing, as an engine would write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from ..conditions import Condition, Rehearsed
from ..conditions.evaluate.firing import Part
from ..conditions.nodes.written import written_by
from ..engine.protocol.tasks.evaluator import action_of
from ..engine.records import ActionRecord, Registration, decode_json
from ..engine.records.event_form import by_reference
from ..engine.records.versions import VERSION
from ..engine.registry.registry import Registered

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def action_of_rehearsed(
    registration: Registration, condition: Condition, firing: Rehearsed, at: datetime
) -> ActionRecord:
    """Returns the action record. at: when the firing was decided."""
    _, value = written_of_rehearsed(registration, condition, firing, at)
    return decode_json(ActionRecord, value, "The firing")


def written_of_rehearsed(
    registration: Registration, condition: Condition, firing: Rehearsed, at: datetime
) -> tuple[bytes, bytes]:
    """As `action_of_rehearsed`: key and value of the record, in which JSON data keep their bytes."""
    parts = tuple(_as_in_state(part, condition, firing.key) for part in firing.taking_part)
    firing = msgspec.structs.replace(firing, taking_part=parts)
    registered = Registered(registration, condition, 0, registration.since_ms)
    return action_of(registered, firing.key or "", firing, as_ms(at), False, VERSION)


def _as_in_state(part: Part, condition: Condition, key: str | None) -> Part:
    """Returns the part as an engine's state contains it, large data replaced by a reference."""
    match = part.match
    event = by_reference(match.event, match.topic, match.partition, match.offset)
    written: str | None = None
    if event is not match.event and key is not None:
        written = written_by(condition, match.matchers, key, match.event)
    return msgspec.structs.replace(part, match=msgspec.structs.replace(match, event=event, written=written))


def as_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def as_datetime(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND
