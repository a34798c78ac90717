"""Trials: what a pass must say, and leave out, where records are suspected of ending processes.

docs/understand/engine/suspects.md has the rules. `attempts.py` has what is known of one partition.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ...bus import End, Record, TopicPartition
from ...log import log
from ..outputs import Outputs
from ..partitions.ownership import Ownership
from ..stats import Stats
from ..tasks.source_task import SourceTask
from ..tasks.trigger_task import TriggerTask
from .suspects import told


class Trials:
    """Of one engine, pass by pass: `begin`, commit what it names, `watch`; then ask of each watched record.

    `watched`: partitions whose records must be asked for. `alone`: the pass takes one record and does
    nothing else, so that what ends the process now is that record.
    """

    def __init__(self, ownership: Ownership, stats: Stats) -> None:
        self._ownership, self._stats = ownership, stats
        self._begun: TopicPartition | None = None
        self._admitted: set[TopicPartition] = set()
        self.watched: AbstractSet[TopicPartition] = frozenset()
        self._taken: set[TopicPartition] = set()
        self.alone = False

    def begin(self, first: Record | End | None) -> list[SourceTask | TriggerTask]:
        """A pass begins with this; whose commits must precede it, lest its end went unnoticed."""
        self._begun, self._admitted, self.alone = None, set(), False
        self._taken.clear()
        self.watch()
        if not self.watched:
            return []
        if not isinstance(first, Record):
            return [task for task in self._ownership.tasks() if task.attempts.outlived]
        needed = False
        if first.source in self.watched:
            self._begun = first.source
            attempts = self._task(first.source).attempts
            needed = attempts.begin(first.offset)
            self.alone = attempts.alone
            self._stats.tried_alone += self.alone and not attempts.condemned
        if self.alone:
            self._admitted = {first.source}
        else:
            self._admitted = {tp for tp in self.watched if not self._task(tp).attempts.alone}
            for tp in self._admitted:
                self._task(tp).attempts.begin_wide()
        return [
            task
            for task in self._ownership.tasks()
            if not task.attempts.noted or task.attempts.outlived or (needed and task.tp == first.source)
        ]

    def watch(self) -> None:
        """Look which partitions are to be asked for."""
        self.watched = {task.tp for task in self._ownership.tasks() if task.attempts.watched}

    @property
    def full(self) -> bool:
        """Whether the record at hand would be one too many to be set aside: its partition is to stop."""
        return self._begun is not None and self._task(self._begun).attempts.full

    @property
    def to_commit(self) -> AbstractSet[TopicPartition]:
        """Suspected partitions of which the pass took records, or for which it took one alone.

        It must commit them: else the next owner would not know how many were taken.
        """
        return self.watched if self.alone else self._taken

    def admits(self, tp: TopicPartition) -> bool:
        """Whether this pass may take a record of a watched partition; else it waits for the next one."""
        return tp in self._admitted

    def set_aside(self, record: Record, outputs: Outputs, now_ms: int) -> bool:
        """Move past a record on which too many processes have ended; False for any other."""
        task = self._task(record.source)
        trial = task.attempts.trial
        if trial is None or not task.attempts.condemned:
            return False
        reason = f"While it was tried alone, {told(trial)}."
        log.error("%s goes to the dead-letter topic. %s", record, reason)
        task.set_aside(record, reason, outputs, now_ms, attempts=len(trial.ended))
        task.attempts.set_aside(record.offset)
        return True

    def passed(self, tp: TopicPartition) -> bool:
        """A record of a watched partition was worked on; True where the pass ends with it."""
        attempts = self._task(tp).attempts
        if attempts.trial is None:
            return False
        self._taken.add(tp)
        if attempts.passed():
            self._admitted.discard(tp)
        return self.alone

    def _task(self, tp: TopicPartition) -> SourceTask | TriggerTask:
        return self._ownership.sources.get(tp) or self._ownership.triggers[tp]
