"""A world of deliveries: brokers, deliverers, sinks, a network, users and faults, all from one seed.

Engines are played by the world: it writes firings. What leaves a process, and what reaches a sink, is checked
in the moment in which it happens; `judge` checks the rest when nothing changes any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

import msgspec
from interlock.engine.bus import Output, TopicPartition
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.firings import Order, subscription_of
from interlock.engine.delivery.retry import MOST_GIVE_UP_AFTER_S, Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import ActionRecord, FiringRecord, decode_json, encode_json, partition_of

from tests.kit.kafka import Entry, Log, Transaction
from tests.simulation.actors import CONFIG
from tests.simulation.deliverers import (
    SMALL,
    USUAL,
    DeliveryMadeOf,
    DeliveryProcess,
    Flight,
    answered,
)

ACTION, REGISTRY_TOPIC, DEAD_LETTER, EVENT = (
    CONFIG.topic(kind) for kind in ("action", "subscription", "dead-letter", "event")
)
REGISTRY: Final = TopicPartition(REGISTRY_TOPIC, 0)
STEPS: Final = 140
STEP_MS: Final = 40
ROUND_MS: Final = 600
ROUNDS: Final = 400
ISOLATED_ROUNDS: Final = 80  # longer than a paused sink waits for its next try
QUIET_ROUNDS: Final = 4
GIVE_UP_MS: Final = 40_000
MOMENTS: Final = (
    "sends",
    "begins a transaction",
    "writes",
    "sends the offsets",
    "sends EndTxn",
    "awaits the answer to EndTxn",
)
KEYS: Final = ("a", "b", "c", "d")
Mode: TypeAlias = Literal["up", "down", "failing", "denying"]
MODES: Final[tuple[Mode, ...]] = ("up", "up", "up", "down", "failing", "denying")
STATUSES: Final = (500, 500, 503, 403, 400)  # that a sink answers to a key
ORDERS: Final[tuple[Order, ...]] = ("key", "key", "key", "partition", "none")

CHANCES: Final[tuple[tuple[str, int], ...]] = (
    ("run", 200),
    ("into", 120),
    ("fire", 150),
    ("arrive", 240),
    ("answer", 260),
    ("no reply", 10),
    ("mark", 120),
    ("mode", 24),
    ("key", 12),
    ("sink", 14),
    ("skip", 6),
    ("refuse", 14),
    ("engine", 40),
    ("clock", 60),
    ("compact", 16),
    ("rebalance", 8),
    ("kick", 14),
    ("crash", 14),
    ("boot", 36),
    ("stop", 4),
    ("pause", 10),
    ("resume", 26),
    ("no answer", 6),
    ("late end", 14),
    ("time out", 10),
)
_NAMES, WEIGHTS = [name for name, _ in CHANCES], [weight for _, weight in CHANCES]
# Without these, and with one process, a world is calm: no delivery may be repeated.
FAULTS: Final = frozenset(
    {"no reply", "rebalance", "kick", "crash", "stop", "pause", "no answer", "late end", "time out", "refuse"}
)


@dataclass(eq=False)
class Sink:
    """A service, and what its subscription's sink record says."""

    subscription: str
    record: SinkRecord
    limits_tries: bool
    replies: bool
    mode: Mode = "up"
    has_changed: bool = False
    bad_keys: dict[str, int] = field(default_factory=dict)  # {key: status that it answers to it}
    accepted: list[bytes] = field(default_factory=list)


class Stuck(AssertionError):
    """Something is not delivered although nothing prevents it."""


