"""What a resource becomes: a subscription with a sink, or the reasons why it becomes none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..conditions import Condition
from .destinations import Destination
from .fields import FieldNote

NOWHERE: Final = Destination(None)


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """One resource as arguments of `deliver_dag` or `dispatch_dag`.

    arguments: beside name and condition, and conn_id of `deliver_dag`.
    left_out: fields without a counterpart here. differs: fields whose meaning is not quite the same, or that
    somebody must act on. refused: why there is no subscription; then condition is None.
    """

    resource: str
    name: str
    function: Literal["deliver_dag", "dispatch_dag"] = "deliver_dag"
    condition: Condition | None = None
    destination: Destination = NOWHERE
    arguments: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[FieldNote, ...] = ()
    differs: tuple[FieldNote, ...] = ()
    refused: tuple[FieldNote, ...] = ()

    @property
    def conn_id(self) -> str | None:
        """The connection of the sink; None for `dispatch_dag`."""
        return self.name if self.function == "deliver_dag" else None


@dataclass(frozen=True)
class Unread:
    """A resource that becomes no subscription, and why.

    is_other_version: it would have been read in another version of its API, so something is missing without
    it.
    """

    resource: str
    reason: str
    left_out: tuple[FieldNote, ...] = ()
    is_other_version: bool = False
