"""An engine's transactions: what each holds, when it is due, and what follows from its commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ..bus import TopicPartition
from ..records import SourceRecord, encode_json, registry_key
from .context import EngineContext
from .outputs import Outputs
from .partitions.ownership import Ownership
from .tasks.source_task import SourceTask
from .tasks.trigger_task import TriggerTask
from .timers.cut import Cuts

# Positions that moved without output are committed within this time, so a crash repeats little.
LAZY_S: Final = 0.2
REGISTRY_S: Final = 1.0


class Commits:
    """The transactions of one engine, one after the other. Each has offsets, because they fence it."""

    def __init__(self, context: EngineContext, ownership: Ownership, cuts: Cuts) -> None:
        self._context, self._bus, self._monotonic = context, context.bus, context.monotonic
        self._stats, self._clock = context.stats, context.clock
        self._ownership, self._cuts = ownership, cuts
        # The number of the transaction, in metadata. No engine with this id has used it before.
        self._number = int(context.wall() * 1000)
        self._last = self._last_with_registry = self._monotonic()
        self._counted = self._stats.counted()  # at the last commit

    def new_outputs(self) -> Outputs:
        """Returns the next transaction, which is empty: without outputs and without offsets."""
        return self._context.parts.outputs(self._context.config, self._context.registry.version)

    def gather(self, outputs: Outputs, touched: Collection[TopicPartition]) -> bool:
        """Put the offsets of changed partitions into the transaction; False: the commit can wait.

        All positions that moved go into it, because the outputs follow from them. So do those of `touched`:
        a scan that began and ended in this pass writes outputs without moving a position.
        """
        ownership = self._ownership
        waited = self._monotonic() - self._last
        urgent = bool(outputs.records or touched) or any(t.writes for t in ownership.triggers.values())
        if not urgent and waited < (0 if self._cuts.wants_commits else LAZY_S):
            return False
        # Idle partitions also commit a new registry position within a second: timers of registrations wait
        # for it.
        registry_due = self._monotonic() - self._last_with_registry >= REGISTRY_S
        changed = [
            task
            for task in ownership.tasks()
            if task.changed
            or task.tp in touched
            or task.tp in ownership.without_source_record
            or (registry_due and task.behind)
        ]
        if not changed:
            if not urgent:
                return False
            changed = ownership.tasks()  # a transaction is fenced by its offsets
        self._add_offsets(outputs, changed)
        return bool(outputs)

    def offsets_of(self, partitions: Collection[TopicPartition]) -> Outputs:
        """Returns a transaction of offsets alone: those of these partitions and of all changed ones."""
        outputs = self.new_outputs()
        self._add_offsets(outputs, [t for t in self._ownership.tasks() if t.tp in partitions or t.changed])
        return outputs

    def _add_offsets(self, outputs: Outputs, tasks: Iterable[SourceTask | TriggerTask]) -> None:
        self._number += 1
        for task in tasks:
            task.commit_into(outputs, self._bus.transactional_id, self._number)
            if task.tp in self._ownership.without_source_record:
                record = SourceRecord(v=outputs.version, topic_id=task.topic_id)
                key = registry_key("source", task.tp.topic, task.tp.partition)
                outputs.write("subscription", 0, key, encode_json(record))

    def send(self, outputs: Outputs, membership: object) -> None:
        """Steps 3 to 6 of a pass (see `loop`). Raises TransactionAborted if nothing is committed."""
        began = self._monotonic()
        stamped = self._bus.commit(outputs.records, outputs.offsets, membership)
        # 6. Only now the states in memory are those in Kafka.
        self._last = self._monotonic()
        self._stats.transactions += 1
        self._stats.sample(self._stats.transaction_s, self._last - began)
        if stamped is not None:
            self._clock.observe(stamped)
        tasks = self._ownership.tasks()
        for task in tasks:
            if task.tp in outputs.offsets:
                task.committed()
        if not any(task.behind for task in tasks):
            self._last_with_registry = self._last
        self._ownership.without_source_record -= outputs.offsets.keys()
        self._counted = self._stats.counted()

    def take_back_counts(self) -> None:
        """Set the counters back to the last commit, because the work since then is forgotten."""
        self._stats.take_back(self._counted)
