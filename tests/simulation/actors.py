"""Processes in greenlets: each runs until it is stopped, waits, fails, or is killed."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Final, Literal, Protocol, TypeAlias

from greenlet import getcurrent, greenlet
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, UnreachableError
from interlock.engine.protocol.context import Clocks
from interlock.engine.protocol.loop import Engine

from tests.kit.bus import SimulatedBus
from tests.kit.kafka import Cluster
from tests.kit.made_of import MadeOf

CONFIG: Final = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
MONOTONIC_S: Final = 1000.0
WAIT_COST: Final = 5  # steps
COMMIT_STEPS: Final = ("begins a transaction", "writes", "sends EndTxn", "awaits the answer to EndTxn")

ProcessState: TypeAlias = Literal["down", "up", "paused"]


class Crash(BaseException):
    """The process is killed."""


class AnyWorld(Protocol):
    """What a process needs of its world."""

    cluster: Cluster
    chance: Random
    seen: Counter[str]

    def say(self, what: str) -> None: ...


class Process:
    """One process. It runs only inside `run`, until it is stopped or killed.

    skew_s: how far its clock is from the brokers'.
    """

    def __init__(self, name: str, world: AnyWorld, skew_s: float = 0.0) -> None:
        self.name, self.skew_s = name, skew_s
        self.cluster, self.chance, self.seen = world.cluster, world.chance, world.seen
        self.state: ProcessState = "down"
        self.idle = False  # it waits for another process
        self.at = ""  # what it is doing
        self.by_chance = True  # False: no random choices, and another process runs at each wait
        self._say = world.say
        self._error: UnreachableError | None = None
        self._budget = 0
        self._stopping = False
        self._greenlet: greenlet | None = None
        self._start_ms = world.cluster.now_ms

    # -- called by the world

    def boot(self) -> None:
        self.state, self._stopping = "up", False
        self._greenlet = greenlet(self._main)

    def run(self, steps: int) -> None:
        """Runs `steps` steps, or until it waits for another process."""
        assert self._greenlet is not None
        self.idle, self._budget = False, steps
        self._greenlet.switch()
        if self._greenlet.dead:
            self.state = "down"

    def fail_next(self) -> None:
        """The next request is not answered."""
        self._error = UnreachableError("The broker does not answer.")

    def stop(self) -> None:
        """End cleanly after this pass."""
        self._stopping = True

    def crash(self) -> None:
        """Kills the process at its present step; what it had sent may still arrive."""
        assert self._greenlet is not None
        with suppress(Crash):  # raised by a greenlet that has not begun
            if not self._greenlet.dead:
                self._greenlet.throw(Crash)
        self.state = "down"

    # -- inside the greenlet

    def _main(self) -> None:
        try:
            while not self._stopping:
                self._main_once()
                if not self._stopping:
                    self.wait("starts again")
        except Crash:  # by `crash`, or by a record that kills
            self._die()

    def _die(self) -> None:
        """Called when it was killed."""

    def _main_once(self) -> None:
        """Runs until it fails, or is stopped."""
        raise NotImplementedError

    def _clock(self) -> float:
        return self.cluster.now_ms / 1000 + self.skew_s

    def _monotonic(self) -> float:
        return MONOTONIC_S + (self.cluster.now_ms - self._start_ms) / 1000

    # -- Host

    def pause(self, what: str) -> None:
        self.at = what
        self._budget -= 1
        if self._budget < 0:
            getcurrent().parent.switch()
        if self._error is not None:
            error, self._error = self._error, None
            self.say(f"{what}: no answer")
            self.seen["no answer while it " + (what if what in COMMIT_STEPS else "asks")] += 1
            raise error

    def wait(self, what: str) -> None:
        self.at = what
        self._budget -= WAIT_COST
        if not self.by_chance or self._budget < 0:
            self.idle = True
            getcurrent().parent.switch()
        error, self._error = self._error, None
        if error is not None and self._asks:
            raise error

    @property
    def _asks(self) -> bool:
        """Whether it makes requests now, so that one can fail."""
        return True

    def choose(self, most: int) -> int:
        return int(self.chance.random() * most) if self.by_chance and most > 1 else 0

    def say(self, what: str) -> None:
        self._say(f"{self.name}: {what}")

    def note(self, what: str) -> None:
        self.seen[what] += 1


class Actor(Process):
    """A process with an engine, and the host of its buses."""

    def __init__(
        self,
        number: int,
        world: AnyWorld,
        skew_s: float,
        made_of: MadeOf,
    ) -> None:
        super().__init__(f"e{number}", world, skew_s)
        self._made_of = made_of
        self._parts = replace(made_of.parts, clocks=Clocks(self._clock, self._monotonic))
        self.bus: SimulatedBus | None = None
        self.engine: Engine | None = None
        self.process = ""  # a new name at each boot
        self.troubled: set[str] = set()  # processes that did not end cleanly, or that the group removed
        self._boots = self._starts = 0

    @property
    def _asks(self) -> bool:
        return self.bus is not None

    def boot(self) -> None:
        super().boot()
        self._boots, self._starts = self._boots + 1, 0
        self.process = f"{self.name}-{self._boots}"

    def run(self, steps: int) -> None:
        super().run(steps)
        if self.state != "down" and self.engine is not None and self.engine.cuts.wants_commits:
            self.seen["cut that waited"] += 1

    def run_into(self, steps: int) -> bool:
        """Runs up to the commit step that is `steps` ahead; False if it waits or ends earlier."""
        for _ in range(100):
            self.run(0)
            if self.state != "up":
                return False
            if self.at in COMMIT_STEPS:
                steps -= 1
                if steps < 0:
                    return True
        return False

    def crash(self) -> None:
        if self.bus is not None:
            self.bus.dead = True
            if self.at in COMMIT_STEPS:
                self.seen[f"crash while it {self.at}"] += 1
        super().crash()
        self._die()

    def _die(self) -> None:
        self.troubled.add(self.process)
        if self.bus is not None:
            self.bus.dead = True
        self.bus = self.engine = None

    def _main(self) -> None:
        try:
            super()._main()
        except Exception:
            if self.bus is None or not self.bus.dead:
                raise

    def _main_once(self) -> None:
        self._starts += 1
        bus: SimulatedBus | None = None
        engine: Engine | None = None
        try:
            self.bus = bus = self._made_of.bus(self.cluster, self, f"{self.process}.{self._starts}")
            self.engine = engine = self._made_of.engine(bus, CONFIG, parts=self._parts)
            while not self._stopping:
                engine.run_pass()
            engine.end()
        except EngineError as e:
            self.say(f"fails: {type(e).__name__}: {e}")
            self.seen[f"engine ended by {type(e).__name__}"] += 1
            self.troubled.add(self.process)
        if engine is not None:
            engine.close()
        elif bus is not None:
            bus.close()
        self.bus = self.engine = None
