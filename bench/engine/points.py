"""How many events a second engines take, for one choice of load, condition, registrations and topics.

A point has a bus of its own. Its engines, a process each, have joined before the first event. All events of
a turn are produced inside one transaction, so that they wait, unseen, for its commit; the time is from there
until the engines have been through all of them, matches included, and the last firing is readable; the commit
of the last transaction is in it where something fires. The first turn, of a quarter of the events, is not
counted: a broker's first writes to the files of new topics take milliseconds each. Points that are compared
take their turns one after the other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import AdminClient
from interlock import Condition, Event, event
from interlock.engine.config import KINDS, BusConfig
from interlock.engine.kafka.reader import consume
from interlock.engine.kafka.topics import create
from interlock.engine.protocol.loop import MOST_RECORDS

from ..lines import progress
from .firings import firings_of
from .load import OPEN, hidden, one, subscribe, waits
from .process import Counting

DEADLINE_S: Final = 120.0
ENGINE, RAW, TWO_HOPS = "counting", "raw_loop", "two_hops"


@dataclass(frozen=True)
class Point:
    """A choice.

    match_percent: of the events. parts: of the condition, each an event of its own type; all have one key.
    others: waits for other types than the events'. keyed: waits for the same condition, none for one of the
    events' keys. replicas: of each partition of the bus. program: the module beside this one that is run: the
    engine, or a loop of clients in its place. batch: records of a transaction of the raw loop.
    """

    match_percent: int = 10
    parts: int = 2
    others: int = 100
    keyed: int = 0
    partitions: int = 8
    replicas: int = 1
    engines: int = 1
    program: str = ENGINE
    batch: int = MOST_RECORDS


@dataclass(frozen=True)
class Throughput:
    """rates: events/s of each turn. kib: of the first engine's memory, before the events."""

    rates: Sequence[float]
    kib: float

    @property
    def rate(self) -> float:
        """The median of the turns."""
        return statistics.median(self.rates)

    def ratio_to(self, other: Throughput) -> float:
        """To one that took its turns beside these: the median of the ratios, turn by turn."""
        return statistics.median(own / its for own, its in zip(self.rates, other.rates, strict=True))


def in_turns(
    bootstrap_servers: str, sides: Mapping[str, tuple[Point, int]], turns: int
) -> Mapping[str, Throughput]:
    """Ask at several points, with so many events a turn each: a turn of each, then the next of each.

    How fast the machine is changes within seconds, and falls on all of them alike. Those whose turn it is not
    stand by: an engine that has nothing to do takes 2 to 3 % of a core.
    """
    rates: dict[str, list[float]] = {name: [] for name in sides}
    with ExitStack() as stack:
        open_sides = {
            name: stack.enter_context(Side(bootstrap_servers, name, point, events))
            for name, (point, events) in sides.items()
        }
        for _ in range(turns):
            for name, side in open_sides.items():
                rates[name].append(side.turn())
        return {name: Throughput(rates[name], side.kib) for name, side in open_sides.items()}


