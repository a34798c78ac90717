"""What a trigger hands to the resumed task: small and strict JSON, whatever the events hold.

A payload that is not strict JSON stops the whole triggerer, and a large one blocks it for seconds. So the
firing travels as one JSON text inside it, in ASCII: no NaN, no NUL, no lone surrogate reaches the database.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from ..engine.records import ActionRecord, Firing, decode_json, encode_json

MAX_BYTES = 48 * 1024
_ALWAYS_KEPT = ("specversion", "id", "source", "type", "subject", "time", "dataref")


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` "timeout" comes without a firing."""

    outcome: Literal["fired", "timeout"]
    action: str | None = None
    registration_keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The payload of a TriggerEvent."""
        return {
            "outcome": self.outcome,
            "action": self.action,
            "registration_keys": list(self.registration_keys),
        }

    @classmethod
    def from_json(cls, payload: dict[str, Any]) -> Payload:
        return msgspec.convert(payload, cls)

    @classmethod
    def of_firing(cls, action: ActionRecord, registration_keys: tuple[str, ...]) -> Payload:
        fitted = msgspec.structs.replace(action, firing=fit(action.firing))
        text = json.dumps(json.loads(encode_json(fitted)))  # ASCII only, unlike msgspec's
        return cls(outcome="fired", action=text, registration_keys=registration_keys)

    def action_record(self) -> ActionRecord:
        """The firing; only for outcome "fired"."""
        return decode_json(ActionRecord, self.action or "", "The trigger's payload")


def fit(firing: Firing, most: int = MAX_BYTES) -> Firing:
    """The same firing in at most `most` bytes.

    Where it is larger, the events' data are replaced, largest first, by a `dataref`
    (`kafka:topic/partition/offset`, the claim check of CloudEvents); where that does not suffice, extension
    attributes are left out as well.
    """
    size = len(encode_json(firing))
    if size <= most:
        return firing
    slots = [(label, n) for label, events in firing.events.items() for n in range(len(events))]
    events = {label: list(together) for label, together in firing.events.items()}
    slots.sort(key=lambda slot: len(msgspec.json.encode(events[slot[0]][slot[1]])), reverse=True)
    for keep_extensions in (True, False):
        for label, n in slots:
            if size <= most:
                break
            event = events[label][n]
            origin = firing.origins[label][n]
            small = {
                name: value
                for name, value in event.items()
                if name in _ALWAYS_KEPT or (keep_extensions and name not in ("data", "data_base64"))
            }
            small["dataref"] = f"kafka:{origin['topic']}/{origin['partition']}/{origin['offset']}"
            size -= len(msgspec.json.encode(event)) - len(msgspec.json.encode(small))
            events[label][n] = small
    return msgspec.structs.replace(firing, events=events)
