"""Housekeeping: what an engine does from time to time beside its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ..bus import TopicPartition
from ..config import KINDS
from ..errors import TopicsError, UnreachableError
from ..log import log
from ..records import CLOCK_KEY, CLOCK_VALUE, LEFTOVER, partition_of
from .context import EngineContext
from .outputs import Outputs
from .partitions.fencing import Fencing
from .partitions.missing_records import ANOTHER_BUS
from .partitions.ownership import Ownership
from .timers.cut import partitions_of, source_topics

PURGE_S: Final = 60.0
TOPICS_S: Final = 30.0
ORPHANS_S: Final = 60.0
ORPHAN_MS: Final = 24 * 3600 * 1000  # a pool may be down for a night; a wait that returns registers again
# After a longer time all leases are too old. From the start of an engine, waiting processes get more than the
# interval of their leases (`registration_writer.LEASE_S`) to renew them.
SETTLED_S: Final = 360.0
# Leftover registrations must be gone before the brokers compact the record that replaced them, after a day.
# Until then a new owner still finds that a durable subscription was changed, not removed.
LEFTOVER_MS: Final = 3600 * 1000
HELD_BACK_LOOK_S: Final = 0.5
BUSY_LOOK_S: Final = 2.0


class Housekeeping:
    """Removes what is no longer needed, and notices topics that were altered."""

    def __init__(
        self,
        context: EngineContext,
        ownership: Ownership,
        fencing: Fencing,
        open_again: Callable[[], None],
    ) -> None:
        """open_again: abandons the pass under way, and takes over all partitions again."""
        self._context, self._ownership, self._fencing = context, ownership, fencing
        self._open_again = open_again
        self._bus, self._config, self._registry = context.bus, context.config, context.registry
        self._clock, self._monotonic = context.clock, context.monotonic
        now = self._monotonic()
        self._purged = self._asked = self._looked = self._ask_again = now
        self._swept = now + SETTLED_S - ORPHANS_S
        self._stood: dict[TopicPartition, int] = {}

    def run(self) -> None:
        """Do what is due."""
        now = self._monotonic()
        if now - self._purged >= PURGE_S:
            self._purged = now
            self._purge()
        if now - self._asked >= TOPICS_S:
            self._asked = now
            self.check_topics()

    def check_topics(self) -> None:
        """Raises TopicsError for a recreated internal topic. Takes recreated source topics over again."""
        bus = self._registry.bus
        made_with = {} if bus is None else bus.topic_ids
        names = {self._config.topic(kind): kind for kind in KINDS}
        tasks = self._ownership.tasks()
        found = self._bus.topics([*names, *{task.tp.topic for task in tasks} - names.keys()])
        problems = []
        for name, kind in names.items():
            topic = found.get(name)
            if kind == "dead-letter":  # the protocols need none of its records, and it may be recreated
                if topic is None:
                    log.warning("Topic %r is gone: a partition that needs it waits for it.", name)
            elif topic is None:
                problems.append(f"Topic {name!r} is gone.")
            elif kind != "event" and made_with.get(kind, topic.id) != topic.id:
                problems.append(
                    f"Topic {name!r} was deleted and created again: what it held is lost, "
                    "and half-met conditions with it."
                )
            elif kind in ("trigger", "state", "action") and topic.partitions != self._context.partitions:
                problems.append(
                    f"Topic {name!r} has {topic.partitions} partitions, and the bus was made with "
                    f"{self._context.partitions}: half-met conditions would not be found."
                )
        if problems:
            raise TopicsError((*problems, ANOTHER_BUS))
        for task in tasks:
            topic = found.get(task.tp.topic)
            if topic is None or (task.topic_id and topic.id != task.topic_id):
                self._open_again()  # the takeover reports why it stops
                return

    def sweep(self, outputs: Outputs) -> None:
        """Remove registrations and leases that nobody renews, for this engine's trigger partitions."""
        if self._monotonic() - self._swept < ORPHANS_S:
            return
        if not self._clock.fresh:
            # On an idle bus nothing shows the brokers' time, so write a record for it. When to do so is up to
            # the machine's clock.
            first = next(iter(self._ownership.triggers), None)
            before_ms = self._clock.now_ms() - ORPHAN_MS
            if first is not None and (
                self._registry.orphans(before_ms) or self._registry.old_leases(before_ms) or self._leftovers()
            ):
                outputs.write("state", first.partition, CLOCK_KEY, CLOCK_VALUE)
            return
        self._swept = self._monotonic()
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
        for key in self._registry.old_leases(before_ms):  # of killed processes
            if self._is_ours(key.decode("utf-8", "replace")) and not outputs.full:
                outputs.write("subscription", 0, key, None)
        for subscription, key in self._leftovers():
            if self._is_ours(subscription) and not outputs.full:
                outputs.write("subscription", 0, key, None, LEFTOVER)

    def _leftovers(self) -> list[tuple[str, bytes]]:
        """Those to null."""
        return self._registry.leftovers(self._clock.now_ms() - LEFTOVER_MS)

    def _is_ours(self, subscription: str) -> bool:
        """Whether this engine owns the trigger partition of a one-shot subscription of that name."""
        place = partition_of("one-shot", subscription, "", self._context.partitions)
        return TopicPartition(self._config.topic("trigger"), place) in self._ownership.triggers

    def look_for_dead_engines(self, *, busy: bool) -> None:
        """Fence dead engines if a partition has records that cannot be read, and its position stands still.

        Partitions that only others read count as well, see `_read_by_others`. On a busy engine a position may
        also stand still because of its backlog; that costs one request.
        """
        now = self._monotonic()
        if now - self._looked < (BUSY_LOOK_S if busy else HELD_BACK_LOOK_S):
            return
        self._looked = now
        tasks = self._ownership.tasks()
        # a listed topic may be deleted at any time
        there = self._bus.topics({task.tp.topic for task in tasks})
        positions = {
            task.tp: task.position
            for task in tasks
            if (topic := there[task.tp.topic]) is not None and topic.has_offsets
        }
        ends = self._bus.end_offsets(positions)
        stable, stable_ends = self._read_by_others()
        positions |= stable
        ends |= stable_ends
        held = any(ends[tp] > at and self._stood.get(tp) == at for tp, at in positions.items())
        self._stood = positions
        if held:
            self._fencing.blocked(self._group())
        else:
            self._fencing.unblocked()

    def _read_by_others(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Stable and end offsets of the partitions that waits and dispatchers read.

        These are the subscription topic and the action partitions with the numbers of this engine's trigger
        partitions. Their readers cannot fence anybody. If the brokers do not answer, the engine continues,
        because none of its own work depends on it, and asks again later.
        """
        now = self._monotonic()
        if now < self._ask_again:
            return {}, {}
        action = self._config.topic("action")
        asked = [
            TopicPartition(self._config.topic("subscription"), 0),
            *(TopicPartition(action, tp.partition) for tp in self._ownership.triggers),
        ]
        try:
            return self._bus.stable_offsets(asked), self._bus.end_offsets(asked)
        except UnreachableError as e:
            log.warning("Whether dead engines block the readers of firings is unknown; asking again: %s", e)
            self._ask_again = now + TOPICS_S
            return {}, {}

    def _group(self) -> Iterable[TopicPartition]:
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
