"""The firings of a world of deliveries, written as an engine does, and which of them are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

import msgspec
from interlock.engine.bus import TopicPartition
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.records import ActionRecord, FiringRecord, decode_json, encode_json, partition_of

from tests.kit.kafka import Log, Transaction
from tests.simulation.actors import CONFIG, AnyWorld
from tests.simulation.sinks import KEYS, Sinks
from tests.simulation.topics import ACTION


class Firings:
    """Those of one world. skipped: keys of the firings that an administrator has acknowledged.

    actions: {name: what happens by chance}; the numbers choose to what.
    """

    def __init__(self, world: AnyWorld, sinks: Sinks) -> None:
        self._cluster, self._seen, self._say = world.cluster, world.seen, world.say
        self._sinks = sinks
        self._count = 0
        self._transaction: Transaction | None = None  # of the engine
        self.skipped: set[bytes] = set()
        self.actions: Mapping[str, Callable[[int, int], object]] = {
            "fire": self._fire_some,
            "engine": self._end_by_chance,
            "skip": self._skip,
        }

    def open(self) -> Iterator[tuple[TopicPartition, int, ActionRecord]]:
        """The firings for sinks that are committed and not acknowledged, compacted ones too."""
        for log in self._cluster.topics[ACTION].logs:
            opened: dict[bytes, tuple[int, ActionRecord]] = {}
            for offset, action in self.of(log):
                if action.state == "fired":
                    opened.setdefault(action.key, (offset, action))
                else:
                    opened.pop(action.key, None)
            for offset, action in opened.values():
                yield log.tp, offset, action

    def of(self, log: Log) -> Iterator[tuple[int, ActionRecord]]:
        """Offset and record of all actions for sinks in a log, compacted ones too."""
        for offset, entry in log.history():
            action = decode_json(ActionRecord, entry.value or b"", "")
            if action.subscription.startswith(subscription_of(CONFIG.deployment, "")):
                yield offset, action

    def end(self, *, commit: bool) -> None:
        """Ends the engine's transaction."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None and transaction.decision == "open":
            self._cluster.end(transaction, commit=commit)
            self._say(f"{transaction} is {transaction.decision}")

    def _end_by_chance(self, n: int, _: int) -> None:
        self.end(commit=n % 4 != 0)

    def pile_up(self, rng: Random) -> None:
        """More is fired for one sink, which may be down, than a scan may hold and note."""
        n = rng.randrange(1 << 16)
        self._sinks.chosen(n).mode = rng.choice(("up", "down"))
        for _ in range(rng.choice((20, 40))):
            self._fire(n, rng)

    def fire_all_keys(self) -> None:
        """One more firing of each key for each sink."""
        for sink in self._sinks.all:
            for key in KEYS:
                self._write(sink.subscription, "durable", key, begins=False)

    def _fire_some(self, n: int, what: int) -> None:
        rng = Random(what)
        for _ in range(rng.choice((1, 1, 1, 1, 3, 8))):
            self._fire(n, rng)

    def _fire(self, n: int, rng: Random) -> None:
        """An engine writes a firing: for a sink, or (some) for others, which deliverers must leave alone."""
        subscription, kind = self._sinks.chosen(n).subscription, "durable"
        if rng.random() < 0.15:
            other = ("airflow/dispatch/d", "other/deliver/s0", "task")
            subscription = other[n % 3]
            kind = "one-shot" if subscription == "task" else "durable"
        elif not self._sinks.is_defined(subscription):
            return  # a subscription is registered after its sink
        key = rng.choice((*KEYS, *KEYS[:1] * 3))
        if self._transaction is not None and self._transaction.decision != "open":
            self._transaction = None
        self._write(subscription, kind, key, begins=self._transaction is None and rng.random() < 0.3)

    def _write(self, subscription: str, kind: str, key: str, *, begins: bool) -> None:
        """begins: a transaction, of which this is the first record."""
        self._count += 1
        firing = FiringRecord(
            id=f"f{self._count}", outcome="met", key=key, fired_at="", events={}, origins={}
        )
        action = ActionRecord(
            subscription=subscription,
            kind=kind,  # type: ignore[arg-type]
            incarnation="i",
            state="fired",
            firing=firing,
        )
        partitions = len(self._cluster.topics[ACTION].logs)
        tp = TopicPartition(ACTION, partition_of(action.kind, subscription, key, partitions))
        if begins:
            if not self._cluster.init_producer("engine"):
                return
            epoch = self._cluster.producers["engine"].epoch
            self._transaction = self._cluster.begin("engine", epoch)
        if self._transaction is None:
            offset, _ = self._cluster.append(tp, action.key, encode_json(action))
        else:
            offset, _ = self._cluster.write(self._transaction, tp, action.key, encode_json(action), None)
        self._say(f"{subscription} fires {firing.id} for {key} at {tp}@{offset} {self._transaction or ''}")

    def _skip(self, n: int, _: int) -> None:
        """An administrator acknowledges a firing."""
        found = [*self.open()]
        if found:
            tp, _offset, action = found[n % len(found)]
            self.skipped.add(action.key)
            acked = encode_json(msgspec.structs.replace(action, state="acked"))
            self._cluster.append(tp, action.key, acked)
            self._say(f"{action.key.decode()} is skipped")
            self._seen["firing skipped"] += 1
