"""A world of deliveries: brokers, deliverers, sinks, a network, users and faults, all from one seed.

Engines are played by the world: it writes firings. What leaves a process, and what reaches a sink, is checked
in the moment in which it happens; the rest when nothing changes any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from tests.simulation.brokers import Brokers
from tests.simulation.deliverers import SMALL, USUAL, DeliveryMadeOf, DeliveryProcess, Flight
from tests.simulation.deliveries_oracle import DeliveriesOracle
from tests.simulation.firings import Firings
from tests.simulation.processes import Processes
from tests.simulation.sinks import Sinks
from tests.simulation.topics import ACTION, DEAD_LETTER, EVENT, REGISTRY

STEPS: Final = 140
STEP_MS: Final = 40
ROUND_MS: Final = 600
ROUNDS: Final = 400
ISOLATED_ROUNDS: Final = 80  # longer than a paused sink waits for its next try
REFUSED_ROUNDS: Final = 5
REFUSED: Final = (frozenset({DEAD_LETTER}), frozenset({DEAD_LETTER, EVENT}))
QUIET_ROUNDS: Final = 4
MOMENTS: Final = (
    "sends",
    "begins a transaction",
    "writes",
    "sends the offsets",
    "sends EndTxn",
    "awaits the answer to EndTxn",
)

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


class Stuck(AssertionError):
    """Something is not delivered although nothing prevents it."""


class DeliveryWorld:
    """Use `play`. problems: what is wrong. seen: situations, and how often they came.

    trace: set it to a list to have what happens in words.
    """

    def __init__(self, seed: int | str, made_of: DeliveryMadeOf = DeliveryMadeOf()) -> None:  # noqa: B008
        self.rng = rng = Random(f"deliveries {seed}")
        self.chance = Random(f"delivery chance {seed}")
        self.cluster = cluster = made_of.cluster()
        self.seen: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.problems: list[str] = []
        self.flights: list[Flight] = []
        self.refused = frozenset[str]()
        self.calm = isinstance(seed, int) and seed % 8 == 0
        self._has_backlog = isinstance(seed, int) and seed % 4 == 3
        cluster.create(ACTION, rng.choice((1, 2, 3)), compact=True)
        cluster.create(REGISTRY.topic, 1, compact=True)
        cluster.create(DEAD_LETTER, 1)
        cluster.create(EVENT, 1)
        self._sinks = Sinks(rng, self)
        self._firings = Firings(self, self._sinks)
        self._oracle = DeliveriesOracle(self, self._sinks, self._firings)
        limits = SMALL if rng.random() < 0.4 or self._has_backlog else USUAL
        self.processes: Sequence[DeliveryProcess] = [
            DeliveryProcess(n, self, rng.choice((0.0, 0.0, -90.0, 45.0)), limits, made_of)
            for n in range(1 if self.calm else rng.choice((1, 2, 2, 3)))
        ]
        for process in self.processes:
            process.boot()
        self._brokers = Brokers(self, self.processes)
        self._actions: Mapping[str, Callable[[int, int], object]] = {
            "run": self._run,
            "into": self._run_into,
            "refuse": self._refuse,
            "clock": self._move_clock,
            "compact": self._compact,
            **self._brokers.actions,
            **Processes(self.processes, self.say).actions,
            **self._sinks.actions,
            **self._firings.actions,
        }

    def say(self, what: str) -> None:
        if self.trace is not None:
            at = (self.cluster.now_ms - 1_000_000_000_000) / 1000
            self.trace.append(f"{len(self.trace) + 1:4} {at:9.3f} {what}")

    def problem(self, kind: str, what: str) -> None:
        self.say(f"PROBLEM {kind}: {what}")
        self.problems.append(f"{kind}: {what}")

    def sent(self, flight: Flight) -> None:
        self.say(f"{flight.life} sends {flight.key.decode()}{'' if flight.owner else ' as a zombie'}")
        self._oracle.sent(flight)

    def acceptance_arrived(self, flight: Flight) -> None:
        self._oracle.acceptance_arrived(flight)

    # -- the random phase

    def play(self, steps: int = STEPS) -> None:
        rng = self.rng
        if self._has_backlog:
            self._firings.pile_up(rng)
            steps *= 3
        for _ in range(steps):
            name = rng.choices(_NAMES, WEIGHTS)[0]
            if not (self.calm and name in FAULTS):
                self._actions[name](rng.randrange(1 << 16), rng.randrange(1 << 16))
            self._oracle.check_offsets()

    def _process(self, n: int) -> DeliveryProcess:
        return self.processes[n % len(self.processes)]

    def _run(self, n: int, steps: int) -> None:
        process = self._process(n)
        if process.state == "up":
            self.cluster.now_ms += STEP_MS
            process.run((1, 2, 4, 8, 16, 16, 32, 64)[steps % 8])
            self._look_at(process)

    def _run_into(self, n: int, steps: int) -> None:
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
        self.seen["scan of what was noted"] += deliverer.scans.noted_count
        self.seen["sink paused"] += any(s.pace.paused_until for s in deliverer.schedule.sinks.values())

    def _refuse(self, _: int, __: int) -> None:
        self.refused = frozenset() if self.refused else REFUSED[0]
        self.say(f"records are refused of {sorted(self.refused)}")

    def _move_clock(self, n: int, _: int) -> None:
        self.cluster.now_ms += (60, 250, 600, 1100, 3000, 7000, 16000, 60_000)[n % 8]

    def _compact(self, n: int, below: int) -> None:
        logs = self.cluster.topics[ACTION].logs
        log = logs[n % len(logs)]
        if log.end and self.cluster.compact(ACTION, log.tp.partition, below % (log.end + 1)):
            self.seen["compaction"] += 1

    # -- without faults

    def drain(self) -> None:
        """No faults any more, but a bad key of each sink, until all sinks accept everything."""
        self.say("-- drain")
        self.refused = frozenset()
        self.cluster.in_flight.clear()
        self._firings.end(commit=True)
        for process in self.processes:
            process.by_chance = False
            if process.state == "down":
                process.boot()
            process.state = "up"
        self._sinks.mend()
        before = self._oracle.accepted_keys()
        self._settle(ISOLATED_ROUNDS)
        self._oracle.check_isolation(before)
        self._change_orders_while_refused()
        self._sinks.accept_all()
        self._settle(ROUNDS)

    def _change_orders_while_refused(self) -> None:
        """Another order takes effect, although dead letters of a key, and perhaps replies, are refused."""
        self.say("-- other orders")
        self.refused = self.rng.choice(REFUSED)
        self._sinks.refuse_a_key()
        self._firings.fire_all_keys()
        self._settle(REFUSED_ROUNDS)
        for process in self.processes:
            dones = () if process.deliverer is None else process.deliverer.acknowledgements.done.values()
            self.seen["order changed while a dead letter is refused"] += any(done.refused for done in dones)
        self._sinks.change_orders()
        before = self._oracle.accepted_keys()
        self._firings.fire_all_keys()
        for _ in range(ISOLATED_ROUNDS):
            self._settle(1)
            if not [*self._oracle.delayed(before)]:
                break
        self._oracle.check_isolation(before)
        self.refused = frozenset()

    def judge(self) -> None:
        """After the drain."""
        self._oracle.judge()

    def _settle(self, rounds: int) -> None:
        quiet, before = 0, None
        for _ in range(rounds):
            self._go_round()
            self._oracle.check_offsets()
            now = self._durable()
            waits = self.flights or any(each.decision == "open" for each in self.cluster.transactions)
            quiet = quiet + 1 if now == before and not waits else 0
            before = now
            if quiet >= QUIET_ROUNDS and not [*self._firings.open()]:
                return
            self.cluster.now_ms += ROUND_MS
        if rounds == ROUNDS:
            raise Stuck(f"not delivered: {[*self._firings.open()][:4]}, flights {len(self.flights)}")

    def _go_round(self) -> None:
        if self._brokers.end_the_dead():
            self.calm = False  # a process that stands still for so long in a transaction is a fault
        for process in self.processes:
            self._brokers.mark_all()
            if process.state == "down":
                process.boot()
            process.run(300)
            self._look_at(process)
            self._sinks.carry_all()
        self._brokers.mark_all()

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
