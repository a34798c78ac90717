"""The action record of a rehearsed firing, as an engine would write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from ..conditions import Condition, Rehearsed
from ..engine.protocol.tasks.computed import action_of_computed, part_in_state
from ..engine.records import ActionRecord, Registration, decode_json

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
    parts = tuple(part_in_state(part, condition, firing.key) for part in firing.taking_part)
    firing = msgspec.structs.replace(firing, taking_part=parts)
    return action_of_computed(registration, condition, firing.key, firing, as_ms(at))


def as_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def as_datetime(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND
