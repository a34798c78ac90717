"""The engine's loop: one pass takes what is there, and commits it in one transaction.

The numbers in `Engine.run_pass` are those of docs/engine.md "The commit", which says what a crash after
each of them leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ...conditions import MatcherIndex
from ..bus import Bus, Committed, End, Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, RecordError, TopicsError, TransactionAborted, UnknownVersion
from ..log import log
from .outputs import Outputs
from .recovery import STALL_S, Recovery
from .registry import Registered, Registry
from .source_task import Scan, SourceTask
from .trigger_task import TriggerTask

MOST_RECORDS = 2000  # of one pass: about 8 ms of work, so that a crash repeats little
MOST_SCANNED = 500  # of one slice of the scans in a pass: live events wait for a quarter of a batch at most
POLL_S = 0.1
IDLE_COMMIT_S = 1.0  # an idle partition commits a new R within this
PURGE_S = 60.0
MOST_ABORTS = 5  # a rebalance aborts one or two; what aborts more is told, and tried with growing pauses


class Engine:
    """One member of a bus's engines.

    `run_pass` until told to stop, then `close`. Any EngineError out of it means that this
    engine is over: close it, and make a new one over a new bus (the state is in Kafka).
    """

    def __init__(
        self,
        bus: Bus,
        config: BusConfig,
        trigger_partitions: int,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus, self._config = bus, config
        self._trigger_partitions = trigger_partitions
        self._clock, self._monotonic = clock, monotonic
        self.registry = Registry()
        self._index: MatcherIndex[Registered] = MatcherIndex()
        self._sources: dict[TopicPartition, SourceTask] = {}
        self._triggers: dict[TopicPartition, TriggerTask] = {}
        self._waiting: tuple[TopicPartition, ...] | None = None  # assigned, not opened yet
        self._recovery: Recovery | None = None
        self._opened = False
        self._aborts = 0  # in a row
        self._registry_topic = TopicPartition(config.topic("subscription"), 0)
        self._registry_reader = bus.reader()
        self._scan_reader = bus.reader()
        self._scanning: dict[TopicPartition, Scan] = {}
        self._last_idle_commit = self._last_purge = monotonic()
        self._read_whole_registry()

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """What this engine owns and has opened."""
        return (*self._sources, *self._triggers)

    @property
    def is_open(self) -> bool:
        """Whether it has joined the group, and its partitions are recovered."""
        return self._opened and self._waiting is None

    def run_pass(self) -> int:
        """One pass; the number of records it committed. Waits at most 0.1 s when there is nothing to do."""
        # 1. Take records, and the membership that fences the transaction over them.
        busy = bool(self._scanning) or self._recovery is not None
        batch = self._bus.poll(MOST_RECORDS, 0.0 if busy else POLL_S)
        if batch.lost or batch.assigned is not None:
            self._drop_partitions()
        if batch.assigned is not None:
            self._waiting = batch.assigned
        if self._waiting is not None:
            self._open(self._waiting)
            return 0
        # 2. Read the registry, and apply it to the partitions that are ours.
        self._read_registry(self._registry_reader.take(MOST_RECORDS, 0))
        self._apply_registry()
        # 3. Gather outputs, ...
        outputs = Outputs(self._config)
        now = self._clock()
        touched = self._process(batch.records, outputs, now) | self._scan(outputs)
        idle = self._monotonic() - self._last_idle_commit > IDLE_COMMIT_S
        for source in self._sources.values():
            if source.tp in touched or (idle and source.applied != source.committed_applied):
                source.commit_into(outputs, self._bus.transactional_id)
        for trigger in self._triggers.values():
            if trigger.tp in touched or trigger.changed:
                trigger.commit_into(outputs, self._bus.transactional_id)
        if idle:
            self._last_idle_commit = self._monotonic()
        if not outputs:
            return 0
        try:
            # 3. ... begin the transaction and write them, 4. send the offsets, 5. commit.
            self._bus.commit(outputs.records, outputs.offsets, batch.membership)
        except TransactionAborted as e:
            self._aborts += 1
            if self._aborts >= MOST_ABORTS:
                raise EngineError(
                    f"{e} That was number {self._aborts} in a row; the engine starts anew."
                ) from e
            log.info("%s The partitions are opened again.", e)
            self._waiting = (*self._sources, *self._triggers)
            self._drop_partitions(keep_waiting=True)
            return 0
        # 6. Only now is what the tasks hold in memory true.
        self._aborts = 0
        for tp in outputs.offsets:
            if tp in self._sources:
                self._sources[tp].committed()
        self._purge()
        return len(batch.records)

    def close(self) -> None:
        """Leave the group, so that others take over at once."""
        self._registry_reader.close()
        self._scan_reader.close()
        self._bus.close()

    # -- the registry

    def _read_whole_registry(self) -> None:
        """An engine judges nothing before it has read the registry to the end it had when it started."""
        self._registry_reader.read({self._registry_topic: 0})
        end = self._bus.end_offsets([self._registry_topic])[self._registry_topic]
        self._catch_up(end)
        made_with = self.registry.bus
        if made_with is not None and made_with.partitions != self._trigger_partitions:
            problem = (
                f"Topic {self._config.topic('trigger')!r} has {self._trigger_partitions} partitions, and "
                f"bus {self._config.name!r} was made with {made_with.partitions}: half-met conditions "
                "would not be found. Make a bus of another name for another number of partitions."
            )
            raise TopicsError((problem,))

    def _catch_up(self, position: int) -> None:
        """Read the registry at least up to `position`, which is known to exist."""
        deadline = self._monotonic() + STALL_S
        while self.registry.position < position:
            items = self._registry_reader.take(MOST_RECORDS, POLL_S)
            self._read_registry(items)
            if items:
                deadline = self._monotonic() + STALL_S
            elif self._monotonic() > deadline:
                raise EngineError(
                    f"{self._registry_topic} could not be read up to offset {position}: nothing came for "
                    f"{STALL_S:.0f} s, and it stands at {self.registry.position}."
                )

    def _read_registry(self, items: Iterable[Record | End]) -> None:
        for item in items:
            change = self.registry.apply(item)
            for gone in change.removed:
                self._index.remove(gone)
                for trigger in self._triggers.values():
                    trigger.forget([gone.incarnation])
            for added in change.added:
                self._index.add(added, added.condition, added.registration.key)

    def _apply_registry(self) -> None:
        """Apply what was registered to every source partition, at its live position."""
        until = self.registry.position
        behind = [source for source in self._sources.values() if source.needs_apply(self.registry)]
        if not behind:
            return
        # One question for all partitions that stand at the same place, and all but newcomers do.
        by_place: dict[int, list[SourceTask]] = {}
        for source in behind:
            by_place.setdefault(source.applied, []).append(source)
        for applied, sources in by_place.items():
            new = self.registry.between(applied, until)
            first: dict[TopicPartition, int | None] = {}
            if new:
                since = min(r.registration.since_ms for r in new)
                first = self._bus.offsets_since([s.tp for s in sources], since)
            for source in sources:
                source.apply(until, first.get(source.tp))

    # -- records

    def _process(self, records: Iterable[Record], outputs: Outputs, now: float) -> set[TopicPartition]:
        touched = set()
        for record in records:
            tp = record.source
            source = self._sources.get(tp)
            if source is not None:
                source.match(record, outputs, now)
                touched.add(tp)
                continue
            trigger = self._triggers.get(tp)
            if trigger is not None:
                touched.add(tp)
                try:
                    match = trigger.decode(record)
                except UnknownVersion:
                    raise
                except RecordError as e:
                    log.error("%s It went to the dead-letter topic.", e)
                    trigger.set_aside(record, str(e), outputs, now)
                    continue
                if self.registry.position < trigger.needs_registry(match):
                    self._catch_up(trigger.needs_registry(match))
                trigger.process(record, match, outputs, now)
        return touched

    def _scan(self, outputs: Outputs) -> set[TopicPartition]:
        """One slice of the scans in progress: one scan a partition at a time, all partitions at once."""
        wanted = {tp: source.scans[0] for tp, source in self._sources.items() if source.scans}
        if wanted.keys() != self._scanning.keys() or any(
            wanted[tp] is not scan for tp, scan in self._scanning.items()
        ):
            self._scanning = wanted
            self._scan_reader.read({tp: scan.position for tp, scan in wanted.items()})
        if not wanted:
            return set()
        taken: dict[TopicPartition, list[Record]] = {}
        ends: dict[TopicPartition, int] = {}
        for item in self._scan_reader.take(MOST_SCANNED, 0.01):
            if isinstance(item, End):
                ends[item.source] = item.offset
            else:
                taken.setdefault(item.source, []).append(item)
        touched = set()
        for tp in taken.keys() | ends.keys():
            scan = self._scanning.get(tp)
            if scan is not None:
                self._sources[tp].scan(scan, taken.get(tp, ()), ends.get(tp), outputs)
                touched.add(tp)
        return touched

    # -- ownership

    def _drop_partitions(self, keep_waiting: bool = False) -> None:
        self._sources.clear()
        self._triggers.clear()
        self._scanning.clear()
        if self._recovery is not None:
            self._recovery.close()
            self._recovery = None
        if not keep_waiting:
            self._waiting = None

    def _open(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Take over the assigned partitions, a bit in each pass: docs/engine.md "Taking over a partition"."""
        if self._recovery is None:
            # 1. The stable offsets, before 2. the ends of the state partitions.
            committed = self._bus.committed(partitions)
            if committed is None:
                return  # a transaction of the old owner is open; it ends or times out
            self._recovery = self._begin_recovery(committed)
        # 3. The state partitions up to those ends.
        if not self._recovery.advance():
            return
        # 4. The registry up to where the old owner had read it.
        for trigger in self._triggers.values():
            self._catch_up(trigger.must_read_registry_to)
            trigger.recovered()
        for source in self._sources.values():
            self._catch_up(source.applied)
        # 5. Start.
        self._recovery.close()
        self._recovery = None
        positions = {source.tp: source.position for source in self._sources.values()}
        positions.update((trigger.tp, trigger.position) for trigger in self._triggers.values())
        self._bus.start(positions)
        log.info(
            "Engine %s owns %d event and %d trigger partitions of bus %r.",
            self._bus.transactional_id,
            len(self._sources),
            len(self._triggers),
            self._config.name,
        )
        self._waiting = None
        self._opened = True

    def _begin_recovery(self, committed: dict[TopicPartition, Committed | None]) -> Recovery:
        starts = self._bus.start_offsets(committed)
        for tp, found in committed.items():
            position = found or Committed(starts[tp], "")
            if position.offset < starts[tp]:
                log.error(
                    "%s: records %d to %d were removed before they were read.",
                    tp,
                    position.offset,
                    starts[tp] - 1,
                )
                position = Committed(starts[tp], position.metadata)
            if tp.topic == self._config.topic("trigger"):
                self._triggers[tp] = TriggerTask(tp, position, self.registry)
            else:
                self._sources[tp] = SourceTask(tp, position, self._index, self._trigger_partitions)
        state = self._config.topic("state")
        states = {TopicPartition(state, tp.partition): task for tp, task in self._triggers.items()}
        return Recovery(self._bus.reader(), states, self._bus.end_offsets(states), self._monotonic)

    def _purge(self) -> None:
        """Delete what lies below the committed offsets of our trigger partitions."""
        if self._monotonic() - self._last_purge < PURGE_S:
            return
        self._last_purge = self._monotonic()
        below = {t.tp: t.position for t in self._triggers.values() if t.position > t.deleted_below}
        if below:
            self._bus.delete_below(below)
        for trigger in self._triggers.values():
            trigger.deleted_below = trigger.position
