"""Housekeeping: periodic work of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ..bus import TopicPartition
from ..config import KINDS
from ..errors import TopicsError, UnreachableError
from ..log import log
from ..records import CLOCK_KEY, CLOCK_VALUE, LEFTOVER, partition_of
from ..registry.leases import LEASED_MS
from .context import EngineContext
from .outputs import Outputs
from .partitions.fencing import Fencing
from .partitions.missing_records import ANOTHER_BUS
from .partitions.ownership import Ownership
from .timers.cut import partitions_of, source_topics

PURGE_S: Final = 60.0
TOPICS_S: Final = 30.0
ORPHANS_S: Final = 60.0
ORPHAN_MS: Final = LEASED_MS  # a night without processes removes no wait; a later wait registers again
# After a long outage all leases are old. So a new engine gives waiting processes more time than the interval
# of their leases (`lease_writer.LEASE_S`) to renew them.
SETTLED_S: Final = 360.0
# Leftovers must be removed within a day, before brokers may remove the null that made them leftovers. They
# stay for an hour, because they show a new owner that a durable subscription was changed, not removed.
LEFTOVER_MS: Final = 3600 * 1000
IDLE_CHECK_S: Final = 0.5
BUSY_CHECK_S: Final = 2.0


class Housekeeping:
    """Removes what is no longer needed, detects altered topics, and looks for dead engines."""

    def __init__(
        self,
        context: EngineContext,
        ownership: Ownership,
        fencing: Fencing,
        open_again: Callable[[], None],
    ) -> None:
        """open_again: abandons the running pass, and takes over all partitions again."""
        self._context, self._ownership, self._fencing = context, ownership, fencing
        self._open_again = open_again
        self._bus, self._config, self._registry = context.bus, context.config, context.registry
        self._clock, self._monotonic = context.clock, context.monotonic
        now = self._monotonic()
        self._purged_at = self._topics_at = self._checked_at = self._ask_again_at = now
        self._swept_at = now + SETTLED_S - ORPHANS_S  # so the first sweep comes after SETTLED_S
        self._positions: dict[TopicPartition, int] = {}

    def run(self) -> None:
        """Do what is due."""
        now = self._monotonic()
        if now - self._purged_at >= PURGE_S:
            self._purged_at = now
            self._purge()
        if now - self._topics_at >= TOPICS_S:
            self._topics_at = now
            self.check_topics()

    def check_topics(self) -> None:
        """Raises TopicsError for a recreated internal topic. Takes recreated source topics over again."""
        bus = self._registry.bus
        created_ids = {} if bus is None else bus.topic_ids
        names = {self._config.topic(kind): kind for kind in KINDS}
        tasks = self._ownership.tasks()
        found = self._bus.topics([*names, *{task.tp.topic for task in tasks} - names.keys()])
        problems = []
        for name, kind in names.items():
            topic = found.get(name)
            if kind == "dead-letter":  # may be recreated: engines read none of its records
                if topic is None:
                    log.warning("Topic %r does not exist: partitions with dead letters wait for it.", name)
            elif topic is None:
                problems.append(f"Topic {name!r} does not exist.")
            elif kind != "event" and created_ids.get(kind, topic.id) != topic.id:
                problems.append(
                    f"Topic {name!r} was deleted and created again: its records are lost, "
                    "and half-met conditions with them."
                )
            elif kind in ("trigger", "state", "action") and topic.partitions != self._context.partitions:
                problems.append(
                    f"Topic {name!r} has {topic.partitions} partitions, but the bus was created with "
                    f"{self._context.partitions}: Interlock could not find half-met conditions."
                )
        if problems:
            raise TopicsError(*problems, ANOTHER_BUS)
        for task in tasks:
            topic = found.get(task.tp.topic)
            if topic is None or (task.topic_id and topic.id != task.topic_id):
                self._open_again()  # the takeover finds and reports the reason
                return

    def sweep(self, outputs: Outputs) -> None:
        """Remove registrations and leases that nobody renews, and leftovers.

        Only those whose names are hashed to a trigger partition of this engine.
        """
        if self._monotonic() - self._swept_at < ORPHANS_S:
            return
        if not self._clock.fresh:
            # On an idle bus the engine learns the brokers' time only from a record of its own. The machine's
            # clock decides whether to write one.
            first = next(iter(self._ownership.triggers), None)
            before_ms = self._clock.now_ms() - ORPHAN_MS
            if first is not None and (
                self._registry.orphans(before_ms) or self._registry.old_leases(before_ms) or self._leftovers()
            ):
                outputs.write("state", first.partition, CLOCK_KEY, CLOCK_VALUE)
            else:  # looking through the whole registry in each pass would keep an idle engine busy
                self._swept_at = self._monotonic()
            return
        self._swept_at = self._monotonic()
        before_ms = self._clock.now_ms() - ORPHAN_MS
        for orphan in self._registry.orphans(before_ms):
            registration = orphan.registration
            if not self._is_ours(registration.subscription) or outputs.full:
                continue
            log.warning(
                "No process has waited for %r for a day: its registration is removed.",
                registration.subscription,
            )
            for key in sorted(self._registry.keys(registration.subscription)):
                outputs.write("subscription", 0, key, None)
        for key in self._registry.old_leases(before_ms):  # of processes that were killed or have ended
            if self._is_ours(key.decode("utf-8", "replace")) and not outputs.full:
                outputs.write("subscription", 0, key, None)
        for subscription, key in self._leftovers():
            if self._is_ours(subscription) and not outputs.full:
                outputs.write("subscription", 0, key, None, LEFTOVER)

    def _leftovers(self) -> list[tuple[str, bytes]]:
        """The leftovers to remove now."""
        return self._registry.leftovers(self._clock.now_ms() - LEFTOVER_MS)

    def _is_ours(self, name: str) -> bool:
        """Whether this engine owns the trigger partition to which this name is hashed."""
        number = partition_of("one-shot", name, "", self._context.partitions)
        return TopicPartition(self._config.topic("trigger"), number) in self._ownership.triggers

    def look_for_dead_engines(self, *, busy: bool) -> None:
        """Fence dead engines if a partition has unread records and has not moved since the last call.

        Also checks partitions that only others read: see `_read_by_others`. On a busy engine a position may
        also stand still because its records are in the backlog; that costs only one request.
        """
        now = self._monotonic()
        if now - self._checked_at < (BUSY_CHECK_S if busy else IDLE_CHECK_S):
            return
        self._checked_at = now
        tasks = self._ownership.tasks()
        # A listed topic may be deleted at any time.
        topics = self._bus.topics({task.tp.topic for task in tasks})
        positions = {
            task.tp: task.position
            for task in tasks
            if (topic := topics[task.tp.topic]) is not None and topic.has_offsets
        }
        ends = self._bus.end_offsets(positions)
        stable, stable_ends = self._read_by_others()
        positions |= stable
        ends |= stable_ends
        is_blocked = any(ends[tp] > at and self._positions.get(tp) == at for tp, at in positions.items())
        self._positions = positions
        if is_blocked:
            self._fencing.note_blocked(self._all_partitions())
        else:
            self._fencing.note_unblocked()

    def _read_by_others(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Last stable offsets and ends of the partitions that waits and dispatchers read, which cannot fence.

        They are the subscription topic, and the action partitions with the numbers of this engine's trigger
        partitions. If the brokers do not answer, the engine asks later: its own work needs no answer.
        """
        now = self._monotonic()
        if now < self._ask_again_at:
            return {}, {}
        action = self._config.topic("action")
        asked = [
            TopicPartition(self._config.topic("subscription"), 0),
            *(TopicPartition(action, tp.partition) for tp in self._ownership.triggers),
        ]
        try:
            return self._bus.stable_offsets(asked), self._bus.end_offsets(asked)
        except UnreachableError as e:
            log.warning("Cannot check whether dead engines block readers of firings; trying again: %s", e)
            self._ask_again_at = now + TOPICS_S
            return {}, {}

    def _all_partitions(self) -> Iterable[TopicPartition]:
        """The partitions that the group shares, which any engine may have committed."""
        trigger = self._config.topic("trigger")
        return [
            *partitions_of(source_topics(self._context)),
            *(TopicPartition(trigger, number) for number in range(self._context.partitions)),
        ]

    def _purge(self) -> None:
        """Delete the records below the committed offsets of this engine's trigger partitions."""
        triggers = self._ownership.triggers.values()
        below = {t.tp: t.committed_position for t in triggers if t.committed_position > t.deleted_below}
        if below:
            self._bus.delete_below(below)
        for trigger in triggers:
            trigger.deleted_below = trigger.committed_position
