"""Which records a pass may take while some are suspected of ending processes.

docs/understand/engine/suspects.md has the rules; `suspects.py` has the suspects of one partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from ...bus import End, Record, TopicPartition
from ...log import log
from ..outputs import Outputs
from ..stats import Stats
from .suspects import ONE_RECORD, Suspects, SuspectStage, ended_text


class Task(Protocol):
    """What a pass needs from the task of a partition."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def suspects(self) -> Suspects: ...

    def dead_letter(
        self, record: Record, reason: str, outputs: Outputs, now_ms: int, attempts: int
    ) -> None: ...


class Tasks(Protocol):
    """The tasks of an engine."""

    def tasks(self) -> Sequence[Task]: ...

    def task(self, tp: TopicPartition) -> Task: ...


class SuspectPasses:
    """Decides which records each pass of one engine may take.

    In each pass: call `begin`, commit the partitions that it returns, call `watch`, then `admits` before each
    record of a `watched` partition. `alone`: the pass takes one record and does nothing else; if the process
    ends, that record is the cause.
    """

    def __init__(self, tasks: Tasks, stats: Stats) -> None:
        self._tasks, self._stats = tasks, stats
        self._first: TopicPartition | None = None
        self._admitted: set[TopicPartition] = set()
        self.watched: AbstractSet[TopicPartition] = frozenset()
        self._taken: set[TopicPartition] = set()
        self.alone = False

    def begin(self, first: Record | End | None) -> list[TopicPartition]:
        """Begin a pass with this record. Returns the partitions to commit before it is tried."""
        self._first, self._admitted, self.alone = None, set(), False
        self._taken.clear()
        self.watch()
        if not self.watched:
            return []
        tasks = self._tasks.tasks()
        if not isinstance(first, Record):
            return [task.tp for task in tasks if task.suspects.must_withdraw]
        needed = False
        if first.source in self.watched:
            self._first = first.source
            suspects = self._of(first.source)
            needed = suspects.begin(first.offset)
            stage = suspects.stage
            self.alone = stage in ONE_RECORD
            self._stats.tried_alone += stage is SuspectStage.ALONE
        if self.alone:
            self._admitted = {first.source}
        else:
            self._admitted = {tp for tp in self.watched if self._of(tp).stage not in ONE_RECORD}
            for tp in self._admitted:
                self._of(tp).begin_group()
        return [
            task.tp
            for task in tasks
            if not task.suspects.names_owner
            or task.suspects.must_withdraw
            or (needed and task.tp == first.source)
        ]

    def watch(self) -> None:
        """Update `watched`."""
        self.watched = {task.tp for task in self._tasks.tasks() if task.suspects.watched}

    @property
    def must_stop(self) -> bool:
        """Whether the partition of the pass's first record has too many condemned records."""
        return self._first is not None and self._of(self._first).stage is SuspectStage.TOO_MANY

    @property
    def to_commit(self) -> AbstractSet[TopicPartition]:
        """Partitions that the pass must commit, so that the next owner knows the processed suspects."""
        return self.watched if self.alone else self._taken

    def admits(self, tp: TopicPartition) -> bool:
        """Whether this pass may take a record of a watched partition. If not, the next pass takes it."""
        return tp in self._admitted

    def dead_letter(self, record: Record, outputs: Outputs, now_ms: int) -> bool:
        """Send a condemned record to the dead-letter topic; False for any other record."""
        task = self._tasks.task(record.source)
        suspected = task.suspects.records
        if suspected is None or task.suspects.stage not in (SuspectStage.CONDEMNED, SuspectStage.TOO_MANY):
            return False
        reason = f"{ended_text(suspected)}."
        log.error("%s goes to the dead-letter topic. %s", record, reason)
        task.dead_letter(record, reason, outputs, now_ms, attempts=len(suspected.ended))
        task.suspects.dead_lettered(record.offset)
        return True

    def processed(self, tp: TopicPartition) -> bool:
        """Note that a record of a watched partition was processed; True if the pass must end."""
        suspects = self._of(tp)
        if suspects.records is None:
            return False
        self._taken.add(tp)
        if suspects.processed():
            self._admitted.discard(tp)
        return self.alone

    def _of(self, tp: TopicPartition) -> Suspects:
        return self._tasks.task(tp).suspects
