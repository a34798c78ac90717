"""The action record of a firing that no engine made: of a rehearsal, or of a backtest."""

from __future__ import annotations

import msgspec

from ....conditions import Condition, Firing
from ....conditions.evaluate.firing import Part
from ....conditions.nodes.written import written_by
from ...records import Registration
from ...records.event_form import by_reference
from ...records.versions import VERSION
from ...registry.registry import Registered
from .evaluator import action_of


def action_of_computed(
    registration: Registration, condition: Condition, key: str | None, firing: Firing, at_ms: int
) -> tuple[bytes, bytes]:
    """Key and value of the record that an engine would write, in which JSON data keep their bytes.

    firing: its parts as `part_in_state` makes them. at_ms: when it was decided.
    """
    registered = Registered(registration, condition, 0, registration.since_ms)
    return action_of(registered, key or "", firing, at_ms, False, VERSION)


def part_in_state(part: Part, condition: Condition, key: str | None) -> Part:
    """The part as an engine's state contains it, large data replaced by a reference.

    part: its event with all attributes and data.
    """
    match = part.match
    event = by_reference(match.event, match.topic, match.partition, match.offset)
    written: str | None = None
    if event is not match.event and key is not None:
        written = written_by(condition, match.matchers, key, match.event)
    return msgspec.structs.replace(part, match=msgspec.structs.replace(match, event=event, written=written))
