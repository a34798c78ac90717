"""A world: brokers, engines, users and faults, all from one seed. It uses no clock, hash order or I/O.

The random phase makes actions by chance, or repeats a list of them; the drain phase has no faults, and ends
when nothing changes any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias

from interlock.engine.bus import TopicPartition
from interlock.engine.protocol import outputs
from interlock.engine.protocol.housekeeping import SETTLED_S
from interlock.engine.protocol.poison.suspects import process_of

from tests.kit.made_of import REAL, MadeOf
from tests.simulation.actors import Actor
from tests.simulation.brokers import Brokers
from tests.simulation.cleaning import Cleaning
from tests.simulation.lethal import LethalRecords
from tests.simulation.processes import Processes
from tests.simulation.producers import Producers
from tests.simulation.topics import ACTION, DEAD_LETTER, EVENT, ORDERS, REGISTRY, STATE, TRIGGER
from tests.simulation.users import HOUR_MS, Users
from tests.simulation.waiting import EVERY, TURN, Waiting

Action: TypeAlias = tuple[str | int, ...]

PASS_RECORDS: Final = outputs.MAX_PASS_RECORDS
FEW: Final = 4
STEPS: Final = 120
STEP_MS: Final = 40
WAIT_STEPS: Final = 60
DRAIN_ROUNDS: Final = 400
ROUND_MS: Final = 600
QUIET_ROUNDS: Final = 4
BEYOND_TIMERS_MS: Final = 60_000

# What happens, and how often.
CHANCES: Final[tuple[tuple[str, int], ...]] = (
    ("run", 250),
    ("into", 190),
    ("emit", 170),
    ("mark", 170),
    ("register", 45),
    ("again", 8),
    ("change", 10),
    ("clear", 8),
    ("remove", 8),
    ("race", 8),
    ("acknowledge", 14),
    ("poison", 5),
    ("clock", 80),
    ("compact", 24),
    ("retain", 4),
    ("rebalance", 8),
    ("kick", 16),
    ("crash", 16),
    ("boot", 36),
    ("stop", 4),
    ("pause", 9),
    ("resume", 24),
    ("no answer", 6),
    ("late end", 20),
    ("time out", 10),
    ("partition", 3),
    ("list", 3),
)
_NAMES, WEIGHTS = [name for name, _ in CHANCES], [weight for _, weight in CHANCES]


class Stuck(AssertionError):
    """The drain phase does not end."""


class World:
    """Play it with `play` and `drain`, then `finish` it. seen: situations, and how often they came.

    trace: set it to a list to have what happens in words. done: the actions that the random phase made.
    """

    def __init__(self, seed: int | str, made_of: MadeOf = REAL) -> None:
        self.seed = seed
        self.rng = rng = Random(f"world {seed}")
        self.chance = Random(f"chance {seed}")
        self.cluster = cluster = made_of.cluster()
        self.seen: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.done: list[Action] = []
        sources, self.triggers = rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 2, 2, 3))
        listed = rng.random() < 0.3
        cluster.create(EVENT, sources)
        cluster.create(TRIGGER, self.triggers)
        cluster.create(STATE, self.triggers, compact=True)
        cluster.create(ACTION, self.triggers, compact=True)
        cluster.create(REGISTRY.topic, 1, compact=True)
        cluster.create(DEAD_LETTER, 1)
        cluster.create(ORDERS, rng.choice((1, 2)), log_append_time=rng.random() < 0.5)
        self.producers = Producers(seed, self, listed=listed)
        self.users = Users(rng, self)
        self.with_triggerers = True  # those that are down are started again in each round
        # {partition: number of its commits before its offset expired}; it was read again from its start
        self.forgotten: dict[TopicPartition, int] = {}
        self.lethal = LethalRecords(seed, self)
        made_of = replace(made_of, parts=self.lethal.into(made_of.parts))
        self.actors = [
            Actor(n, self, rng.choice((0.0, 0.0, -90.0, 45.0)), made_of)
            for n in range(rng.choice((1, 2, 2, 3)))
        ]
        # if a pass holds few records, the rest of a batch waits in memory
        outputs.MAX_PASS_RECORDS = FEW if rng.random() < 0.2 else PASS_RECORDS
        for actor in self.actors:
            actor.boot()
        with_waits = isinstance(seed, int) and seed % EVERY == TURN
        self.waiting = Waiting(self, seed, made_of) if with_waits else None
        self._brokers = Brokers(self, self.actors, self._exclude)
        self.cleaning = Cleaning(self, self.actors, self.producers, self.users, keeps_registry=with_waits)
        self._actions: Mapping[str, Callable[..., bool]] = {
            "run": self._run,
            "into": self._run_into,
            "clock": self._move_clock,
            "waits": self._continue_waits,
            **self._brokers.actions,
            **Processes(self.actors, self.say).actions,
            **self.cleaning.actions,
            **self.producers.actions,
            **self.users.actions,
        }
        for _ in range(rng.choice((0, 0, 4, 12))):  # what a look-back finds
            self.producers.emit_one(rng.randrange(16), rng.randrange(1 << 16))
            self.cluster.now_ms += 120
        if rng.random() < 0.7:
            self._warm_up()

    def _warm_up(self) -> None:
        """Let the engines share the partitions, so that the random phase need not."""
        for actor in self.actors:
            actor.by_chance = False
        for _ in range(6):
            self.go_round()
            if all(actor.engine is not None and actor.engine.is_open for actor in self.actors):
                break
            self.cluster.now_ms += 100
        for actor in self.actors:
            actor.by_chance = True

    @property
    def troubled(self) -> set[str]:
        """Processes whose end, or absence, may count for a record."""
        return {process for actor in self.actors for process in actor.troubled}

    def say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{len(self.trace) + 1:4} {self._clock_text()} {what}")

    def _clock_text(self) -> str:
        return f"{(self.cluster.now_ms - 1_000_000_000_000) / 1000:9.3f}"

    # -- the random phase

    def play(self, steps: int = STEPS) -> None:
        """The random phase."""
        rng = self.rng
        for n in range(steps):
            if self.waiting is not None and n % 2:
                self._act(("waits", *self.waiting.choose()))
            name = rng.choices(_NAMES, WEIGHTS)[0]
            self._act((name, *self._arguments(name)))
        if self.waiting is not None:
            self._play_waits(self.waiting)

    def _play_waits(self, waiting: Waiting) -> None:
        """Delivers what has fired by now, while engines continue."""
        for n in range(WAIT_STEPS):
            self._act(("waits", *waiting.choose()))
            if n % 6 == 0:
                self._act(("boot", n, 0))
                self._act(("run", n // 6 % len(self.actors), 64))
                self._act(("mark", 0, 1))

    def replay(self, actions: list[Action]) -> None:
        for action in actions:
            self._act(action)

    def _act(self, action: Action) -> None:
        if self.act(action):
            self.done.append(action)

    def _arguments(self, name: str) -> tuple[int, ...]:
        rng = self.rng
        if name == "run":
            return (rng.randrange(len(self.actors)), rng.choice((1, 2, 4, 8, 16, 16, 32, 64)))
        if name == "into":
            return (rng.randrange(len(self.actors)), rng.choice((0, 1, 1, 2, 3, 4, 6)))
        if name == "clock":
            return (rng.choice((1, 60, 60, 120, 250, 250, 600, 1100, 1100, 3000, 7000, 16000)),)
        return (rng.randrange(1 << 16), rng.randrange(1 << 16))

    def act(self, action: Action) -> bool:
        """Carries out an action; False if it does not apply now."""
        name, *arguments = action
        return self._actions[str(name)](*arguments)

    def _run(self, n: int, steps: int) -> bool:
        actor = self.actors[n]
        self._supervise(actor)
        if actor.state != "up":
            return False
        self.cluster.now_ms += STEP_MS
        actor.run(steps)
        return True

    def _run_into(self, n: int, steps: int) -> bool:
        """An engine runs until it is inside a commit, and stays there for the next action."""
        actor = self.actors[n]
        self._supervise(actor)
        if actor.state != "up":
            return False
        self.cluster.now_ms += STEP_MS
        actor.run_into(steps)
        return True

    def _supervise(self, actor: Actor) -> None:
        """If records kill, starts dead engines again, so that some can be killed; brokers notice the dead."""
        if self.lethal.places and actor.state == "down":
            for member in self._brokers.dead_members():
                self.cluster.leave(member)
            actor.boot()

    def _move_clock(self, ms: int) -> bool:
        self.cluster.now_ms += ms
        return True

    def _continue_waits(self, name: str, n: int, what: int) -> bool:
        return self.waiting is not None and self.waiting.act(name, n, what)

    def _exclude(self, client: str) -> None:
        """The group removes a member whose process may be alive."""
        for actor in self.actors:
            if actor.process == process_of(client):
                actor.troubled.add(actor.process)

    # -- without faults

    def drain(self) -> None:
        """Runs without faults until nothing changes, moves the clock beyond the timers, and runs again."""
        self.say("-- drain")
        cluster = self.cluster
        for actor in self.actors:
            actor.by_chance = False
            if actor.state == "down":
                actor.boot()
            actor.state = "up"
        if self.waiting is not None:
            self.waiting.mend()
        cluster.in_flight.clear()
        self.settle()
        cluster.now_ms += BEYOND_TIMERS_MS
        self.settle()
        if self.waiting is not None:  # the trigger ended last may have replaced a wait, which must notice it
            cluster.now_ms += BEYOND_TIMERS_MS
            self.settle()

    def age(self) -> None:
        """After the drain: the process that writes the leases is killed, and a month goes by."""
        self.users.write_lease()
        self.say("-- a month goes by")
        for ms in (25 * HOUR_MS, 31 * 24 * HOUR_MS):
            self.cluster.now_ms += ms
            self.settle()
            self.cluster.now_ms += int(SETTLED_S * 1000)  # an engine that has just started sweeps no sooner
            self.settle()

    def settle(self) -> None:
        """Runs rounds until nothing changes."""
        quiet, before = 0, None
        for _ in range(DRAIN_ROUNDS):
            self.go_round()
            now = self.durable()
            quiet = quiet + 1 if now == before else 0
            before = now
            if quiet >= QUIET_ROUNDS:
                return
            self.cluster.now_ms += ROUND_MS
        raise Stuck(f"After {DRAIN_ROUNDS} rounds something still changes, or waits: {before}")

    def go_round(self) -> None:
        """Brokers do what is due, and each engine continues."""
        self.end_the_dead()
        for actor in self.actors:
            self._brokers.mark_all()
            if actor.state == "down":
                actor.boot()
            if actor.state == "up":
                actor.run(400)
        if self.waiting is not None:
            self.waiting.go_round(boot=self.with_triggerers)
        self._brokers.mark_all()

    def end_the_dead(self) -> None:
        """Brokers end sessions and transactions of those that are gone."""
        self._brokers.end_the_dead()
        self._brokers.mark_all()

    def durable(self) -> tuple[object, ...]:
        """The stored state, which differs if anything has changed."""
        cluster = self.cluster
        return (
            tuple((name, log.end, log.start) for name, topic in cluster.topics.items() for log in topic.logs),
            tuple(cluster.group.offsets.items()),
            cluster.group.generation,
            () if self.waiting is None else self.waiting.facts(),
        )

    def finish(self) -> None:
        """End all processes."""
        outputs.MAX_PASS_RECORDS = PASS_RECORDS
        self.lethal.finish()
        if self.waiting is not None:
            self.waiting.finish()
        for actor in self.actors:
            if actor.state != "down":
                actor.crash()
