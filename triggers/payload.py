"""What a trigger hands to the resumed task: small and strict JSON, whatever the events hold.

A payload that is not strict JSON stops the whole triggerer, and a large one blocks it for seconds. So the
firing travels as one JSON text inside it, in ASCII: no NaN, no NUL, no lone surrogate reaches the database.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from ..engine.records import ActionRecord, decode_json, encode_json
from ..engine.records.firing import fitted


class _Unshown(dict[str, Any]):
    """Is stored whole, and shows only which firing it is: Airflow logs what a trigger yields."""

    def __repr__(self) -> str:
        if self["action"] is None:
            return f"<{self['outcome']}>"
        action = Payload.from_json(self).action_record()
        return f"<firing {action.firing.id} of {action.subscription}: {action.firing.outcome}>"


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` "timeout" comes without a firing."""

    outcome: Literal["fired", "timeout"]
    action: str | None = None
    registration_keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The payload of a TriggerEvent; its `repr` has no data of events."""
        return _Unshown(
            outcome=self.outcome,
            action=self.action,
            registration_keys=list(self.registration_keys),
        )

    @classmethod
    def from_json(cls, payload: dict[str, Any]) -> Payload:
        return msgspec.convert(payload, cls)

    @classmethod
    def of_firing(cls, action: ActionRecord, registration_keys: tuple[str, ...]) -> Payload:
        text = json.dumps(json.loads(encode_json(fitted(action))))  # ASCII only, unlike msgspec's
        return cls(outcome="fired", action=text, registration_keys=registration_keys)

    def action_record(self) -> ActionRecord:
        """The firing; only for outcome "fired"."""
        return decode_json(ActionRecord, self.action or "", "The trigger's payload")
