"""What must be true of deliveries: in the moment in which they happen, and when a world is at rest.

The checks: `zombie` (a process that does not own a partition starts nothing there after its first), `acked`
(what is acknowledged is not sent), `over` (nor what needs only its acknowledgement), `order` (firings that
wait for each other), `twice` and `budget` (what a process has in flight), `known` and `repeats` (deliveries
that are repeated without a reason), `offset` and `behind` (committed offsets), `isolation` (a bad key delays
only itself), `lost`, `dead letters` and `replies` (what becomes of each firing), `age` (of one that is given
up).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from interlock.engine.bus import TopicPartition
from interlock.engine.records import ActionRecord

from tests.kit.kafka import Entry
from tests.simulation.deliverers import DeliveryProcess, Flight, Network
from tests.simulation.firings import Firings
from tests.simulation.sinks import GIVE_UP_MS, Sinks
from tests.simulation.topics import ACTION, DEAD_LETTER, EVENT


class Judged(Network, Protocol):
    """What the checks need of a world. calm: it has had no fault."""

    calm: bool
    processes: Sequence[DeliveryProcess]

    def problem(self, kind: str, what: str) -> None: ...


class DeliveriesOracle:
    """Judges one world, and tells it its problems."""

    def __init__(self, world: Judged, sinks: Sinks, firings: Firings) -> None:
        self._world, self._cluster, self._seen = world, world.cluster, world.seen
        self._problem = world.problem
        self._sinks, self._firings = sinks, firings
        self._zombies: dict[tuple[str, int, str, str], bytes] = {}
        self._answers: Counter[tuple[str, bytes]] = Counter()

    # -- in the moment

    def sent(self, flight: Flight) -> None:
        """A delivery leaves a process."""
        firing = flight.delivery.firing
        order = flight.delivery.sink.order
        lane = firing.subscription, firing.lane(order)
        if not flight.owner:
            self._seen["delivery of a zombie"] += 1
            first = self._zombies.setdefault((flight.life, flight.generation, *lane), flight.key)
            if first != flight.key and first not in self._firings.skipped:
                self._problem(
                    "zombie", f"{flight.life} sends {flight.key!r} after {first!r} without ownership"
                )
            return
        log = self._cluster.topics[ACTION].logs[flight.tp.partition]
        assert flight.host is not None
        deliverer = flight.host.process.deliverer
        assert deliverer is not None
        read = deliverer.ownership.partitions[flight.tp].position
        if flight.key in deliverer.acknowledgements.done:
            self._problem("over", f"{flight.key!r} is sent although it needs only its acknowledgement")
        acked_at: dict[bytes, int] = {}
        for offset, action in self._firings.of(log):
            if action.state == "acked":
                acked_at[action.key] = offset
        # An administrator's acknowledgement may come when the deliverer cannot know it yet.
        if flight.key in acked_at and (
            flight.key not in self._firings.skipped or acked_at[flight.key] < read
        ):
            self._problem("acked", f"{flight.key!r} is sent although it is acknowledged")
        for offset, action in self._firings.of(log):
            if offset >= firing.record.offset:
                break
            if (
                action.state != "fired"
                or action.key in acked_at
                or action.subscription != firing.subscription
            ):
                continue
            if order == "partition" or (order == "key" and f"key {action.firing.key}" == firing.by_key):
                self._problem("order", f"{flight.key!r} is sent before {action.key!r}")
        together = [f for f in self._world.flights if f.host is flight.host]
        of_sink = [f for f in together if f.delivery.firing.subscription == firing.subscription]
        if len({f.key for f in of_sink}) != len(of_sink):
            self._problem("twice", f"{flight.key!r} is sent while it is in flight")
        if len(of_sink) > flight.delivery.sink.max_in_flight:
            self._problem("budget", f"{firing.subscription} has {len(of_sink)} deliveries at once")

    def acceptance_arrived(self, flight: Flight) -> None:
        """A process has heard that its delivery was accepted."""
        known = flight.life, flight.key
        self._answers[known] += 1
        if self._answers[known] > 1 and len(self._world.processes) == 1:
            self._problem("known", f"{flight.key!r} was sent again although it was known as delivered")

    def check_offsets(self) -> None:
        offsets = self._cluster.group.offsets
        for tp, offset, action in self._firings.open():
            committed = offsets.get(tp)
            if committed is not None and offset < committed.offset:
                self._problem("offset", f"{action.key!r} at {tp}@{offset} is open below {committed.offset}")

    def accepted_keys(self) -> Counter[tuple[str, str]]:
        """{(subscription, key): how many of its firings the sink has accepted}."""
        found: Counter[tuple[str, str]] = Counter()
        for log in self._cluster.topics[ACTION].logs:
            for _, action in self._firings.of(log):
                if action.state == "fired":
                    accepted = self._sinks.of(action.subscription).accepted.count(action.key)
                    found[action.subscription, action.firing.key or ""] += accepted
        return found

    def check_isolation(self, before: Counter[tuple[str, str]]) -> None:
        """Keys that are not bad have made progress, if they had anything open."""
        for tp, offset, action in self.delayed(before):
            self._problem("isolation", f"{action.key!r} at {tp}@{offset} is not delivered")

    def delayed(self, before: Counter[tuple[str, str]]) -> Iterator[tuple[TopicPartition, int, ActionRecord]]:
        """Open firings of keys that are not bad, and of which nothing was accepted since.

        Without those of sinks whose replies are refused: each of their keys waits.
        """
        now = self.accepted_keys()
        for tp, offset, action in self._firings.open():
            key = action.firing.key or ""
            lane = action.subscription, key
            sink = self._sinks.of(action.subscription)
            waits = key in sink.bad_keys or (sink.replies and EVENT in self._world.refused)
            if not waits and now[lane] == before[lane]:
                yield tp, offset, action

    # -- at rest

    def judge(self) -> None:
        """When nothing changes any more: each firing is delivered, or a dead letter, or was skipped."""
        skipped = self._firings.skipped
        dead_letters: Counter[bytes | None] = Counter()
        for _, entry in self._cluster.topics[DEAD_LETTER].logs[0].history():
            dead_letters[entry.key] += 1
            self._check_dead_letter(entry)
        replies = Counter(entry.key for _, entry in self._cluster.topics[EVENT].logs[0].history())
        for log in self._cluster.topics[ACTION].logs:
            for key in dict.fromkeys(action.key for _, action in self._firings.of(log)):
                sink = self._sinks.of(key.partition(b"\0")[0].decode())
                delivered = sink.accepted.count(key)
                self._seen["firing delivered"] += delivered > 0
                self._seen["delivery repeated"] += delivered > 1
                self._seen["dead letter"] += dead_letters[key]
                if not delivered and not dead_letters[key] and key not in skipped:
                    self._problem("lost", f"{key!r} was neither delivered nor made a dead letter")
                if dead_letters[key] > 1:
                    self._problem("dead letters", f"{key!r} became {dead_letters[key]} dead letters")
                if replies[key] > 1 or (
                    sink.replies and not dead_letters[key] and key not in skipped and not replies[key]
                ):
                    self._problem("replies", f"{key!r} has {replies[key]} replies")
                if self._world.calm and delivered > 1:
                    self._problem("repeats", f"{key!r} was delivered {delivered} times without a fault")
            committed = self._cluster.group.offsets.get(log.tp)
            if log.end and (committed is None or committed.offset < log.stable_end):
                self._problem(
                    "behind", f"the committed offset of {log.tp} is {committed}, its end {log.stable_end}"
                )

    def _check_dead_letter(self, dead_letter: Entry) -> None:
        """A firing that is given up for its age is that old, whatever the clock of the process says."""
        reason = dict(dead_letter.headers or ())["interlock_reason"] or b""
        sink = self._sinks.of((dead_letter.key or b"").partition(b"\0")[0].decode())
        if sink.limits_tries or not reason.startswith(b"given up"):
            return
        self._seen["given up for its age"] += 1
        fired_ms = min(
            entry.timestamp_ms
            for log in self._cluster.topics[ACTION].logs
            for _, entry in log.history()
            if entry.key == dead_letter.key
        )
        if dead_letter.timestamp_ms - fired_ms < GIVE_UP_MS:
            self._problem(
                "age", f"{dead_letter.key!r} was given up after {dead_letter.timestamp_ms - fired_ms} ms"
            )
