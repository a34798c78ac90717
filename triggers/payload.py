"""The payload that a trigger passes to the resumed task: small and strict JSON, whatever the events contain.

A payload that is not strict JSON stops the whole triggerer, and a large one blocks it for seconds. So the
payload contains the firing as one ASCII JSON text: no NaN, NUL or lone surrogate reaches the database.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from ..engine.records import ActionRecord, decode_json, encode_json
from ..engine.records.firing_fit import fit_action


class _ShortRepr(dict[str, Any]):
    """Its `repr` only names the firing, without event data: Airflow logs what a trigger yields."""

    def __repr__(self) -> str:
        if self["action"] is None:
            return f"<{self['outcome']}>"
        action = Payload.from_json(self).action_record()
        return f"<firing {action.firing.id} of {action.subscription}: {action.firing.outcome}>"


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What a wait's trigger passes to its task.

    outcome: "fired", or "timeout" without a firing. action: the firing's record as JSON; None for "timeout".
    registration_keys: keys of the wait's records in the subscription topic, which the task removes.
    traceparent: of the firing's span; "" without a tracer.
    """

    outcome: Literal["fired", "timeout"]
    action: str | None = None
    registration_keys: tuple[str, ...] = ()
    traceparent: str = ""

    def to_json(self) -> dict[str, Any]:
        """The payload of a TriggerEvent; its `repr` has no data of events."""
        form = _ShortRepr(
            outcome=self.outcome,
            action=self.action,
            registration_keys=list(self.registration_keys),
        )
        if self.traceparent:
            form["traceparent"] = self.traceparent
        return form

    @classmethod
    def from_json(cls, payload: dict[str, Any]) -> Payload:
        return msgspec.convert(payload, cls)

    @classmethod
    def of_firing(
        cls, action: ActionRecord, registration_keys: tuple[str, ...], traceparent: str = ""
    ) -> Payload:
        """Returns the payload of a firing, which is cut to the size that tasks get (`fit_action`)."""
        text = json.dumps(json.loads(encode_json(fit_action(action))))  # ASCII only; msgspec writes UTF-8
        return cls(outcome="fired", action=text, registration_keys=registration_keys, traceparent=traceparent)

    def action_record(self) -> ActionRecord:
        """Returns the firing; only for outcome "fired"."""
        return decode_json(ActionRecord, self.action or "", "The trigger's payload")
