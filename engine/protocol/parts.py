"""The classes and decisions that make up an engine; a test can replace any of them.

To show that a rule matters, a test removes the rule and expects a failure. It plants this fault here, as a
subclass that overrides one public method:

    class NeverReady(Progress):
        def ready(self, offset: int) -> bool:
            return True

    Engine(bus, config, parts=EngineParts(progress=NeverReady))

Three rules for planted faults:

1. Override public methods only. If a decision has no public method, give it one whose docstring names the
   decision; do not patch private names.
2. Call `super()` for everything but the fault, and keep the fault's data in the instance or in the test.
3. If a fault needs values of its own, pass a function in place of the class: each field is a callable with
   the arguments of the class.

To remove a rule of the loop (`Engine.open_again`, `Engine.begin_suspects`), subclass `Engine`. Pass parts and
engine to `tests.kit.pool.Pool` or `tests.simulation.world.World` in a `tests.kit.made_of.MadeOf`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..bus import Committed, TopicPartition
from ..config import BusConfig
from ..records import OffsetMetadata
from ..registry.pause import ReadPause
from ..registry.registry import Registry
from .context import Clocks, EngineContext, EngineLimits
from .housekeeping import Housekeeping
from .lookback.gaps import Gaps
from .lookback.scanning import Scanning
from .outputs import Outputs
from .partitions.fencing import Fencing
from .partitions.listed_topics import ListedTopics
from .partitions.offsets import OffsetChecks
from .partitions.ownership import Ownership, is_mine
from .partitions.recovery import Recovery
from .partitions.registry_reader import RegistryReader
from .poison.passes import SuspectPasses
from .poison.refusals import Refusals
from .poison.suspects import Suspects
from .problems import Problems
from .stats import Stats
from .tasks.evaluator import Evaluator
from .tasks.scans import Scans
from .tasks.source_task import SourceTask
from .tasks.start import TaskStart
from .tasks.store import Store
from .tasks.trigger_task import TriggerTask
from .timers.cut import Cuts
from .timers.progress import Progress


@dataclass(frozen=True, kw_only=True)
class EngineParts:
    """What makes up an engine; the defaults are the real parts.

    An engine makes each part once, except the tasks and what belongs to a task (`scans`, `suspects`, `store`,
    `evaluator`), `recovery` (for each takeover) and `outputs` (for each transaction).
    """

    clocks: Clocks = field(default_factory=Clocks)
    limits: EngineLimits = field(default_factory=EngineLimits)

    registry: Callable[[], Registry] = Registry
    registry_reader: Callable[[EngineContext], RegistryReader] = RegistryReader
    read_pause: Callable[[TopicPartition, Callable[[], float], Callable[[], float]], ReadPause] = ReadPause

    listed_topics: Callable[[EngineContext], ListedTopics] = ListedTopics
    fencing: Callable[[EngineContext], Fencing] = Fencing
    ownership: Callable[[EngineContext, RegistryReader, Fencing, ListedTopics], Ownership] = Ownership
    recovery: Callable[
        [EngineContext, Mapping[TopicPartition, TriggerTask], Mapping[TopicPartition, int]], Recovery
    ] = Recovery
    offsets: Callable[[EngineContext], OffsetChecks] = OffsetChecks
    # Whether a task that was kept over a rebalance may continue from the offset committed now.
    is_mine: Callable[[SourceTask | TriggerTask, Committed | None], bool] = is_mine

    source_task: Callable[[TaskStart, EngineContext], SourceTask] = SourceTask
    trigger_task: Callable[[TaskStart, EngineContext], TriggerTask] = TriggerTask
    scans: Callable[[list[tuple[int, int, int]]], Scans] = Scans
    store: Callable[[], Store] = Store
    evaluator: Callable[[TaskStart, Store, EngineContext], Evaluator] = Evaluator
    outputs: Callable[[BusConfig, int], Outputs] = Outputs

    suspects: Callable[[OffsetMetadata], Suspects] = Suspects
    passes: Callable[[Ownership, Stats], SuspectPasses] = SuspectPasses
    refusals: Callable[[EngineContext, Ownership], Refusals] = Refusals

    gaps: Callable[[EngineContext], Gaps] = Gaps
    scanning: Callable[[EngineContext, Gaps], Scanning] = Scanning
    cuts: Callable[[EngineContext, ListedTopics], Cuts] = Cuts
    progress: Callable[[], Progress] = Progress

    housekeeping: Callable[[EngineContext, Ownership, Fencing, Callable[[], None]], Housekeeping] = (
        Housekeeping
    )
    problems: Callable[[EngineContext, Ownership, Gaps, Cuts], Problems] = Problems


PARTS: Final = EngineParts()
