"""What a delivery costs beside aiohttp alone; the rate with a slow sink, and with a key that fails.

A turn writes firings to the action topic as an engine writes them, and ends when all are acknowledged. No
engine runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from interlock.engine.config import BusConfig

from ..engine.load import new_bus
from ..lines import Aim, report
from ..sizes import number
from .load import IN_FLIGHT, KEYS, FiringWriter, Sink, key_of, write_sinks
from .processes import HOST, Process
from .sink import DEAD_KEY, PATHS

TURNS: Final = 5
FIRING, EVENT = Sink("quick-firing", "quick"), Sink("quick-event", "quick", "event")
SLOW: Final = Sink("slow", "slow")
DEAD: Final = {
    "answers 500": Sink("dead-500", "dead-500"),
    "answers 503": Sink("dead-503", "dead-503"),
    "does not answer within 1 s": Sink("dead-silent", "dead-silent", timeout_s=1.0),
}
SINKS: Final = (FIRING, EVENT, SLOW, *DEAD.values())


class Turn(NamedTuple):
    """cpu_us: processor time of a delivery. rate: deliveries a second."""

    cpu_us: float
    rate: float


class Turns(list[Turn]):
    @property
    def cpu_us(self) -> list[float]:
        return [turn.cpu_us for turn in self]

    @property
    def rates(self) -> list[float]:
        return [turn.rate for turn in self]


class Sides:
    """The sides that take turns: a deliverer, and aiohttp alone."""

    def __init__(self, config: BusConfig, deliverer: Process, plain: Process, count: int) -> None:
        self._deliverer, self._plain, self._count = deliverer, plain, count
        self._firings, self._acknowledged = FiringWriter(config), 0

    def delivered(self, sink: Sink) -> Turn:
        """Has firings delivered to this sink, until all but those of a key that fails are acknowledged."""
        first = self._firings.written
        show = self._firings.hide(sink.name, self._count)
        failing = PATHS[sink.path].dead != 202
        numbers = range(first, self._firings.written)
        wanted = sum(not failing or key_of(n) != DEAD_KEY for n in numbers)
        before, started = self._deliverer.cpu_s(), time.perf_counter()
        show()
        self._acknowledged += wanted
        while int(self._deliverer.line()) < self._acknowledged:
            pass
        took, cpu_s = time.perf_counter() - started, self._deliverer.cpu_s() - before
        return Turn(cpu_s / wanted * 1e6, wanted / took)

    def posted(self, sink: Sink) -> Turn:
        """Sends as many requests with aiohttp alone."""
        before = self._plain.cpu_s()
        self._plain.tell(sink=sink.name, count=self._count)
        took = float(self._plain.line())
        return Turn((self._plain.cpu_s() - before) / self._count * 1e6, self._count / took)


def run(bootstrap_servers: str) -> None:
    """EVENTS: firings of a turn. KEYS: their keys."""
    config = new_bus("delivery", bootstrap_servers)
    settings = {"name": config.name, "client": dict(config.client)}
    count = number("EVENTS", 3_000)
    with Process("sink") as sink:
        port = int(sink.line())
        write_sinks(config, port, SINKS)
        urls = {each.name: [f"http://{HOST}:{port}/{each.path}", each.send] for each in (FIRING, EVENT, SLOW)}
        with (
            Process("delivering", **settings) as deliverer,
            Process("plain", config=settings, sinks=urls, in_flight=IN_FLIGHT) as plain,
        ):
            sides = Sides(config, deliverer, plain, count)
            for _ in range(2):  # not counted: the first ones are slower
                sides.posted(FIRING)
                sides.delivered(FIRING)
            for each in (FIRING, EVENT):
                _cost(sides, each)
            _rate(sides)


def _cost(sides: Sides, sink: Sink) -> None:
    plain, own = Turns(), Turns()
    for _ in range(TURNS):
        plain.append(sides.posted(sink))
        own.append(sides.delivered(sink))
    what = "the firing" if sink.send == "firing" else "its event"
    about = f"processor time of a request, {what} is sent, {IN_FLIGHT} in flight"
    report(f"aiohttp alone: {about}", statistics.median(plain.cpu_us), "us", turns=plain.cpu_us)
    ratio = _ratio(own.cpu_us, plain.cpu_us)
    aim = Aim("ratio at most", 1.35)
    about = f"processor time of a delivery, {what} is sent, {IN_FLIGHT} in flight, {KEYS} keys"
    report(f"deliverer: {about}", statistics.median(own.cpu_us), "us", ratio, aim=aim, turns=own.cpu_us)
    about = f"a sink that answers at once, {what} is sent"
    report(f"aiohttp alone: {about}", statistics.median(plain.rates), "deliveries/s", turns=plain.rates)
    ratio = _ratio(own.rates, plain.rates)
    report(f"deliverer: {about}", statistics.median(own.rates), "deliveries/s", ratio, turns=own.rates)


def _rate(sides: Sides) -> None:
    plain, healthy = Turns(), Turns()
    failing: Mapping[str, Turns] = {how: Turns() for how in DEAD}
    for _ in range(TURNS):
        plain.append(sides.posted(SLOW))
        healthy.append(sides.delivered(SLOW))
        for how, sink in DEAD.items():
            failing[how].append(sides.delivered(sink))
    about = f"a sink that answers after 20 ms, {IN_FLIGHT} in flight"
    report(f"aiohttp alone: {about}", statistics.median(plain.rates), "deliveries/s", turns=plain.rates)
    about = f"deliverer: {about}, ordered by {KEYS} keys"
    ratio = _ratio(healthy.rates, plain.rates)
    aim = Aim("figure at least", 1_000)
    report(about, statistics.median(healthy.rates), "deliveries/s", ratio, aim=aim, turns=healthy.rates)
    for how, found in failing.items():
        ratio = _ratio(found.rates, healthy.rates)
        more = f"{about}; for one key it {how}: the others"
        aim = Aim("ratio at least", 0.9)
        report(more, statistics.median(found.rates), "deliveries/s", ratio, aim=aim, turns=found.rates)


def _ratio(own: Sequence[float], baseline: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, baseline, strict=True))
