"""Ownership: the partitions that the group assigned to this engine, and taking them over.

docs/understand/engine/takeover.md has the numbered steps.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ....conditions.explanation.wording import counted
from ...bus import Committed, Topic, TopicPartition
from ...log import at, log
from ...records import OffsetMetadata, ResumeRecord, encode_json
from ..context import EngineContext
from ..poison.suspects import is_usual, takeover_text
from ..tasks.source_task import SourceTask
from ..tasks.start import TaskStart
from ..tasks.trigger_task import TriggerTask
from .fencing import Fencing
from .lifecycle import BLOCKED, OPEN, PAUSED, RECOVERING, STOPPED, Lifecycle, PartitionState
from .listed_topics import ListedTopics
from .missing_records import (
    HALF_MET,
    inspect_commit,
    metadata_of,
    paused_text,
    predates_listing,
    require_whole,
    stopped_text,
    unreadable_match_text,
    unreadable_state_text,
)
from .recovery import Recovery
from .registry_reader import RegistryReader

RETRY_UNREADABLE_S: Final = 300.0  # between two tries to read states and matches that could not be read
REPORT_AFTER_S: Final = 30.0  # brokers end a dead engine's transaction after its timeout of 15 s, plus 10 s


@dataclass
class _Takeover:
    """A running takeover. `again`: another one must follow."""

    partitions: tuple[TopicPartition, ...]
    began: float
    recovery: Recovery | None = None
    again: bool = False
    block_reported: bool = False


@dataclass
class _Start:
    """Where this engine begins to read a partition."""

    committed: Committed
    topic_id: str


class Ownership:
    """The partitions assigned to this engine.

    `lifecycle`: their states. `sources`, `triggers`: the tasks of open and recovering partitions.
    `without_source_record`: partitions whose next commit must write a source record.
    """

    def __init__(
        self,
        context: EngineContext,
        registry_reader: RegistryReader,
        fencing: Fencing,
        listed: ListedTopics,
    ) -> None:
        self._context, self._parts = context, context.parts
        self.bus, self._config, self._registry = context.bus, context.config, context.registry
        self._stats, self._monotonic = context.stats, context.monotonic
        self._registry_reader, self._fencing, self.listed = registry_reader, fencing, listed
        self.sources: dict[TopicPartition, SourceTask] = {}
        self.triggers: dict[TopicPartition, TriggerTask] = {}
        self.lifecycle = Lifecycle(self._monotonic)
        self.without_source_record: set[TopicPartition] = set()
        self._takeover: _Takeover | None = None
        self._kept: dict[TopicPartition, SourceTask | TriggerTask] = {}  # of the previous assignment
        self._taken_over = False  # what the group assigned last; False after a loss
        # {trigger partition: subscriptions that need a state record that cannot be read}
        self._unreadable_states: dict[TopicPartition, frozenset[str]] = {}
        self._removed: set[str] = set()  # subscriptions among these whose registration was removed since
        # {trigger partition: why its next match cannot be read}
        self._unreadable_matches: dict[TopicPartition, str] = {}
        self._paused_at = 0.0  # when a partition was last paused for such a state or match

    @property
    def is_open(self) -> bool:
        """Whether the group has assigned partitions (or none), and no takeover is running."""
        return self._taken_over and self._takeover is None

    @property
    def taking_over(self) -> bool:
        return self._takeover is not None

    @property
    def unread(self) -> dict[TopicPartition, str]:
        """{paused or stopped partition: why it is not read}."""
        return self.lifecycle.reasons

    @property
    def blocked(self) -> str | None:
        """Why the takeover has been waiting for long; None if it has not."""
        takeover = self._takeover
        blocked = sorted(self.lifecycle.among(BLOCKED))
        if takeover is None or takeover.recovery is not None or not blocked:
            return None
        first, *others = blocked
        since = self.lifecycle.since(first)
        if since is None or self._monotonic() - since <= REPORT_AFTER_S:
            return None
        rest = counted(len(others), "other partition", "other partitions")
        which = f"{first} and {rest}" if others else f"{first}"
        return (
            f"{which} cannot be taken over yet: a transaction of an earlier engine is open. The brokers end "
            "it after its timeout; if it stays open, find and end it with Kafka's `kafka-transactions.sh`."
        )

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions of this engine, once they are taken over."""
        return (*self.sources, *self.triggers, *self.lifecycle.reasons)

    def task(self, tp: TopicPartition) -> SourceTask | TriggerTask:
        """The task of a partition; KeyError if it has none."""
        return self.sources.get(tp) or self.triggers[tp]

    def tasks(self) -> list[SourceTask | TriggerTask]:
        return [*self.sources.values(), *self.triggers.values()]

    def note_removed(self, subscription: str) -> bool:
        """Note that a registration was removed. True if a partition is paused for its unreadable state.

        The next takeover then drops that state, even if the same wait has registered again since.
        """
        if not any(subscription in names for names in self._unreadable_states.values()):
            return False
        self._removed.add(subscription)
        return True

    def note_unreadable_match(self, tp: TopicPartition, reason: str) -> None:
        """Let the next takeover pause a trigger partition: another version wrote its next match."""
        self._unreadable_matches[tp] = reason
        self._paused_at = self._monotonic()

    def may_retry_unreadable(self) -> bool:
        """Whether to take over again what is paused for unreadable records: they may be mended."""
        is_due = self._monotonic() - self._paused_at >= RETRY_UNREADABLE_S
        if not is_due or not (self._unreadable_states or self._unreadable_matches):
            return False
        self._unreadable_matches.clear()
        return True

    def lose(self) -> None:
        """The group took all partitions away. Tasks are kept: what comes back unchanged needs no recovery."""
        self._release()
        self._unreadable_states.clear()
        self._unreadable_matches.clear()
        self.lifecycle.assign(())
        self._takeover, self._taken_over = None, False

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """The group assigned these partitions; `open` takes them over."""
        self._release()
        self.lifecycle.assign(partitions)
        self._takeover = _Takeover(partitions, self._monotonic())

    def reopen(self) -> None:
        """Take over all partitions again, after a running takeover: one may have to stop, or can continue."""
        if self._takeover is None:
            self.assign(self.assigned)
        else:
            self._takeover.again = True

    def _release(self) -> None:
        """Keep the tasks for the next takeover, and end a running one."""
        if self._takeover is None or self._takeover.recovery is None:  # else states are loaded in part
            for task in self.tasks():
                task.rollback()
                self._kept[task.tp] = task
        self.sources, self.triggers = {}, {}
        self.close()

    def rollback(self) -> None:
        """After an aborted transaction: return to the committed offsets, without reading states again."""
        for task in self.tasks():
            task.rollback()
        self.start()

    def start(self) -> None:
        """Let the bus fetch each partition with a task from its position."""
        self.bus.start({task.tp: task.position for task in self.tasks()})

    def stop(self, tp: TopicPartition, reason: str) -> None:
        """Do not read this partition until an administrator resumes it."""
        self._close(tp, STOPPED, stopped_text(self._config, tp, reason))

    def pause(self, tp: TopicPartition, reason: str) -> None:
        """Do not read this partition until `reopen`: the reason may pass by itself."""
        self._close(tp, PAUSED, paused_text(tp, reason))

    def _close(self, tp: TopicPartition, to: PartitionState, text: str) -> None:
        with at(*tp):
            log.error("%s", text)
        self.lifecycle.move(tp, to, text)
        self.sources.pop(tp, None)
        self.triggers.pop(tp, None)

    def close(self) -> None:
        """Close the reader of a running takeover."""
        if self._takeover is not None and self._takeover.recovery is not None:
            self._takeover.recovery.close()
            self._takeover.recovery = None

    # -- taking over

    def open(self) -> bool:
        """Do a part of the takeover, in each pass; True when all is taken over."""
        takeover = self._takeover
        if takeover is None:
            return True
        if takeover.recovery is None:
            # 1. Get the stable offsets; only then, 2. the ends of the state partitions.
            readable = [tp for tp in takeover.partitions if tp.topic not in self.listed.unreadable]
            committed = self.stable_offsets(readable)
            if committed is None:
                self._fencing.note_blocked(readable)
                self._report_blocked(takeover)
                return False  # the former owner's transaction is open: it will end, time out or be fenced
            self.lifecycle.move_all(takeover.partitions, RECOVERING)
            takeover.recovery = self._begin(takeover.partitions, committed)
            self._fencing.note_committers(committed.values())
        # 3. Read the state partitions up to those ends.
        if not takeover.recovery.advance():
            if takeover.recovery.blocked:
                self._fencing.note_blocked(takeover.partitions)
                self.lifecycle.move_all(self.lifecycle.among(RECOVERING), BLOCKED)
            else:
                self.lifecycle.move_all(self.lifecycle.among(BLOCKED), RECOVERING)
            return False
        self.lifecycle.move_all(self.lifecycle.among(BLOCKED), RECOVERING)
        # 4. Read the registry as far as the former owner had.
        for task in self.tasks():
            self._registry_reader.catch_up(task.applied)
        if any(trigger.has_unreadable for trigger in self.triggers.values()):
            self._registry_reader.read_to_end()  # a state's registration may not be read yet
        self._unreadable_states.clear()
        for trigger in list(self.triggers.values()):
            # Kept tasks too: registrations may have been removed meanwhile.
            trigger.recovered(self._removed)
            if trigger.unreadable_states:
                self._unreadable_states[trigger.tp] = frozenset(trigger.unreadable_states)
                self._paused_at = self._monotonic()
                self.pause(trigger.tp, unreadable_state_text(self._config, trigger.unreadable_states))
        for tp in self._unreadable_matches.keys() & self.triggers.keys():
            self.pause(tp, unreadable_match_text(self._config, tp, self._unreadable_matches[tp]))
        if not self._unreadable_states:
            self._removed.clear()
        # 5. Start fetching.
        self.close()
        self._fencing.note_unblocked()
        self.start()
        self.lifecycle.move_all((task.tp for task in self.tasks()), OPEN)
        self._stats.recovery_s = self._monotonic() - takeover.began
        log.info(
            "Engine %s owns %d source and %d trigger partitions of bus %r.",
            self.bus.transactional_id,
            len(self.sources),
            len(self.triggers),
            self._config.name,
        )
        self._takeover, self._kept = None, {}
        self._taken_over = True
        if takeover.again:
            self.reopen()
        return not self.taking_over

    def _report_blocked(self, takeover: _Takeover) -> None:
        self.lifecycle.move_all(takeover.partitions, BLOCKED)
        text = self.blocked
        if text is not None and not takeover.block_reported:
            takeover.block_reported = True
            log.warning("%s", text)

    def _begin(
        self,
        partitions: Collection[TopicPartition],
        committed: Mapping[TopicPartition, Committed | None],
    ) -> Recovery:
        """Make the tasks, and a recovery for those whose states must be read."""
        if any(found is not None and tp not in self._registry.sources for tp, found in committed.items()):
            # A partition's first commit writes its source record, which this engine may not have read yet.
            self._registry_reader.read_to_end()
        topics = self.bus.topics(sorted({tp.topic for tp in committed}))
        self.listed.update(topics)
        unreadable = self.listed.unreadable
        for tp in partitions:
            if tp.topic in unreadable:
                self.pause(tp, unreadable[tp.topic])
        existing = [tp for tp in committed if topics.get(tp.topic) is not None and tp.topic not in unreadable]
        lows, highs = self.bus.start_offsets(existing), self.bus.end_offsets(existing)
        new: dict[TopicPartition, TriggerTask] = {}
        for tp, found in committed.items():
            if tp.topic in unreadable:
                continue
            start = self._starting(tp, found, topics.get(tp.topic), lows.get(tp, 0), highs.get(tp, 0))
            if start is None:
                self._kept.pop(tp, None)
                continue
            kept = self._kept.get(tp)
            if kept is not None and start.committed is found and self._parts.is_mine(kept, found):
                self._take(kept)
                if kept.suspects.names_owner:
                    continue  # no other process has tried the records since
            else:
                self._kept.pop(tp, None)
                self._make(tp, start, new)
            if found is not None and start.committed is found:
                self._take_over_suspects(tp, found, unread=highs[tp] > found.offset)
        state = self._config.topic("state")
        states = {TopicPartition(state, tp.partition): task for tp, task in new.items()}
        require_whole(self.bus, states, HALF_MET)
        ends = self.state_ends(states)  # before the recovery opens a reader: this may raise
        return self._parts.recovery(self._context, states, ends)

    def stable_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Committed | None] | None:
        """Step 1: the committed offsets; None while an open transaction holds one of them."""
        return self.bus.committed(partitions)

    def state_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Step 2: the ends of the state partitions, open transactions included."""
        return self.bus.end_offsets(partitions)

    def _make(self, tp: TopicPartition, start: _Start, new: dict[TopicPartition, TriggerTask]) -> None:
        """Make the task of a partition, and add a trigger task to `new`: its states must be read."""
        listed = tp.topic not in (self._config.topic("event"), self._config.topic("trigger"))
        resume = self._registry.resumes.get(tp)
        resumed = 0 if resume is None else resume[0] + 1
        task_start = TaskStart(tp, start.committed, self._context.partitions, start.topic_id, listed, resumed)
        if tp.topic == self._config.topic("trigger"):
            self.triggers[tp] = new[tp] = self._parts.trigger_task(task_start, self._context)
        else:
            self.sources[tp] = self._parts.source_task(task_start, self._context)

    def _take_over_suspects(self, tp: TopicPartition, found: Committed, *, unread: bool) -> None:
        """Let the partition's task conclude, and log, whether records may have ended the former owner."""
        metadata, suspects = metadata_of(found), self.task(tp).suspects
        own, members = self.bus.transactional_id, self._fencing.members
        suspects.take_over(metadata, found.offset, own, members, unread=unread)
        if suspects.records is not None:
            level = logging.DEBUG if is_usual(suspects.records) else logging.INFO
            log.log(level, "%s", takeover_text(tp, metadata.committer, suspects.records))

    def _take(self, task: SourceTask | TriggerTask) -> None:
        if isinstance(task, SourceTask):
            self.sources[task.tp] = task
        else:
            self.triggers[task.tp] = task

    def _starting(
        self, tp: TopicPartition, found: Committed | None, topic: Topic | None, low: int, high: int
    ) -> _Start | None:
        """Where to begin; None if the partition stops: records are missing, or its topic was recreated."""
        if topic is None:
            self.stop(tp, "its topic does not exist.")
            return None
        resumption = self._registry.resumption(tp)
        if resumption is not None and resumption.topic_id != topic.id:
            resumption = None
        listed = tp.topic not in (self._config.topic("event"), self._config.topic("trigger"))
        in_use = tp in self._registry.sources
        known = inspect_commit(found, topic.id, low, high, in_use=in_use, listed=listed)
        if self._registry.position < known.metadata.applied:
            self._registry_reader.read_to_end()
            end = self._registry.position
            known = inspect_commit(found, topic.id, low, high, in_use=in_use, listed=listed, registry_end=end)
        if known.lost is not None:
            if resumption is None:
                self.stop(tp, known.lost)
                return None
            return self._resumed(tp, resumption, known.metadata, found, low, high)
        if found is not None and not predates_listing(found, in_use=in_use, listed=listed):
            return _Start(found, topic.id)
        self.without_source_record.add(tp)
        return _Start(Committed(high if listed else low, ""), topic.id)

    def _resumed(
        self,
        tp: TopicPartition,
        resumption: ResumeRecord,
        metadata: OffsetMetadata,
        found: Committed | None,
        low: int,
        high: int,
    ) -> _Start:
        """Begin where an administrator said. Scans continue with the unread records that still exist.

        Suspects and claimed offsets are forgotten.
        """
        self._unreadable_matches.pop(tp, None)
        offset = min(max(resumption.offset, low), high)
        unread = low if found is None else max(low, found.offset)
        if metadata.topic_id not in ("", resumption.topic_id):
            metadata, unread = OffsetMetadata(applied=0), low
        if not metadata.applied and offset > unread and tp.topic != self._config.topic("trigger"):
            # What registrations have seen is unknown, and look-backs must not read the records to be skipped.
            applied, _ = self._registry.resumes[tp]
            metadata = OffsetMetadata(applied=applied)
        groups = [(start, end, min(max(at, low), offset)) for start, end, at in metadata.scans]
        with at(*tp, offset):
            log.warning("%s continues at offset %d, set by an administrator.", tp, offset)
        self.without_source_record.add(tp)
        kept = OffsetMetadata(applied=metadata.applied, scans=groups, topic_id=resumption.topic_id)
        text = encode_json(kept).decode() if metadata.applied else ""  # without R there are no scans either
        return _Start(Committed(offset, text), resumption.topic_id)


def is_mine(task: SourceTask | TriggerTask, found: Committed | None) -> bool:
    """Whether this engine, with this task, made the last commit of the partition."""
    if found is None:
        return False
    metadata = metadata_of(found)
    return bool(metadata.committer) and (metadata.committer, metadata.transaction) == task.last
