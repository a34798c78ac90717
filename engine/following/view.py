"""What questions about subscriptions need: from a read of Kafka, or from a read model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ..config import BusConfig
from ..registry.registry import Registered
from .fired import Fired
from .firings import DurableFirings
from .states import Pending
from .subscriptions import Subscriptions


class BusView(Protocol):
    """A bus as it is now, for the functions of `engine.admin`: commands and the page ask the same ones.

    `KafkaView` reads the topics for each question, `ReadModel` has followed them. Methods raise EngineError
    if something cannot be read.
    """

    config: BusConfig

    @property
    def subscriptions(self) -> Subscriptions:
        """Those that are registered, and who holds them."""

    def pending_of(self, wanted: Collection[Registered], key: str | None = None) -> Mapping[str, Pending]:
        """{incarnation: what is pending} of these subscriptions. key: of this key only."""

    def fired_wait(self, name: str) -> Fired | None:
        """The last firing of a one-shot subscription, registered or not.

        name: with or without the deployment, or a part of it. Raises EngineError if several names contain it.
        """

    def durable_firings(self, registered: Registered) -> DurableFirings:
        """The firings of a durable subscription."""
