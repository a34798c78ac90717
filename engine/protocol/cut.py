"""The cut: the point from which no match stamped before a time is still to come.

docs/engine.md "Timers" has the numbered steps. One cut at a time serves all trigger partitions of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..bus import Bus, Topic, TopicPartition
from ..config import BusConfig
from ..errors import RecordError
from ..log import log
from ..records import CLOCK_KEY
from .clock import BrokerClock
from .lost import metadata_of
from .outputs import Outputs
from .registry import Registry
from .stats import Stats
from .trigger_task import TriggerTask

PATIENCE_S: Final = 600.0
CLOSING_S: Final = 1.0  # between cuts that only close keys
AGAIN_S: Final = 0.1  # between cuts in any case
LOOK_S: Final = 0.05  # between two looks at the committed offsets
SAY_AFTER_S: Final = 30.0


@dataclass
class _Cut:
    """One cut in progress: the time, and what must be reached."""

    time_ms: int
    tasks: list[TriggerTask]
    sources: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    started: float
    applied: int = 0  # step 3: registrations below have seen all sources, but for those in a scan
    scans: list[tuple[int, int, int]] = field(default_factory=list)
    triggers: dict[TopicPartition, int] | None = None  # step 4
    incomplete: bool = False
    missing: str = ""
    said: bool = False
    ticked: set[TopicPartition] = field(default_factory=set)

    def ready(self, place: int) -> bool:
        """Whether this registration has seen all that the cut promises; else its timers wait for another."""
        if self.incomplete:
            return True
        return place < self.applied and not any(start <= place < end for start, end, _ in self.scans)


class Cuts:
    """Takes cuts when timers are due, and ticks. `wants_commits`: idle positions are to be committed now."""

    def __init__(
        self,
        bus: Bus,
        config: BusConfig,
        registry: Registry,
        clock: BrokerClock,
        stats: Stats,
        monotonic: Callable[[], float],
    ) -> None:
        self._bus, self._config, self._registry = bus, config, registry
        self._clock, self._stats, self._monotonic = clock, stats, monotonic
        self._cut: _Cut | None = None
        self._ended = self._looked = monotonic() - CLOSING_S

    @property
    def wants_commits(self) -> bool:
        return self._cut is not None

    @property
    def waits_for(self) -> str | None:
        """What a cut has been waiting for, once that takes long; for health."""
        return self._cut.missing if self._cut is not None and self._cut.said else None

    def drop(self) -> None:
        """The partitions are gone, or went back: the next cut starts anew."""
        self._cut = None

    def advance(self, tasks: Mapping[TopicPartition, TriggerTask], outputs: Outputs) -> set[TopicPartition]:
        """Go on with the present cut as far as it goes without waiting, or begin one.

        Gives the trigger partitions whose offsets belong into the transaction.
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
            if self._monotonic() - self._looked < LOOK_S:
                return touched
            self._looked = self._monotonic()
            if not self._sources_reached(cut):
                self._lose_patience(cut)
                if not cut.incomplete:
                    return touched
            # 4. Only now: what was matched before the sources were reached is in there.
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
            touched.add(task.tp)
            if task.tick(cut.time_ms, outputs, self._clock.now_ms(), cut.ready, cut.incomplete):
                cut.ticked.add(task.tp)
        if len(cut.ticked) == len(cut.tasks):
            self._cut = None
            self._ended = self._monotonic()
            self._stats.cuts += 1
        return touched

    def _begin(
        self, tasks: Mapping[TopicPartition, TriggerTask], outputs: Outputs, touched: set[TopicPartition]
    ) -> None:
        since = self._monotonic() - self._ended
        if since < AGAIN_S:
            return
        if not self._clock.known:
            # The machine's clock may be late; by it nothing would ever be due.
            keeps = next((task for task in tasks.values() if task.due_at() is not None), None)
            if keeps is not None:
                self._ask_time(keeps, outputs, touched)
            return
        now_ms = self._clock.now_ms()
        due = [task for task in tasks.values() if (at := task.due_at()) is not None and at <= now_ms]
        if not due or (since < CLOSING_S and not any(task.has_timer_due(now_ms) for task in due)):
            return
        # 1. The time, by the brokers' clock.
        if not self._clock.fresh:
            self._ask_time(due[0], outputs, touched)
            return
        # 2. A fresh list of source partitions, and their ends.
        topics = source_topics(self._bus, self._config, self._registry)
        ends = self._bus.end_offsets(partitions_of(topics))
        self._cut = _Cut(now_ms, due, ends, {name: t.id for name, t in topics.items()}, self._monotonic())
        self._looked = self._monotonic() - LOOK_S

    def _ask_time(self, task: TriggerTask, outputs: Outputs, touched: set[TopicPartition]) -> None:
        outputs.write("state", task.tp.partition, CLOCK_KEY, b"")
        touched.add(task.tp)

    def _sources_reached(self, cut: _Cut) -> bool:
        """3. The committed offsets are at the ends; and which registrations have seen all of that."""
        committed = self._bus.committed(cut.sources)
        if committed is None:
            cut.missing = "a transaction of another engine that is open"
            return False
        applied, scans = [self._registry.position], []
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
            if metadata.t not in ("", cut.topic_ids[tp.topic]):
                cut.missing = f"{tp}, whose offset is of the topic before it was made again"
                return False
            applied.append(metadata.R)
            scans += metadata.g
        cut.applied, cut.scans = min(applied), scans
        return True

    def _lose_patience(self, cut: _Cut) -> None:
        waited = self._monotonic() - cut.started
        if waited > SAY_AFTER_S and not cut.said:
            cut.said = True
            log.warning("Timers have been waiting for %s for %.0f s.", cut.missing, waited)
        if waited > PATIENCE_S and not cut.incomplete:
            cut.incomplete = True
            self._stats.incomplete += 1
            log.error("Timers go on without %s after %.0f s: firings say so.", cut.missing, waited)


def source_topics(bus: Bus, config: BusConfig, registry: Registry) -> dict[str, Topic]:
    """All sources of the bus as they are now; a listed topic that is not there is none."""
    listed = () if registry.bus is None else registry.bus.topics
    found = bus.topics((config.topic("event"), *listed))
    return {name: topic for name, topic in found.items() if topic is not None}


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)
    ]
