"""Deliverers that are killed, leave and come back, and the address that they send to, which misbehaves."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord

from tests.kit import sinks
from tests.kit.sinks import Behaviour, Received, Sink

from .deliveries import Arrival
from .load import Load
from .processes import STEPS, EngineProcess

DEPLOYMENT: Final = "chaos"
DELIVERERS: Final = 3
IN_FLIGHT: Final = 16  # deliveries of one sink at a time
TIMEOUT_S: Final = 2.0
RETRY: Final = Retry(delay_s=0.1, most_delay_s=1.0, retry_after_most_s=2.0, timeout_s=TIMEOUT_S)
KILL_EVERY_S: Final = 12.0
DIES_WITHIN_S: Final = 10.0
AWAY_EVERY_S, AWAY_S = 40.0, 4.0  # the sink takes nothing at all
SLOW_S: Final = 0.05
_ACCEPTED: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"


def sink_record(subscription: str, url: str) -> SinkRecord:
    return SinkRecord(subscription=subscription, connection=url, max_in_flight=IN_FLIGHT, retry=RETRY)


class MisbehavingSink:
    """As a context manager it serves, and logs each request to a file.

    It accepts most requests, some of them slowly or with an answer that is cut. The others get 500, 429 or
    503 with Retry-After, 400, no answer at all, one that drips, or a reset.
    """

    def __init__(self, seed: int, log: Path) -> None:
        self._random = random.Random(f"sink {seed}")
        self._log = log.open("wb")
        self._sink = Sink(self._behave)
        self._started = time.monotonic()
        self.misbehaves = True
        self.arrived = 0

    @property
    def url(self) -> str:
        return self._sink.url

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.__exit__(kind, error, trace)
        self._log.close()

    def _behave(self, received: Received) -> Behaviour:
        accepted, behaviour = self._choice()
        attributes = received.attributes
        arrival = Arrival(
            subscription=attributes["source"].lstrip("/"),
            firing=attributes["id"],
            key=attributes.get("subject", ""),
            sequence=int(attributes["interlocksequence"]),
            accepted=accepted,
        )
        self._log.write(msgspec.json.encode(arrival) + b"\n")
        self._log.flush()
        self.arrived += 1
        del self._sink.received[:]  # the log has it
        return behaviour

    def _choice(self) -> tuple[bool, Behaviour]:
        if not self.misbehaves:
            return True, sinks.answer(202)
        if (time.monotonic() - self._started) % AWAY_EVERY_S > AWAY_EVERY_S - AWAY_S:
            return False, sinks.reset()
        later = {"retry-after": "1"}
        kinds: list[tuple[int, bool, Callable[[], Behaviour]]] = [
            (70, True, lambda: sinks.answer(202)),
            (15, True, lambda: _slowly(self._random.uniform(0, SLOW_S))),
            (2, True, lambda: sinks.raw(_ACCEPTED)),
            (3, False, lambda: sinks.answer(500)),
            (2, False, lambda: sinks.answer(503, later)),
            (2, False, lambda: sinks.answer(429, later)),
            (2, False, sinks.reset),
            (1, False, sinks.hang),
            (1, False, lambda: sinks.drip(b"x", start=b"HTTP/1.1 5")),
            (2, False, lambda: sinks.answer(400)),
        ]
        [(_, accepted, make)] = self._random.choices(kinds, [weight for weight, *_ in kinds])
        return accepted, make()


def _slowly(seconds: float) -> Behaviour:
    async def behave(writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(seconds)
        return await sinks.answer(202)(writer)

    return behave


class Deliverers:
    """The deliverers of a run: keeps their number constant, and ends one now and then.

    Most are killed at a step of a commit; others at any time, or they leave. kills: how many were killed.
    """

    def __init__(
        self, bus: dict[str, Any], folder: Path, count: int, seed: int, say: Callable[[str], None]
    ) -> None:
        self._bus, self._folder, self._count, self._say = bus, folder, count, say
        self._random = random.Random(f"deliverers {seed}")
        self._running: list[EngineProcess] = []
        self._dying: tuple[EngineProcess, float] | None = None
        self._started = self.kills = self.ended_by_themselves = 0
        self._next = time.monotonic() + KILL_EVERY_S
        self.resting = False

    def start(self) -> None:
        while len(self._running) < self._count:
            self._started += 1
            name = f"deliverer-{self._started}"
            client = {**self._bus["client"], "client.id": name}
            bus = dict(self._bus, deployment=DEPLOYMENT, client=client)
            self._running.append(EngineProcess.start(name, bus, self._folder, delivers=True))

    def tend(self) -> None:
        """Count the dead, start others, and end one if it is time."""
        now = time.monotonic()
        for each in [each for each in self._running if not each.alive]:
            self._running.remove(each)
            each.close()
            if each.process.returncode == -9:
                self.kills += 1
            else:
                self.ended_by_themselves += 1
                self._say(f"{each.name} ended by itself: {each.process.returncode}, see {each.log}")
        if self._dying is not None and (not self._dying[0].alive or now > self._dying[1]):
            if self._dying[0].alive:
                self._dying[0].process.kill()
            self._dying = None
        self.start()  # also so that there is one to choose
        if now >= self._next and not self.resting and self._dying is None:
            self._next = now + KILL_EVERY_S * self._random.uniform(0.5, 1.5)
            self._end(self._random.choice(self._running))

    def _end(self, victim: EngineProcess) -> None:
        how = self._random.random()
        if how < 0.6:
            victim.die_at(self._random.choice(STEPS))
            self._dying = victim, time.monotonic() + DIES_WITHIN_S
        elif how < 0.8:
            victim.process.kill()
        else:
            self._running.remove(victim)
            threading.Thread(target=victim.terminate, daemon=True).start()

    def stop(self) -> None:
        for each in self._running:
            each.process.terminate()
        for each in self._running:
            each.terminate()


class Delivery:
    """The deliverers, two sinks at one address, and their log."""

    def __init__(self, bus: dict[str, Any], folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self.log = folder / "sink.log"
        self._sink = MisbehavingSink(seed, self.log)
        self._deliverers = Deliverers(bus, folder, DELIVERERS, seed, say)
        self._stack = ExitStack()

    def start(self, load: Load) -> None:
        self._stack.enter_context(self._sink)
        self._stack.callback(self._deliverers.stop)
        names = (f"{DEPLOYMENT}/deliver/{name}" for name in ("events", "pairs"))
        load.deliver([sink_record(name, self._sink.url) for name in names])
        self._deliverers.start()

    def tend(self) -> None:
        self._deliverers.tend()

    def rest(self) -> None:
        """No more kills, and the sink accepts everything."""
        self._deliverers.resting, self._sink.misbehaves = True, False

    def stop(self) -> None:
        self._stack.close()

    @property
    def result(self) -> dict[str, int]:
        deliverers = self._deliverers
        return {
            "requests": self._sink.arrived,
            "kills": deliverers.kills,
            "ended_by_themselves": deliverers.ended_by_themselves,
        }


def failures(found: dict[str, int], seconds: float, faults: int) -> list[str]:
    """Sentences about what is wrong with the deliveries. faults: of engines, broker and network."""
    names = ("missing", "disordered", "unexpected", "open", "ended_by_themselves")
    wrong = [f"deliveries: {found[name]} {name}" for name in names if found[name]]
    most = 2 * IN_FLIGHT * (found["kills"] + faults)
    if found["repeated"] > most:
        wrong.append(f"deliveries: {found['repeated']} repeated, and at most {most} were in flight")
    if found["firings"] < seconds:
        wrong.append(f"deliveries: {found['firings']} firings, and {seconds:.0f} are needed")
    if faults and found["kills"] < seconds / 4 / KILL_EVERY_S:
        wrong.append(f"deliveries: too few kills of deliverers: {found['kills']}")
    return wrong
