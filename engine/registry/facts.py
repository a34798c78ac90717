"""What a registry has beside the registrations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..bus import TopicPartition
from ..records import BusRecord
from .registry import Registered


class BusFacts(Protocol):
    """What questions ask about a bus: a `Registry`, or the `Subscriptions` of a read model."""

    @property
    def bus(self) -> BusRecord | None: ...
    @property
    def sinks(self) -> Mapping[str, bytes]:
        """{subscription: value of its sink record}."""

    @property
    def problems(self) -> Mapping[TopicPartition, str]: ...
    def by_name(self, subscription: str) -> Registered | None:
        """The registration in force of the subscription with this name."""
