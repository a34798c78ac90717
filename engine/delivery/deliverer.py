"""Delivers the firings of one action topic to their sinks: the loop of docs/understand/engine/sinks.md.

It makes no request itself: `Posts` sends a firing and says how that ended. One pass:

1. **Poll** for records and a change of the assignment. Drop the partitions that are lost.
2. **Take over** what is assigned (`DelivererOwnership`).
3. **Read** sinks and firings, and put the open firings into their lanes.
4. **Take the answers** of deliveries that have ended.
5. **Commit** acknowledgements, dead letters, replies and offsets (`Acknowledgements`).
6. **Start** deliveries (`Schedule`). Lanes that wait for no acknowledgement start theirs before 5.

A lane starts its next delivery only after the acknowledgement of the last one is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..bus import Record, TopicPartition
from .answers import Verdict
from .context import DelivererContext
from .firings import OpenFiring
from .lanes import Finished
from .partition import ActionPartition
from .posts import Delivery, Ended, Posts
from .reports import SinkReports
from .scans import DelivererScans
from .without_sink import WithoutSink

TAKE: Final = 2000
FINISH_S: Final = 2.0  # how long a rebalance waits for deliveries in flight


class Deliverer:
    """One member of the deliverers' group. `run_pass` raises EngineError if the bus cannot be used any more.

    Then close it, cancel its deliveries, and make another one with another bus.
    """

    def __init__(self, context: DelivererContext, posts: Posts) -> None:
        bus, parts, self._posts = context.bus, context.parts, posts
        self._bus, self._parts, self._environment = bus, parts, context.environment
        self._monotonic, self._prefix = context.monotonic, context.prefix
        self.stats, self.clock, self.sinks = context.stats, context.clock, context.sinks
        self.schedule = parts.schedule(context.limits.slots)
        self.ownership = parts.ownership(context)
        self.acknowledgements = parts.acknowledgements(context, self.ownership)
        self.scans = DelivererScans(bus, self.ownership)
        self.reports = SinkReports(context.monotonic)
        self._removed: set[str] = set()  # subscriptions whose sink was removed while this deliverer ran
        self._without_sink = WithoutSink(self.sinks)
        self.deliveries: dict[int, Delivery] = {}  # in flight, by number
        self._number = 0
        self.stopping = False
        self.dead_deliverers = parts.dead_deliverers(context, self.ownership)
        self.dead_deliverers.note_members()
        self._reader = bus.reader()
        self._reader.read({TopicPartition(context.config.topic("subscription"), 0): 0})
        bus.subscribe([context.config.topic("action")], self.finish)

    def run_pass(self, timeout_s: float = 0.0) -> None:
        """One turn of the loop. Waits up to the timeout for records."""
        batch = self._bus.poll(TAKE, timeout_s)  # 1
        if batch.lost or batch.assigned is not None:
            self._assign(batch.assigned)
        self.dead_deliverers.note_committers(self.ownership.take_over())  # 2
        self.dead_deliverers.look()
        self._read_sinks()  # 3
        newest_ms = 0
        for item in batch.records:
            if isinstance(item, Record):
                newest_ms = max(newest_ms, item.timestamp_ms)
            partition = self.ownership.partitions.get(item.source)
            if partition is not None:
                self._apply(partition, *partition.follow(item))
        self._note_time(newest_ms)
        for partition in self.ownership.partitions.values():
            self._drop(partition.take_dropped())
        self.ownership.check()
        for partition in self.ownership.recovered(self.sinks.position):
            self.acknowledgements.forget_closed(partition)
            self.deliver(partition.held)
        if self.ownership.open:
            self.reports.log_changes()
        self._scan()
        for ended in self._posts.ended():  # 4
            self._take_answer(ended)
        self.start()  # 6, so that the slots of these deliveries are used during the commit
        self.commit(batch.membership)  # 5
        self.start()  # 6

    def finish(self, membership: object) -> None:
        """Acknowledge what ends soon, and start nothing: others wait for the partitions.

        It waits for at most FINISH_S, and not for an answer that is no longer likely.
        """
        until = self._monotonic() + FINISH_S
        while True:
            for ended in self._posts.ended():
                self._take_answer(ended)
            self.commit(membership)
            left = min(until, self._expected_by()) - self._monotonic()
            if left <= 0:
                return
            self._environment.wait(left)

    def _expected_by(self) -> float:
        """Until when an answer to a delivery of its partitions is likely."""
        firings = [delivery.firing for delivery in self.deliveries.values()]
        return max(
            (
                self.schedule.sinks[firing.subscription].expected_by(firing)
                for firing in firings
                if self.ownership.held(firing) is not None
            ),
            default=float("-inf"),
        )

    def stop(self) -> None:
        """Start no more deliveries. Those in flight are acknowledged in further passes, until `is_idle`."""
        self.stopping = True

    @property
    def is_open(self) -> bool:
        """Whether it has joined the group, and its partitions are recovered."""
        assigned = self.ownership.assigned
        return assigned is not None and len(self.ownership.open) == len(assigned)

    @property
    def in_flight(self) -> int:
        """How many deliveries are in flight."""
        return len(self.deliveries)

    @property
    def is_idle(self) -> bool:
        """Whether no delivery is in flight, and no firing waits for its acknowledgement.

        A firing that no partition holds any more does not count: somebody else may have acknowledged it.
        """
        dones = self.acknowledgements.done.values()
        return not self.deliveries and not any(self.ownership.may_hold(done.firing) for done in dones)

    def close(self) -> None:
        """Closes its readers, not the bus."""
        self._reader.close()
        self.scans.close()

    # -- 1: the assignment

    def _assign(self, assigned: tuple[TopicPartition, ...] | None) -> None:
        """Drop all partitions; what is assigned is read again. Deliveries in flight continue."""
        for partition in self.ownership.partitions.values():
            self._drop(partition.held)
        self._without_sink.clear()
        if assigned is not None:
            self.dead_deliverers.note_members()
        self.ownership.assign(assigned)
        self.acknowledgements.assign(assigned)
        self.scans.assign()

    # -- 3: sinks and firings

    def _note_time(self, newest_ms: int) -> None:
        """Move the brokers' clock up to the time of the newest record of a batch; 0 if there is none.

        It may be behind, never ahead: a firing may count as younger than it is, never as older.
        """
        if newest_ms and (not self.clock.known or newest_ms > self.clock.now_ms()):
            self.clock.observe(newest_ms)

    def _read_sinks(self) -> None:
        for item in self._reader.take(TAKE, 0):
            subscription = self.sinks.follow(item)
            if subscription is not None and subscription.startswith(self._prefix):
                self._change_sink(subscription)

    def _change_sink(self, subscription: str) -> None:
        record = self.sinks.records.get(subscription)
        if subscription not in self.sinks.unknown:
            self.reports.change(subscription, record)
        lanes = self.schedule.sinks.get(subscription)
        was_removed = subscription in self._removed  # meanwhile each partition was one lane
        if record is None or lanes is None or was_removed or lanes.wanted_order != record.order:
            for partition in self.ownership.partitions.values():  # it needs other lanes
                self._drop(partition.leave_out(subscription))
        self._removed.discard(subscription)
        if record is None:
            self._removed.add(subscription)
            for partition in self.ownership.open:
                held = [f for f in partition.held if f.subscription == subscription]
                self._drop(held)
                self.deliver(held)
            return
        if lanes is None:
            self.schedule.sinks[subscription] = self._parts.lanes(
                record.retry, record.order, record.max_in_flight, self._environment.chance
            )
        else:
            lanes.change(record.retry, record.order, record.max_in_flight)
        waiting = self._without_sink.of(subscription)
        self._drop(waiting)
        self.deliver(waiting)

    def _apply(
        self, partition: ActionPartition, opened: OpenFiring | None, closed: OpenFiring | None
    ) -> None:
        if closed is not None:
            self._drop([closed])
            self.acknowledgements.forget(closed)
        if opened is not None and self.ownership.is_open(partition.tp):
            self.deliver([opened])

    def _scan(self) -> None:
        partition, found = self.scans.read()
        self.deliver(found)
        if partition is not None:
            self.acknowledgements.forget_closed(partition)

    def deliver(self, firings: Iterable[OpenFiring]) -> None:
        """Put firings into their lanes; one that is delivered already needs only its acknowledgement."""
        for firing in firings:
            lanes = self.schedule.sinks.get(firing.subscription)
            done = self.acknowledgements.done.get(firing.key)
            if lanes is None or firing.subscription not in self.sinks.records:
                self._without_sink.add(firing)
            elif done is None:
                lanes.add(firing)
            else:
                done.replace(firing)
                lanes.add_over(firing)

    def _drop(self, firings: Iterable[OpenFiring]) -> None:
        """Take firings out of their lanes."""
        for firing in firings:
            self._without_sink.remove(firing)
            lanes = self.schedule.sinks.get(firing.subscription)
            if lanes is not None:
                lanes.remove(firing)

    # -- 4: answers

    def _take_answer(self, ended: Ended) -> None:
        firing = self.deliveries.pop(ended.number).firing
        lanes = self.schedule.sinks[firing.subscription]
        now_ms = self.clock.now_ms()
        over = lanes.answer(firing, ended.answer, self._monotonic(), now_ms)
        self.reports.pause(firing.subscription, lanes.pace.paused_by)
        stats = self.stats.of(firing.subscription)
        if ended.answer.verdict is not Verdict.DELIVERED:
            stats.failed += 1
            if ended.answer.verdict is Verdict.RETRY:
                self.reports.fail(firing.subscription, str(ended.answer))
        else:
            stats.accept((now_ms - firing.record.timestamp_ms) / 1000)
            tp, assigned = firing.record.source, self.ownership.assigned
            held = self.ownership.held(firing)
            if held is not None:
                self.acknowledgements.add(held, reply=ended.reply)
            elif (assigned is None or tp in assigned) and not self.ownership.is_whole(tp):
                # A scan may find this firing again, still open: then it only needs its acknowledgement.
                self.acknowledgements.add(firing, reply=ended.reply)
        self._give_up(finished for finished in over if finished.reason)

    def _give_up(self, over: Iterable[Finished]) -> None:
        for finished in over:
            self._add_dead_letter(finished.firing, finished.reason)

    def _add_dead_letter(self, firing: OpenFiring, reason: str) -> None:
        self.reports.give_up(firing, reason)
        self.stats.of(firing.subscription).given_up += 1
        self.acknowledgements.add(firing, reason)

    # -- 5: the transaction

    def commit(self, membership: object) -> None:
        """Commit the acknowledgements that are due. Firings without a sink become overdue here as well."""
        if self.acknowledgements.offsets_are_due:
            done = self.acknowledgements.done
            for firing, reason in self._without_sink.overdue(self.clock.now_ms(), done):
                self._add_dead_letter(firing, reason)
            self._measure()
        finished = self.acknowledgements.commit(membership)
        now_ms = self.clock.now_ms()
        for firing in finished:
            self._without_sink.remove(firing)
            lanes = self.schedule.sinks.get(firing.subscription)
            if lanes is not None:
                self._give_up(lanes.acknowledged(firing, now_ms))

    def _measure(self) -> None:
        for subscription in {*self.schedule.sinks, *self.stats.sinks}:
            stats, lanes = self.stats.of(subscription), self.schedule.sinks.get(subscription)
            if lanes is None:  # removed since an earlier deliverer of the process
                stats.in_flight, stats.open, stats.oldest_age, stats.paused = 0, 0, 0, False
                continue
            stats.in_flight, stats.open = lanes.in_flight, lanes.firing_count
            oldest_ms, now_ms = lanes.oldest_ms, self.clock.now_ms()
            stats.oldest_age = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
            stats.paused = lanes.pace.is_paused and subscription in self.sinks.records

    # -- 6: deliveries

    def start(self) -> None:
        """Start the deliveries that lanes, slots and pauses allow; none after `stop`."""
        if self.stopping:
            return
        for subscription, firing in self.schedule.start(self._monotonic()):
            self._number += 1
            delivery = Delivery(self._number, self.sinks.records[subscription], firing)
            self.deliveries[self._number] = delivery
            self._posts.start(delivery)
