"""The cut: the positions up to which an engine must read so that no match stamped before a time can arrive.

docs/understand/engine/timers.md has the numbered steps. One cut at a time serves all trigger partitions of
an engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...bus import Topic, TopicPartition
from ...errors import RecordError
from ...log import log
from ...records import CLOCK_KEY, CLOCK_VALUE, OffsetMetadata
from ..context import EngineContext
from ..outputs import Outputs
from ..partitions.listed_topics import ListedTopics
from ..partitions.missing_records import metadata_of
from ..tasks.trigger_task import TriggerTask

PATIENCE_S: Final = 600.0
CLOSING_S: Final = 1.0  # at least, between cuts that only close keys, and after a cut that left keys due
PAUSE_S: Final = 0.1  # at least, between two cuts
CHECK_S: Final = 0.05  # between two checks of the committed offsets
UNREAD_S: Final = 1.0  # between two checks of a topic that cannot be read
REPORT_AFTER_S: Final = 30.0


@dataclass
class Cut:
    """A cut in progress: its time, and the positions to reach."""

    time_ms: int
    tasks: list[TriggerTask]
    registry_end: int  # read the registry up to here before asking for the source topics
    started: float
    has_source_ends: bool = False  # step 2 is done
    sources: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)  # registry offsets of registrations whose keys stay due
    triggers: dict[TopicPartition, int] | None = None  # the ends of step 4
    incomplete: bool = False  # the engine stopped waiting for the cut
    counted: bool = False  # counted as incomplete, because keys were ticked that were not ready
    missing: str = ""  # what it waits for
    unreadable: str = ""  # a topic whose ends are unknown, because it cannot be read
    asked: float = 0.0  # when the source topics were requested
    reported: bool = False
    ticked: set[TopicPartition] = field(default_factory=set)


class Cuts:
    """Makes a cut when timers are due, then ticks. `wants_commits`: idle positions must be committed now."""

    def __init__(self, context: EngineContext, listed: ListedTopics) -> None:
        self._context, self._listed = context, listed
        self._bus, self.registry, self._clock = context.bus, context.registry, context.clock
        self._stats, self._monotonic = context.stats, context.monotonic
        self._registry_topic = TopicPartition(context.config.topic("subscription"), 0)
        self.progress = context.parts.progress()
        self._cut: Cut | None = None
        self._waiting: dict[int, float] = {}  # {registry offset: since when} that the last cut left due
        self._late = ""  # what they wait for, once they have waited for long
        self._ended = self._checked_at = self._monotonic() - CLOSING_S

    @property
    def wants_commits(self) -> bool:
        return self._cut is not None

    @property
    def waits_for(self) -> str | None:
        """What timers wait for, once they have waited for long; None otherwise. For waiting tasks."""
        if self._cut is not None and self._cut.reported:
            return self._cut.missing
        return self._late or None

    def drop(self) -> None:
        """Abandon the cut: partitions were lost or rolled back."""
        self._cut = None

    def advance(self, tasks: Mapping[TopicPartition, TriggerTask], outputs: Outputs) -> set[TopicPartition]:
        """Continue the cut without waiting, or begin one if timers are due.

        Returns the trigger partitions whose offsets must be in the transaction.
        """
        touched: set[TopicPartition] = set()
        if self._cut is None:
            self._begin(tasks, outputs, touched)
        cut = self._cut
        if cut is None:
            return touched
        if any(tasks.get(task.tp) is not task for task in cut.tasks):
            self._cut = None
            return touched
        if cut.triggers is None:
            if self._monotonic() - self._checked_at < CHECK_S:
                return touched
            self._checked_at = self._monotonic()
            if not self.sources_reached(cut):
                self._lose_patience(cut)
                if not cut.incomplete:
                    return touched
            # 4. Only now do these ends include all matches of the source records before the cut.
            cut.triggers = self._bus.end_offsets([task.tp for task in cut.tasks])
        for task in cut.tasks:
            if task.tp in cut.ticked or outputs.full:
                continue
            if task.position < cut.triggers[task.tp] and not cut.incomplete:
                cut.missing = f"{task.tp}, which is read up to {task.position} of {cut.triggers[task.tp]}"
                self._lose_patience(cut)
                if not cut.incomplete:
                    continue
            # 5. The tick.
            before = len(outputs.records)
            if self._tick(cut, task, outputs):
                cut.ticked.add(task.tp)
            if task.writes or len(outputs.records) != before:
                touched.add(task.tp)
        if len(cut.ticked) == len(cut.tasks):
            self._cut = None
            self._ended = self._monotonic()
            self._stats.cuts += 1
            self._keep_waiting(cut.waiting)
        return touched

    def _tick(self, cut: Cut, task: TriggerTask, outputs: Outputs) -> bool:
        """Tick keys that are ready, then those that have waited too long; False if the pass is full."""
        now_ms = self._clock.now_ms()
        if cut.incomplete:
            return task.tick(cut.time_ms, outputs, now_ms, lambda _: True, incomplete=True)
        waiting: set[int] = set()

        def ready(offset: int) -> bool:
            if self.progress.ready(offset):
                return True
            waiting.add(offset)
            return False

        if not task.tick(cut.time_ms, outputs, now_ms, ready, incomplete=False):
            return False
        overdue = {offset for offset in waiting if self._waited_too_long(offset)}
        cut.waiting |= waiting - overdue
        if not overdue:
            return True
        if not cut.counted:
            cut.counted = True
            self._stats.incomplete += 1
        return task.tick(cut.time_ms, outputs, now_ms, overdue.__contains__, incomplete=True)

    def _waited_too_long(self, offset: int) -> bool:
        """Whether all partitions that a registration waits for have made no progress for too long."""
        stalled = self.progress.standing_still(offset, self._monotonic() - PATIENCE_S)
        first = [tp for tp in stalled if self.progress.is_first_report(tp)]
        if first:
            text = "Timers stop waiting for %s, unchanged for %.0f s: firings are marked incomplete."
            log.error(text, self.progress.missing(offset), PATIENCE_S)
        return bool(stalled)

    def _keep_waiting(self, offsets: Collection[int]) -> None:
        """Remember the registrations that a cut left due, and log when they have waited for long."""
        now = self._monotonic()
        self._waiting = {offset: self._waiting.get(offset, now) for offset in offsets}
        oldest = min(self._waiting, key=self._waiting.__getitem__, default=None)
        if oldest is None or (waited := now - self._waiting[oldest]) <= REPORT_AFTER_S:
            self._late = ""
            return
        missing = self.progress.missing(oldest)
        if missing and not self._late:
            log.warning("Timers have been waiting for %s for %.0f s.", missing, waited)
        self._late = missing or self._late

    def _begin(
        self, tasks: Mapping[TopicPartition, TriggerTask], outputs: Outputs, touched: set[TopicPartition]
    ) -> None:
        since = self._monotonic() - self._ended
        if since < PAUSE_S:
            return
        if not self._clock.known:
            # Do not use the machine's clock: if it is slow, nothing might ever be due.
            has_key = next((task for task in tasks.values() if task.due_at() is not None), None)
            if has_key is not None:
                self._ask_time(has_key, outputs, touched)
            return
        now_ms = self._clock.now_ms()
        due = [task for task in tasks.values() if (at := task.due_at()) is not None and at <= now_ms]
        if not due:
            self._keep_waiting(())
            return
        if since < CLOSING_S and (self._waiting or not any(task.has_timer_due(now_ms) for task in due)):
            return
        # 1. The time, by the brokers' clock.
        if not self._clock.fresh:
            self._ask_time(due[0], outputs, touched)
            return
        # 2. First the end of the registry: it lists the topics whose events may be stamped before the time.
        end = self._bus.end_offsets([self._registry_topic])[self._registry_topic]
        self._cut = Cut(now_ms, due, end, self._monotonic())
        self._checked_at = self._monotonic() - CHECK_S

    def _ask_time(self, task: TriggerTask, outputs: Outputs, touched: set[TopicPartition]) -> None:
        """Write a record for the timestamp that the broker gives it; the commit sets the clock."""
        outputs.write("state", task.tp.partition, CLOCK_KEY, CLOCK_VALUE)
        touched.add(task.tp)

    def sources_reached(self, cut: Cut) -> bool:
        """Step 3: whether the committed offsets have reached the ends. Updates `progress`."""
        if not cut.has_source_ends:
            position = self.registry.position
            if position < cut.registry_end:
                cut.missing = f"{self._registry_topic}, which is read up to {position} of {cut.registry_end}"
                return False
            # 2. A new list of source partitions, and their ends.
            self._find_ends(cut)
            cut.has_source_ends = True
        if cut.unreadable:
            cut.missing = f"topic {cut.unreadable!r}, which cannot be read"
            if self._monotonic() - cut.asked >= UNREAD_S:
                self._find_ends(cut)
            return False
        committed = self._bus.committed(cut.sources)
        if committed is None:
            cut.missing = "an open transaction of another engine"
            return False
        reached: dict[TopicPartition, tuple[int, OffsetMetadata]] = {}
        for tp, end in cut.sources.items():
            found = committed.get(tp)
            if found is None:
                cut.missing = f"{tp}, which no engine has opened"
                return False
            if found.offset < end:
                cut.missing = f"{tp}, which is read up to {found.offset} of {end}"
                return False
            if not found.metadata:
                cut.missing = f"{tp}, whose offset was committed by hand, and by no engine since"
                return False
            try:
                metadata = metadata_of(found)
            except RecordError as e:
                cut.missing = f"{tp}, which is stopped: {e}"
                return False
            if metadata.topic_id not in ("", cut.topic_ids[tp.topic]):
                cut.missing = f"{tp}, whose committed offset belongs to an earlier topic with this name"
                return False
            reached[tp] = (found.offset, metadata)
        self.progress.update(reached, self.registry.position, self._monotonic())
        return True

    def _find_ends(self, cut: Cut) -> None:
        """Find the ends to reach. Those of an unreadable listed topic stay unknown."""
        cut.asked = self._monotonic()
        topics = self.source_topics()
        unread = [name for name in topics if name in self._listed.unreadable or not topics[name].has_offsets]
        cut.unreadable = unread[0] if unread else ""
        readable = {name: topic for name, topic in topics.items() if name not in unread}
        cut.sources.update(
            self._bus.end_offsets([tp for tp in partitions_of(readable) if tp not in cut.sources])
        )
        cut.topic_ids.update({name: topic.id for name, topic in readable.items()})

    def source_topics(self) -> dict[str, Topic]:
        """The source topics of the bus as they are now."""
        return source_topics(self._context)

    def _lose_patience(self, cut: Cut) -> None:
        """Report a cut that has waited for long, and stop waiting for one that has waited for too long."""
        waited = self._monotonic() - cut.started
        if waited > REPORT_AFTER_S and not cut.reported:
            cut.reported = True
            log.warning("Timers have been waiting for %s for %.0f s.", cut.missing, waited)
        if waited > PATIENCE_S and not cut.incomplete:
            cut.incomplete = True
            self._stats.incomplete += 1
            log.error(
                "Timers stop waiting for %s after %.0f s: firings are marked incomplete.", cut.missing, waited
            )


def source_topics(context: EngineContext) -> dict[str, Topic]:
    """The source topics of the bus as they are now, without listed topics that do not exist."""
    registered = context.registry.bus
    listed = () if registered is None else registered.topics
    found = context.bus.topics((context.config.topic("event"), *listed))
    return {name: topic for name, topic in found.items() if topic is not None}


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)
    ]