class Side:
    """A point that is asked at, while this is entered.

    events: of each turn; one ends the bench where a firing is missing or there twice. `kib`: of the first
    engine's memory, before them.
    """

    def __init__(self, bootstrap_servers: str, name: str, point: Point, events: int) -> None:
        progress(f"{name}: {point}")
        self._bus = Bus(BusConfig(name=name, client={"bootstrap.servers": bootstrap_servers}), point)
        self._events, self._sent = events, 0
        self._open = ExitStack()
        self.kib = 0.0

    def __enter__(self) -> Side:
        with ExitStack() as stack:
            stack.callback(self._bus.delete)
            self.kib = stack.enter_context(self._bus.engines())
            self._turn(self._events // 4)  # not counted
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def turn(self) -> float:
        """Events a second."""
        return self._events / self._turn(self._events)

    def _turn(self, events: int) -> float:
        self._sent += events
        return self._bus.seconds(range(self._sent - events, self._sent))


class Bus:
    """A bus of its own for a point, with its registrations.

    `load`: the events of these numbers. `keys`: how many keys all of whose parts are among them.
    """

    def __init__(self, config: BusConfig, point: Point) -> None:
        self._config, self._point = config, point
        self._processes: list[Counting] = []
        self._firings = self._matches = 0  # that are to be there
        self._seen: set[bytes | None] = set()
        create(config, partitions=point.partitions, replication_factor=point.replicas)
        if point.program == ENGINE:
            subscribe(config, [("measured", condition(point.parts), None)], durable=True)
            subscribe(config, waits(point.others), durable=False)
            both = condition(point.parts)
            subscribe(
                config, ((f"keyed-{n}", both, f"absent-{n}") for n in range(point.keyed)), durable=False
            )
        self._reader = firings_of(config, point.partitions)

    @contextmanager
    def engines(self) -> Iterator[float]:
        """The point's engines, joined, until this is left; the first one's KiB of memory."""
        with ExitStack() as stack:
            for _ in range(self._point.engines):
                self._processes.append(Counting(self._point.program, self._config, self._point.batch))
                stack.callback(self._processes[-1].kill)
            topics = 1 if self._point.program == RAW else 2
            self._until(
                lambda: (
                    all(each.owns for each in self._processes)
                    and sum(each.owns for each in self._processes) == topics * self._point.partitions
                ),
            )
            yield self._processes[0].kib()

    def delete(self) -> None:
        """The topics: what one point leaves is no load of the next."""
        self._reader.close()
        admin = AdminClient(dict(self._config.client))
        for answer in admin.delete_topics([self._config.topic(kind) for kind in KINDS]).values():
            answer.result(30)

    def seconds(self, numbers: range) -> float:
        """Until the events of these numbers are worked on, from when they can be read."""
        show = hidden(self._config, self.load(numbers))
        if self._point.program != RAW:
            self._firings += self.keys(numbers)
            self._matches += self.keys(numbers) * self._point.parts
        started = time.perf_counter()
        show()
        self._until(
            lambda: (
                self._fired()
                and sum(each.consumed for each in self._processes) == numbers.stop + self._matches
            )
        )
        return time.perf_counter() - started

    def keys(self, numbers: range) -> int:
        return len(numbers) * self._point.match_percent // 100 // self._point.parts

    def load(self, numbers: range) -> Iterator[Event]:
        # Matching events are spread evenly among the others.
        keys = self.keys(numbers)
        matching, sent = self._matching(numbers, keys), 0
        for position, n in enumerate(numbers, 1):
            if sent < position * keys * self._point.parts // len(numbers):
                sent += 1
                yield next(matching)
            else:
                yield one("com.example.other", n, f"s{n % 1000}")

    def _matching(self, numbers: range, keys: int) -> Iterator[Event]:
        """A key's next part comes OPEN keys later: as many are half met."""
        for first in range(0, keys, OPEN):
            for part in range(self._point.parts):
                for key in range(first, min(first + OPEN, keys)):
                    name = f"{numbers.start}-{key}"
                    yield one(f"part{part}", name, name)

    def _until(self, fact: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not fact():
            for engine in self._processes:
                engine.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: not done within {DEADLINE_S:.0f} s")
            time.sleep(0.002)

    def _fired(self) -> bool:
        if not self._firings:
            return True
        keys = [m.key() for m in consume(self._reader, 100_000, 0.005) if m.error() is None]
        before = len(self._seen)
        self._seen.update(keys)
        if len(self._seen) - before != len(keys) or len(self._seen) > self._firings:
            raise SystemExit("bench: something fired twice")
        return len(self._seen) == self._firings


def condition(parts: int) -> Condition:
    """All of so many events, of one subject."""
    found: Condition = event("part0", by="subject")
    for n in range(1, parts):
        found &= event(f"part{n}", by="subject")
    return found
