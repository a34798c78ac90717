"""The classes that a deliverer is made of, and what surrounds it: the seams at which tests plant faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from .acknowledgements import Acknowledgements
from .context import Limits, Surroundings
from .dead_deliverers import DeadDeliverers
from .lanes import SinkLanes
from .ownership import Ownership
from .partition import ActionPartition
from .schedule import Schedule


@dataclass(frozen=True)
class Parts:
    """What a deliverer is made of. Tests replace some classes to plant faults."""

    limits: Limits = field(default_factory=Limits)
    surroundings: Surroundings = field(default_factory=Surroundings)
    lanes: type[SinkLanes] = SinkLanes
    ownership: type[Ownership] = Ownership
    partition: type[ActionPartition] = ActionPartition
    schedule: type[Schedule] = Schedule
    acknowledgements: type[Acknowledgements] = Acknowledgements
    dead: type[DeadDeliverers] = DeadDeliverers


PARTS: Final = Parts()
