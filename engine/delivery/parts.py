"""The classes that a deliverer is made of, and its environment. Tests plant faults here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from .acknowledgements import Acknowledgements
from .context import DelivererEnvironment, DeliveryLimits
from .dead_deliverers import DeadDeliverers
from .lanes import SinkLanes
from .noted_firings import NotedFirings
from .ownership import DelivererOwnership
from .partition import ActionPartition
from .scan import Scan
from .schedule import Schedule


@dataclass(frozen=True)
class DelivererParts:
    """What a deliverer is made of. Tests replace some of it."""

    limits: DeliveryLimits = field(default_factory=DeliveryLimits)
    environment: DelivererEnvironment = field(default_factory=DelivererEnvironment)
    lanes: type[SinkLanes] = SinkLanes
    ownership: type[DelivererOwnership] = DelivererOwnership
    partition: type[ActionPartition] = ActionPartition
    noted_firings: type[NotedFirings] = NotedFirings
    scan: type[Scan] = Scan
    schedule: type[Schedule] = Schedule
    acknowledgements: type[Acknowledgements] = Acknowledgements
    dead_deliverers: type[DeadDeliverers] = DeadDeliverers


PARTS: Final = DelivererParts()