class DeliveryWorld:
    def __init__(self, seed: int | str, made_of: DeliveryMadeOf = DeliveryMadeOf()) -> None:  # noqa: B008
        self.seed = seed
        self.rng = rng = Random(f"deliveries {seed}")
        self.chance = Random(f"delivery chance {seed}")
        self.cluster = cluster = made_of.cluster()
        self.seen: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.problems: list[str] = []
        self.flights: list[Flight] = []
        self.skipped: set[bytes] = set()
        self.dead_letters_refused = False
        self.calm = isinstance(seed, int) and seed % 8 == 0
        self.partitions = rng.choice((1, 2, 3))
        cluster.create(ACTION, self.partitions, compact=True)
        cluster.create(REGISTRY_TOPIC, 1, compact=True)
        cluster.create(DEAD_LETTER, 1)
        cluster.create(EVENT, 1)
        self._firings = 0
        self._engine: Transaction | None = None
        self._epoch = 0
        self._zombies: dict[tuple[str, int, str, str], bytes] = {}
        self._answers: dict[tuple[str, bytes], int] = {}
        self.sinks = [self._new_sink(n) for n in range(rng.choice((1, 2, 2, 3)))]
        for sink in self.sinks:
            if rng.random() < 0.8:
                self._write_sink(sink)
        limits = SMALL if rng.random() < 0.4 else USUAL
        self.processes = [
            DeliveryProcess(n, self, rng.choice((0.0, 0.0, -90.0, 45.0)), limits, made_of)
            for n in range(1 if self.calm else rng.choice((1, 2, 2, 3)))
        ]
        for process in self.processes:
            process.boot()

    def _new_sink(self, n: int) -> Sink:
        rng = self.rng
        retry = Retry(
            delay_s=0.2,
            most_delay_s=30.0,
            backoff=rng.choice(("exponential", "linear")),
            tries=rng.choice((None, None, 2, 4)),
            give_up_after_s=GIVE_UP_MS / 1000,
        )
        record = SinkRecord(
            subscription=subscription_of(CONFIG.deployment, f"s{n}"),
            connection="c",
            order=rng.choice(ORDERS),
            max_in_flight=rng.choice((1, 2, 8)),
            retry=retry,
        )
        return Sink(record.subscription, record, retry.tries is not None, replies=rng.random() < 0.4)

    def say(self, what: str) -> None:
        if self.trace is not None:
            at = (self.cluster.now_ms - 1_000_000_000_000) / 1000
            self.trace.append(f"{len(self.trace) + 1:4} {at:9.3f} {what}")

    def problem(self, kind: str, what: str) -> None:
        self.say(f"PROBLEM {kind}: {what}")
        self.problems.append(f"{kind}: {what}")

    # -- the phases

    def play(self, steps: int = STEPS) -> None:
        rng = self.rng
        for _ in range(steps):
            name = rng.choices(_NAMES, WEIGHTS)[0]
            if not (self.calm and name in FAULTS):
                getattr(self, "_do_" + name.replace(" ", "_"))(rng.randrange(1 << 16), rng.randrange(1 << 16))
            self._check_offsets()

    def drain(self) -> None:
        """No faults any more. First one key of each sink stays bad, then all sinks accept everything."""
        self.say("-- drain")
        self.dead_letters_refused = False
        self.cluster.in_flight.clear()
        self._end_engine(commit=True)
        for process in self.processes:
            process.by_chance = False
            if process.state == "down":
                process.boot()
            process.state = "up"
        for sink in self.sinks:
            sink.mode = "up"
            sink.bad_keys = dict.fromkeys(self._bad_keys(sink), 500)
            patient = msgspec.structs.replace(
                sink.record.retry, tries=None, give_up_after_s=MOST_GIVE_UP_AFTER_S
            )
            self._write_sink(sink, patient)
        before = self._accepted_keys()
        self._settle(ISOLATED_ROUNDS)
        self._check_isolation(before)
        for sink in self.sinks:
            sink.bad_keys = {}
            self._write_sink(sink)
        self._settle(ROUNDS)

    def _bad_keys(self, sink: Sink) -> list[str]:
        """A key that stays bad only delays itself if the lanes are those of keys."""
        return [*sink.bad_keys][:1] if sink.record.order == "key" else []

    def _settle(self, rounds: int) -> None:
        quiet, before = 0, None
        for _ in range(rounds):
            self._go_round()
            self._check_offsets()
            now = self._durable()
            waits = self.flights or any(each.decision == "open" for each in self.cluster.transactions)
            quiet = quiet + 1 if now == before and not waits else 0
            before = now
            if quiet >= QUIET_ROUNDS and not [*self._open()]:
                return
            self.cluster.now_ms += ROUND_MS
        if rounds == ROUNDS:
            raise Stuck(f"not delivered: {[*self._open()][:4]}, flights {len(self.flights)}")

    def _go_round(self) -> None:
        for member in self._dead_members():
            self.cluster.leave(member)
        for transaction in self.cluster.overdue():
            self.cluster.time_out(transaction)
            self.calm = False  # a process that stands still for so long in a transaction is a fault
        for process in self.processes:
            self._mark_all()
            if process.state == "down":
                process.boot()
            process.run(300)
            for flight in [*self.flights]:
                self._arrive(flight)
                self._answer(flight, lost=False)
        self._mark_all()

    def _durable(self) -> tuple[object, ...]:
        cluster = self.cluster
        return (
            tuple((name, log.end) for name, topic in cluster.topics.items() for log in topic.logs),
            tuple(cluster.group.offsets.items()),
            cluster.group.generation,
        )

    def finish(self) -> None:
        for process in self.processes:
            if process.state != "down":
                process.crash()

    # -- firings

    def _do_fire(self, n: int, what: int) -> None:
        rng = Random(what)
        for _ in range(rng.choice((1, 1, 1, 1, 3, 8))):
            self._fire(n, rng)

    def _fire(self, n: int, rng: Random) -> None:
        """An engine writes a firing: for a sink, or (some) for others, which deliverers must leave alone."""
        self._firings += 1
        sink = self.sinks[n % len(self.sinks)]
        subscription, kind = sink.subscription, "durable"
        if rng.random() < 0.15:
            other = ("airflow/dispatch/d", "other/deliver/s0", "task")
            subscription = other[n % 3]
            kind = "one-shot" if subscription == "task" else "durable"
        elif self._last_sink(subscription) is None:
            return  # a subscription is registered after its sink
        key = rng.choice((*KEYS, *KEYS[:1] * 3))
        firing = FiringRecord(
            id=f"f{self._firings}", outcome="met", key=key, fired_at="", events={}, origins={}
        )
        action = ActionRecord(
            subscription=subscription,
            kind=kind,  # type: ignore[arg-type]
            incarnation="i",
            state="fired",
            firing=firing,
        )
        tp = TopicPartition(ACTION, partition_of(action.kind, subscription, key, self.partitions))
        if self._engine is not None and self._engine.decision != "open":
            self._engine = None
        if self._engine is None and rng.random() < 0.3:
            if not self.cluster.init_producer("engine"):
                return
            self._epoch = self.cluster.producers["engine"].epoch
            self._engine = self.cluster.begin("engine", self._epoch)
        if self._engine is None:
            offset, _ = self.cluster.append(tp, action.key, encode_json(action))
        else:
            offset, _ = self.cluster.write(self._engine, tp, action.key, encode_json(action), None)
        self.say(f"{subscription} fires {firing.id} for {key} at {tp}@{offset} {self._engine or ''}")

    def _do_engine(self, n: int, _: int) -> None:
        self._end_engine(commit=n % 4 != 0)

    def _end_engine(self, *, commit: bool) -> None:
        transaction, self._engine = self._engine, None
        if transaction is not None and transaction.decision == "open":
            self.cluster.end(transaction, commit=commit)
            self.say(f"{transaction} is {transaction.decision}")

    def _open(self) -> Iterator[tuple[TopicPartition, int, ActionRecord]]:
        """The firings for sinks that are committed and not acknowledged, compacted ones too."""
        for log in self.cluster.topics[ACTION].logs:
            opened: dict[bytes, tuple[int, ActionRecord]] = {}
            for offset, action in self._actions(log):
                if action.state == "fired":
                    opened.setdefault(action.key, (offset, action))
                else:
                    opened.pop(action.key, None)
            for offset, action in opened.values():
                yield log.tp, offset, action

    def _actions(self, log: Log) -> Iterator[tuple[int, ActionRecord]]:
        for offset, entry in log.history():
            action = decode_json(ActionRecord, entry.value or b"", "")
            if action.subscription.startswith(subscription_of(CONFIG.deployment, "")):
                yield offset, action

    # -- sinks

    def _sink(self, subscription: str) -> Sink:
        return next(sink for sink in self.sinks if sink.subscription == subscription)

    def _write_sink(self, sink: Sink, retry: Retry | None = None) -> None:
        record = msgspec.structs.replace(sink.record, retry=retry or sink.record.retry)
        self.cluster.append(REGISTRY, record.key, encode_json(record))

    def _last_sink(self, subscription: str) -> bytes | None:
        value = None
        for _, entry in self.cluster.topics[REGISTRY_TOPIC].logs[0].history():
            if entry.key == b"sink/" + subscription.encode():
                value = entry.value
        return value

    def _do_sink(self, n: int, what: int) -> None:
        """A sink is defined, redefined with another order, or removed."""
        sink = self.sinks[n % len(self.sinks)]
        if what % 5 == 0:
            self.cluster.append(REGISTRY, sink.record.key, None)
            self.say(f"the sink of {sink.subscription} is removed")
            self.seen["sink removed"] += 1
            return
        order = ORDERS[what // 5 % len(ORDERS)]
        sink.has_changed = True
        self.seen["order changed"] += order != sink.record.order
        sink.record = msgspec.structs.replace(sink.record, order=order)
        self._write_sink(sink)
        self.say(f"the sink of {sink.subscription} has order {order}")

    def _do_mode(self, n: int, what: int) -> None:
        sink = self.sinks[n % len(self.sinks)]
        sink.mode = MODES[what % len(MODES)]
        self.seen[f"sink {sink.mode}"] += 1
        self.say(f"{sink.subscription} is {sink.mode}")

    def _do_key(self, n: int, what: int) -> None:
        """A sink refuses one key, or accepts it again."""
        sink = self.sinks[n % len(self.sinks)]
        key = KEYS[what % len(KEYS)]
        if sink.bad_keys.pop(key, None) is None:
            sink.bad_keys[key] = STATUSES[what // 4 % len(STATUSES)]
        self.say(f"{sink.subscription} answers {sink.bad_keys}")

    def _status(self, sink: Sink, flight: Flight) -> Answer:
        if sink.mode == "down":
            return Answer(None, "refused", connected=False)
        key = decode_json(ActionRecord, flight.attempt.firing.record.value or b"", "").firing.key or ""
        status = {"up": 200, "failing": 500, "denying": 401}[sink.mode]
        return Answer(sink.bad_keys.get(key, status))

    def _arrive(self, flight: Flight) -> None:
        """A delivery reaches its sink."""
        if flight.arrived:
            return
        flight.arrived = True
        sink = self._sink(flight.attempt.firing.subscription)
        answer = self._status(sink, flight)
        flight.answer = answer
        self.say(f"{flight.key.decode()} of {flight.life} arrives: {answer}")
        if answer.status == 200:
            sink.accepted.append(flight.key)

    def _do_arrive(self, n: int, _: int) -> None:
        waiting = [flight for flight in self.flights if not flight.arrived]
        if waiting:
            self._arrive(waiting[n % len(waiting)])

    def _do_answer(self, n: int, _: int) -> None:
        waiting = [flight for flight in self.flights if flight.arrived]
        if waiting:
            self._answer(waiting[n % len(waiting)], lost=False)

    def _do_no_reply(self, n: int, _: int) -> None:
        """A delivery times out; it may still reach its sink later."""
        if self.flights:
            self._answer(self.flights[n % len(self.flights)], lost=True)

    def _answer(self, flight: Flight, *, lost: bool) -> None:
        sink = self._sink(flight.attempt.firing.subscription)
        answer, reply = flight.answer, None
        if lost or answer is None:
            answer = Answer(None, "timeout")
            self.seen["answer lost after the sink accepted"] += flight.arrived
        elif answer.status == 200 and sink.replies:
            reply = Output(EVENT, 0, flight.key, b"reply")
        if flight.arrived or flight.host is None:
            self.flights.remove(flight)
        if answered(flight, answer, reply):
            self.say(f"{flight.key.decode()} is answered to {flight.life}: {answer}")
            if answer.status == 200:
                known = flight.life, flight.key
                self._answers[known] = self._answers.get(known, 0) + 1
                # With other lanes, one that is known may not be the first of its lane: it keeps its turn.
                if self._answers[known] > 1 and len(self.processes) == 1 and not sink.has_changed:
                    self.problem("known", f"{flight.key!r} was sent again although it was known as delivered")

    def _do_refuse(self, _: int, __: int) -> None:
        self.dead_letters_refused = not self.dead_letters_refused
        self.say(f"dead letters are {'refused' if self.dead_letters_refused else 'accepted'}")

    def _do_skip(self, n: int, _: int) -> None:
        """An administrator acknowledges a firing."""
        found = [*self._open()]
        if found:
            tp, _, action = found[n % len(found)]
            self.skipped.add(action.key)
            acked = encode_json(msgspec.structs.replace(action, state="acked"))
            self.cluster.append(tp, action.key, acked)
            self.say(f"{action.key.decode()} is skipped")
            self.seen["firing skipped"] += 1

    # -- checks in the moment

    def sent(self, flight: Flight) -> None:
        """A delivery leaves a process."""
        firing = flight.attempt.firing
        self.say(f"{flight.life} sends {flight.key.decode()}{'' if flight.owner else ' as a zombie'}")
        order = flight.attempt.sink.order
        lane = firing.subscription, firing.lane(order)
        if not flight.owner:
            self.seen["delivery of a zombie"] += 1
            first = self._zombies.setdefault((flight.life, flight.generation, *lane), flight.key)
            if first != flight.key and first not in self.skipped:
                self.problem(
                    "zombie", f"{flight.life} sends {flight.key!r} after {first!r} without ownership"
                )
            return
        log = self.cluster.topics[ACTION].logs[flight.tp.partition]
        deliverer = self._process_of(flight).deliverer
        assert deliverer is not None
        read = deliverer.ownership.partitions[flight.tp].position
        acked_at: dict[bytes, int] = {}
        for offset, action in self._actions(log):
            if action.state == "acked":
                acked_at[action.key] = offset
        # An administrator's acknowledgement may come when the deliverer cannot know it yet.
        if flight.key in acked_at and (flight.key not in self.skipped or acked_at[flight.key] < read):
            self.problem("acked", f"{flight.key!r} is sent although it is acknowledged")
        for offset, action in self._actions(log):
            if offset >= firing.record.offset:
                break
            if (
                action.state != "fired"
                or action.key in acked_at
                or action.subscription != firing.subscription
            ):
                continue
            if order == "partition" or (order == "key" and f"key {action.firing.key}" == firing.by_key):
                self.problem("order", f"{flight.key!r} is sent before {action.key!r}")
        together = [f for f in self.flights if f.host is flight.host]
        of_sink = [f for f in together if f.attempt.firing.subscription == firing.subscription]
        if len({f.key for f in of_sink}) != len(of_sink):
            self.problem("twice", f"{flight.key!r} is sent while it is in flight")
        if len(of_sink) > flight.attempt.sink.max_in_flight:
            self.problem("budget", f"{firing.subscription} has {len(of_sink)} deliveries at once")

    def _check_offsets(self) -> None:
        offsets = self.cluster.group.offsets
        for tp, offset, action in self._open():
            committed = offsets.get(tp)
            if committed is not None and offset < committed.offset:
                self.problem("offset", f"{action.key!r} at {tp}@{offset} is open below {committed.offset}")

    def _accepted_keys(self) -> Counter[tuple[str, str]]:
        """{(subscription, key): how many of its firings the sink has accepted}."""
        found: Counter[tuple[str, str]] = Counter()
        for log in self.cluster.topics[ACTION].logs:
            for _, action in self._actions(log):
                if action.state == "fired":
                    accepted = self._sink(action.subscription).accepted.count(action.key)
                    found[action.subscription, action.firing.key or ""] += accepted
        return found

    def _check_isolation(self, before: Counter[tuple[str, str]]) -> None:
        """Keys that are not bad have made progress, if they had anything open."""
        now = self._accepted_keys()
        for tp, offset, action in self._open():
            key = action.firing.key or ""
            lane = action.subscription, key
            if key not in self._sink(action.subscription).bad_keys and now[lane] == before[lane]:
                self.problem("isolation", f"{action.key!r} at {tp}@{offset} is not delivered")

    def judge(self) -> None:
        """When nothing changes any more: each firing is delivered, or a dead letter, or was skipped."""
        dead_letters: Counter[bytes | None] = Counter()
        for _, entry in self.cluster.topics[DEAD_LETTER].logs[0].history():
            dead_letters[entry.key] += 1
            self._check_dead_letter(entry)
        replies = Counter(entry.key for _, entry in self.cluster.topics[EVENT].logs[0].history())
        for log in self.cluster.topics[ACTION].logs:
            for key in dict.fromkeys(action.key for _, action in self._actions(log)):
                sink = self._sink(key.partition(b"\0")[0].decode())
                delivered = sink.accepted.count(key)
                self.seen["firing delivered"] += delivered > 0
                self.seen["delivery repeated"] += delivered > 1
                self.seen["dead letter"] += dead_letters[key]
                if not delivered and not dead_letters[key] and key not in self.skipped:
                    self.problem("lost", f"{key!r} was neither delivered nor made a dead letter")
                if dead_letters[key] > 1:
                    self.problem("dead letters", f"{key!r} became {dead_letters[key]} dead letters")
                if replies[key] > 1 or (
                    sink.replies and not dead_letters[key] and key not in self.skipped and not replies[key]
                ):
                    self.problem("replies", f"{key!r} has {replies[key]} replies")
                # With other lanes, one that was delivered may not be the first of its lane.
                if self.calm and delivered > 1 and not sink.has_changed:
                    self.problem("repeats", f"{key!r} was delivered {delivered} times without a fault")
            committed = self.cluster.group.offsets.get(log.tp)
            if log.end and (committed is None or committed.offset < log.stable_end):
                self.problem(
                    "behind", f"the committed offset of {log.tp} is {committed}, its end {log.stable_end}"
                )

    def _check_dead_letter(self, dead_letter: Entry) -> None:
        """A firing that is given up for its age is that old, whatever the clock of the process says."""
        reason = dict(dead_letter.headers or ())["interlock_reason"] or b""
        sink = self._sink((dead_letter.key or b"").partition(b"\0")[0].decode())
        if sink.limits_tries or not reason.startswith(b"given up"):
            return
        self.seen["given up for its age"] += 1
        fired_ms = min(
            entry.timestamp_ms
            for log in self.cluster.topics[ACTION].logs
            for _, entry in log.history()
            if entry.key == dead_letter.key
        )
        if dead_letter.timestamp_ms - fired_ms < GIVE_UP_MS:
            self.problem(
                "age", f"{dead_letter.key!r} was given up after {dead_letter.timestamp_ms - fired_ms} ms"
            )

    # -- brokers and processes

    def _process_of(self, flight: Flight) -> DeliveryProcess:
        assert flight.host is not None
        return flight.host.process

    def _process(self, n: int) -> DeliveryProcess:
        return self.processes[n % len(self.processes)]

    def _dead_members(self) -> list[str]:
        names = {process.bus.transactional_id for process in self.processes if process.bus is not None}
        return [member.id for member in self.cluster.group.members.values() if member.client not in names]

    def _mark_all(self) -> None:
        for transaction, target in self.cluster.unmarked():
            self.cluster.mark(transaction, target)

    def _do_run(self, n: int, steps: int) -> None:
        process = self._process(n)
        if process.state == "up":
            self.cluster.now_ms += STEP_MS
            process.run((1, 2, 4, 8, 16, 16, 32, 64)[steps % 8])

            self._look_at(process)

    def _do_into(self, n: int, steps: int) -> None:
        """A process runs into a commit or a delivery, and stays there."""
        process = self._process(n)
        for _ in range(60):
            if process.state != "up":
                return
            process.run(0)
            if process.at in MOMENTS and not (steps := steps // 2) % 2:
                return

    def _look_at(self, process: DeliveryProcess) -> None:
        deliverer = process.deliverer
        if deliverer is None:
            return
        self.seen["firings beyond the window"] += any(
            p.left_out for p in deliverer.ownership.partitions.values()
        )
        self.seen["scan"] += deliverer.scans.count
        self.seen["sink paused"] += any(s.pace.paused_until for s in deliverer.schedule.sinks.values())

    def _do_mark(self, n: int, few: int) -> None:
        found = self.cluster.unmarked()
        if found:
            transaction, target = found[n % len(found)]
            for each in (target,) if few % 4 == 0 else tuple(transaction.unmarked):
                self.cluster.mark(transaction, each)

    def _do_clock(self, n: int, _: int) -> None:
        self.cluster.now_ms += (60, 250, 600, 1100, 3000, 7000, 16000, 60_000)[n % 8]

    def _do_compact(self, n: int, below: int) -> None:
        log = self.cluster.topics[ACTION].logs[n % self.partitions]
        if log.end and self.cluster.compact(ACTION, log.tp.partition, below % (log.end + 1)):
            self.seen["compaction"] += 1

    def _do_rebalance(self, _: int, __: int) -> None:
        if not self.cluster.group.preparing and self.cluster.group.members:
            self.say("a rebalance begins")
            self.cluster.rebalance()

    def _do_kick(self, n: int, _: int) -> None:
        members = [*self.cluster.group.members]
        if members:
            dead = [member for member in self._dead_members() if n % 4]
            member = (dead or members)[n // 4 % len(dead or members)]
            self.say(f"the session of {member} is over")
            self.cluster.leave(member)

    def _do_crash(self, n: int, _: int) -> None:
        process = self._process(n)
        if process.state != "down":
            self.say(f"{process.name} is killed while it {process.at}")
            process.crash()

    def _do_boot(self, n: int, _: int) -> None:
        process = self._process(n)
        if process.state == "down":
            process.boot()

    def _do_stop(self, n: int, _: int) -> None:
        process = self._process(n)
        if process.state == "up":
            self.say(f"{process.name} is asked to stop")
            process.stop()

    def _do_pause(self, n: int, _: int) -> None:
        process = self._process(n)
        if process.state == "up":
            self.say(f"{process.name} is paused while it {process.at}")
            process.state = "paused"

    def _do_resume(self, n: int, _: int) -> None:
        process = self._process(n)
        if process.state == "paused":
            process.state = "up"

    def _do_no_answer(self, n: int, _: int) -> None:
        process = self._process(n)
        if process.state != "down":
            process.fail_next()

    def _do_late_end(self, n: int, lost: int) -> None:
        found = self.cluster.in_flight
        if found:
            request = found[n % len(found)]
            if lost % 4 == 0:
                found.remove(request)
            else:
                self.cluster.end_late(request)

    def _do_time_out(self, n: int, _: int) -> None:
        found = self.cluster.overdue()
        if found:
            self.cluster.time_out(found[n % len(found)])


def play(seed: int, made_of: DeliveryMadeOf = DeliveryMadeOf(), *, trace: bool = False) -> DeliveryWorld:  # noqa: B008
    """Plays one world to its end. What is wrong is in its `problems`."""
    world = DeliveryWorld(seed, made_of)
    if trace:
        world.trace = []
    try:
        world.play()
        world.drain()
        world.judge()
    except Stuck as e:
        world.problem("stuck", str(e))
    except Exception as e:  # whatever a deliverer raises is a finding
        if trace:
            raise
        world.problem("error", f"{type(e).__name__}: {e}")
    finally:
        world.finish()
    return world
