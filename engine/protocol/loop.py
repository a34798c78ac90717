"""The engine's loop: each pass takes records, and commits their outputs and offsets in one transaction.

The step numbers are those of docs/understand/engine/commit.md, which says what a crash after each leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from typing import Final

from ..bus import Batch, Bus, End, Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, LostRange, NotReadable, RecordError, TransactionAborted, UnknownVersion
from ..log import at, log
from ..registry.registry import Change
from .backlog import Backlog
from .commits import Commits
from .context import EngineContext
from .outputs import LIVE_SHARE, Outputs
from .partitions.doubted import DoubtedPartitions
from .parts import PARTS, EngineParts
from .poison.refusals import SUSPICIOUS_ABORTS, Aborts
from .stats import Stats
from .tasks.source_task import SourceTask
from .tasks.trigger_task import TriggerTask

# At most, in a pass: a transaction costs about 50 ms, whether for 2,000 records or 10,000.
MOST_RECORDS: Final = 10_000
# A pass spends at most this long on live events, and as long on scans, however slow the filters are: the next
# poll must come long before the group excludes this member.
MOST_S: Final = 1.0
POLL_S: Final = 0.1
MOST_ABORTS: Final = 5  # then the engine ends with an error; a rebalance aborts only one or two


class Engine:
    """One member of the consumer group of a bus's engines. Use it in one thread.

    Call `run_pass` in a loop, then `end` and `close`. After an EngineError, close this engine and make a new
    one with a new `Bus`: all state is in Kafka. `stats`: its counters.
    """

    def __init__(
        self,
        bus: Bus,
        config: BusConfig,
        *,
        stats: Stats | None = None,
        parts: EngineParts = PARTS,
    ) -> None:
        """stats: those of an earlier engine of this process, to continue."""
        self._context = context = EngineContext.of(bus, config, parts, stats)
        self._bus, self._config, self._monotonic = bus, config, context.monotonic
        self.registry, self.stats, self.clock = context.registry, context.stats, context.clock
        self._fencing = parts.fencing(context)
        listed = parts.listed_topics(context)
        with ExitStack() as clients:  # closed if the engine cannot start
            self._registry_reader = parts.registry_reader(context)
            clients.callback(self._registry_reader.close)
            self.ownership = parts.ownership(context, self._registry_reader, self._fencing, listed)
            gaps = parts.gaps(context)
            self._scanning = parts.scanning(context, gaps)
            clients.callback(self._scanning.close)
            clients.callback(self.ownership.close)
            self._refusals = parts.refusals(context, self.ownership)
            self._offsets = parts.offsets(context)
            clients.callback(self._offsets.close)
            self._doubted = DoubtedPartitions(bus, self._offsets)
            self.cuts = parts.cuts(context, listed)
            self._commits = Commits(context, self.ownership, self.cuts)
            self.problems = parts.problems(context, self.ownership, gaps, self.cuts)
            self._housekeeping = parts.housekeeping(context, self.ownership, self._fencing, self.open_again)
            self._suspect_passes = parts.passes(self.ownership, self.stats)
            self.membership: object = None  # of the last poll
            self._backlog = Backlog()  # taken, and not processed yet
            self._aborts = Aborts()
            self._subscribed: tuple[str, ...] = ()
            self._fencing.note_members()  # only the group knows an engine that dies in its first transaction
            self._registry_reader.read_whole()
            self._registry_reader.changed = self._registry_changed
            self._housekeeping.check_topics()
            self._subscribe()
            self._clients = clients.pop_all()

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The open partitions of this engine."""
        return tuple(task.tp for task in self.ownership.tasks())

    @property
    def is_open(self) -> bool:
        """Whether it has joined the group, and its partitions are recovered."""
        return self.ownership.is_open

    @property
    def up_to_date(self) -> bool:
        """Whether all its partitions have applied the registry and committed all, and none has a scan."""
        position = self.registry.position
        return all(
            task.applied == position and not task.changed and not task.behind
            for task in self.ownership.tasks()
        ) and not any(source.scans for source in self.ownership.sources.values())

    def take_filter_errors(self) -> Counter[str]:
        """{text of a filter: on how many events it failed, live and in scans} since the last call."""
        errors = self._context.index.errors
        taken = errors + self._scanning.take_filter_errors()
        errors.clear()
        return taken

    def run_pass(self) -> int:
        """Run one pass. Returns the number of processed records. Waits at most 0.1 s for records."""
        try:
            return self._pass()
        except NotReadable as e:  # no commit raises it, so the pass can be undone
            if not self.ownership.listed.set_unreadable(e):
                raise
            self.open_again()
            return 0

    def _pass(self) -> int:
        # 1. Take records, and the membership with which the transaction is fenced.
        batch = self._take()
        if batch is None:
            return 0
        # 2. Read the registry, and apply it to the partitions of this engine.
        self._registry_reader.read_new()
        if self.ownership.taking_over:  # because of a registry record
            return 0
        self._apply_registry()
        if not self.begin_suspects():
            return 0
        # 3. Gather outputs, ...
        outputs = self._commits.new_outputs()
        taken = len(self._backlog)
        self._process(outputs)
        taken -= len(self._backlog)
        sources, triggers = self.ownership.sources, self.ownership.triggers
        touched: set[TopicPartition] = set()
        if not self._suspect_passes.alone:
            touched = self._scanning.advance(sources, outputs, self.clock.now_ms(), alone=taken == 0)
            touched |= self.cuts.advance(triggers, outputs)
            self._housekeeping.sweep(outputs)
            self.problems.write(outputs)
        # 3. ... begin the transaction and write them, 4. send the offsets, 5. commit.
        if self._commits.gather(outputs, touched | self._suspect_passes.to_commit):
            self._commit(outputs, batch.membership, touched)
        if self._doubted:
            self._fetch_again()
        self._housekeeping.run()
        changed = self.ownership.listed.check()
        if (
            self._refusals.may_try_again()
            or self.ownership.may_retry_unreadable()
            or changed & {tp.topic for tp in self.ownership.assigned}
        ):
            self.open_again()
        self._housekeeping.look_for_dead_engines(busy=taken > 0 or self._scanning.busy)
        return taken

    def end(self) -> bool:
        """Commit, before `close`, that this engine stops cleanly: no record ended it.

        Returns False if the transaction was aborted. Then, and after an EngineError that this raises, the
        next owners treat the next records as suspects, which costs little.
        """
        tasks = self.ownership.tasks()
        if self.ownership.taking_over or not tasks or self.membership is None:
            return True  # nothing to commit
        for task in tasks:
            task.suspects.ends_cleanly = True
        return self._commit(self._commits.offsets_of([task.tp for task in tasks]), self.membership)

    def close(self) -> None:
        """Leave the group, so that others take over at once, and close all clients."""
        with self._clients:
            self._bus.close()

    # -- records

    def _take(self) -> Batch | None:
        """Take records into the backlog; None during a takeover."""
        if self._backlog:
            # Poll nevertheless, or the group would exclude this member.
            most, wait = 1, 0.0
        else:
            busy = self._scanning.busy or self.cuts.wants_commits or self.ownership.taking_over
            most, wait = MOST_RECORDS, 0.005 if busy else POLL_S
        try:
            batch = self._bus.poll(most, wait)
        except LostRange as e:
            self._backlog.clear()
            self._forget_pass()
            self.ownership.rollback()
            self.ownership.reopen()  # the takeover finds what is missing, and reports it
            with at(*e.partition):
                log.error("%s", e)
            return None
        self.membership = batch.membership
        if batch.lost or batch.assigned is not None:
            self._backlog.clear()
            self._forget_pass()
            if batch.assigned is None:
                self.ownership.lose()
            else:
                self._fencing.note_members()
                self.ownership.listed.check_soon()
                self._aborts.keep(batch.assigned)
                self.ownership.assign(batch.assigned)
        if self.ownership.taking_over:
            self._registry_reader.read_new()
            self.ownership.open()
            return None
        self._backlog.add(batch.records)
        return batch

    def _forget_pass(self) -> None:
        """Forget the work since the last commit."""
        self._doubted.forget()
        self._commits.take_back_counts()
        self._scanning.drop()
        self.cuts.drop()

    def begin_suspects(self) -> bool:
        """Commit what others must know if a record ends this process in this pass. False ends the pass."""
        to_commit = self._suspect_passes.begin(self._backlog.first())
        if to_commit and not self._commit(self._commits.offsets_of(to_commit), self.membership):
            return False
        if self._suspect_passes.must_stop:
            self.open_again()  # the takeover stops the partition
            return False
        self._suspect_passes.watch()
        return True

    def _process(self, outputs: Outputs) -> None:
        """Match and step the backlog until it is empty or the transaction has no more room."""
        sources, triggers, backlog = self.ownership.sources, self.ownership.triggers, self._backlog
        now_ms = self.clock.now_ms()
        until = self._monotonic() + MOST_S
        consumed = filtered = 0
        passes, watched = self._suspect_passes, self._suspect_passes.watched
        # For the next pass: suspects that this one does not admit, and what follows them in their partitions.
        postponed: list[Record | End] = []
        postponed_of: set[TopicPartition] = set()
        for item in backlog:
            tp = item.source
            source = sources.get(tp)
            if isinstance(item, End):
                task = source or triggers.get(tp)
                if tp in postponed_of:
                    postponed.append(item)
                elif task is not None and tp not in self._doubted:
                    task.at_end(item.offset)
                continue
            is_watched = bool(watched) and tp in watched  # usually none is
            if is_watched and not passes.admits(tp):
                postponed.append(item)
                postponed_of.add(tp)
                continue
            refused = False
            if source is not None and item.offset != source.position:
                if self._doubted.must_drop(source, item):
                    continue
                refused = self._doubted.refuse(source, item, outputs, now_ms)
            consumed += 1
            if refused or (is_watched and passes.dead_letter(item, outputs, now_ms)):
                pass  # it is a dead letter
            elif source is not None:
                if not source.match(item, outputs, now_ms):
                    filtered += 1
            elif (trigger := triggers.get(tp)) is not None and not self._step(trigger, item, outputs, now_ms):
                consumed -= 1
                postponed.append(item)  # the next pass begins with it
                break
            if is_watched and not self.ownership.taking_over and passes.processed(tp):
                break
            if outputs.beyond(LIVE_SHARE) or self._monotonic() >= until:
                break
        if postponed and not self.ownership.taking_over:
            backlog.put_back(*postponed)
        if not self.ownership.taking_over:  # else this pass is rolled back
            self.stats.consumed += consumed
            self.stats.filtered += filtered

    def _fetch_again(self) -> None:
        """Fetch partitions with refused records again: the client continued after a claimed offset."""
        if self._backlog and not self._suspect_passes.watched:
            return  # it still has records that were fetched before
        self._backlog.clear()
        if not self._doubted.fetch_again(self.ownership.sources) or self._suspect_passes.watched:
            self.ownership.start()

    def _step(self, trigger: TriggerTask, record: Record, outputs: Outputs, now_ms: int) -> bool:
        """Step a match. False if another version wrote it, and earlier matches must be committed first."""
        try:
            match = trigger.decode(record)
            needed = trigger.needs_registry(match)
            if self.registry.position < needed:
                self._registry_reader.catch_up(needed)
                if self.ownership.taking_over:  # because of a registry record: this pass is rolled back
                    return True
        except UnknownVersion as e:
            if not self.registry.is_known:
                raise  # the unknown record is in the registry, which ends the engine
            if trigger.worked:
                return False
            self.ownership.note_unreadable_match(trigger.tp, str(e))
            self.open_again()  # the takeover pauses the partition
            return True
        except RecordError as e:
            with at(*record.source, record.offset):
                log.error("%s goes to the dead-letter topic: %s", record, e)
            trigger.dead_letter(record, str(e), outputs, now_ms)
            return True
        trigger.process(record, match, outputs, now_ms)
        return True

    # -- the registry

    def _subscribe(self) -> None:
        listed = () if self.registry.bus is None else self.registry.bus.topics
        topics = (self._config.topic("event"), self._config.topic("trigger"), *listed)
        if topics != self._subscribed:
            self._subscribed = topics
            self._bus.subscribe(topics)

    def _registry_changed(self, change: Change) -> None:
        may_continue = change.resumed in self.ownership.unread  # a partition that is paused or stopped
        for gone in change.removed:
            self._scanning.forget(gone)
            for trigger in self.ownership.triggers.values():
                trigger.forget([gone.incarnation])
            may_continue |= self.ownership.note_removed(gone.registration.subscription)
        if change.bus:
            self._subscribe()
            self.ownership.listed.check_soon()
        if may_continue:
            self.open_again()

    def open_again(self) -> None:
        """Abandon the running pass, and take over all partitions again."""
        self.drop_backlog()
        self._forget_pass()
        if self.ownership.is_open or self.ownership.taking_over:
            self.ownership.reopen()

    def drop_backlog(self) -> None:
        """Forget the records that are not processed yet: their topic may have been deleted."""
        self._backlog.clear()

    def _apply_registry(self) -> None:
        """Apply new registrations to every partition; to source partitions at their live position."""
        until = self.registry.position
        # One request for all partitions with the same registry position, which all but new ones share.
        by_position: dict[int, list[SourceTask]] = {}
        for source in self.ownership.sources.values():
            if source.needs_apply(self.registry):
                by_position.setdefault(source.applied, []).append(source)
        for applied, sources in by_position.items():
            new = self.registry.between(applied, until)
            first: dict[TopicPartition, int | None] = {}
            if new:
                since = min(r.registration.since_ms for r in new)
                found = self._bus.offsets_since([s.tp for s in sources], since)
                first = {
                    tp: None if at is None else self.ownership.sources[tp].claims.true_offset(at)
                    for tp, at in found.items()
                }
                self._scanning.report_gaps(sources, new, first)
            for source in sources:
                source.apply(until, first.get(source.tp))
        for trigger in self.ownership.triggers.values():
            if trigger.needs_apply:
                trigger.apply()

    # -- the commit

    def _commit(
        self, outputs: Outputs, membership: object, touched: AbstractSet[TopicPartition] | None = None
    ) -> bool:
        """Commit the transaction. If that fails, roll the pass back and return False.

        touched: partitions with outputs whose position may not have moved; None for a commit without work.
        """
        refusal = self._refusals.refusal(outputs)
        if refusal:
            self._roll_back(outputs.dead_lettered, refusal)
            return False
        worked = self._worked(touched) if self._aborts.counted else frozenset()  # usually no abort is counted
        try:
            self._commits.send(outputs, membership)
        except TransactionAborted as e:
            self.stats.aborted += 1
            self._aborts.aborted(worked or self._worked(touched))
            if e.unreadable:  # probably a listed topic: brokers refuse its offsets as well
                self.ownership.listed.check_soon()
            count, how = self._aborts.worst()
            if count >= MOST_ABORTS:
                self._leave_cleanly(self.ownership.assigned)
                raise EngineError(f"{e} {count} transactions {how} were aborted; the engine restarts.") from e
            log.info("%s The engine goes back to the committed offsets.", e)
            suspicious = {tp for tp in outputs.dead_lettered if self._aborts.of(tp) >= SUSPICIOUS_ABORTS}
            self._roll_back(suspicious, str(e))
            return False
        self._aborts.committed(worked)
        return True

    def _worked(self, touched: AbstractSet[TopicPartition] | None) -> AbstractSet[TopicPartition]:
        """The partitions that have work in the transaction. touched: as for `_commit`."""
        if touched is None:
            return frozenset()
        return touched | {task.tp for task in self.ownership.tasks() if task.worked}

    def _roll_back(self, waiting: Collection[TopicPartition], refusal: str) -> None:
        """Roll the pass back.

        waiting: partitions to pause until their dead letters can be written, because of this refusal.
        """
        self._backlog.clear()
        if not waiting:
            self._forget_pass()
            self.ownership.rollback()
            return
        self._leave_cleanly(waiting)
        self._aborts.forget(waiting)
        self._refusals.pause(waiting, refusal)
        self.ownership.start()

    def _leave_cleanly(self, partitions: Collection[TopicPartition]) -> None:
        """Roll back, and commit that this engine has cleanly ended its work on these partitions.

        Otherwise the next owners would suspect their records if this process ends or restarts meanwhile.
        """
        self._forget_pass()
        tasks = self.ownership.tasks()
        for task in tasks:
            task.rollback()
            task.suspects.ends_cleanly = task.tp in partitions
        left = [task.tp for task in tasks if task.tp in partitions]
        if not left:
            return
        try:
            self._commits.send(self._commits.offsets_of(left), self.membership)
        except TransactionAborted as e:
            log.info("Could not commit that the work on partitions ended cleanly: %s", e)
            for task in tasks:
                task.rollback()
