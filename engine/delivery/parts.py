"""The classes that a deliverer is made of, and its surroundings. Tests plant faults here."""

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
    """What a deliverer is made of. Tests replace some of it."""

    limits: Limits = field(default_factory=Limits)
    surroundings: Surroundings = field(default_factory=Surroundings)
    lanes: type[SinkLanes] = SinkLanes
    ownership: type[Ownership] = Ownership
    partition: type[ActionPartition] = ActionPartition
    schedule: type[Schedule] = Schedule
    acknowledgements: type[Acknowledgements] = Acknowledgements
    dead_deliverers: type[DeadDeliverers] = DeadDeliverers


PARTS: Final = Parts()
