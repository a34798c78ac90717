"""How many events a second engines process, for one choice of load, condition, registrations and topics.

Each point has its own bus. Its engines, one process each, join before the first event. All events of a turn
are produced in one transaction, so that its commit makes them readable at once. The time runs from that
commit until the engines have processed all events and matches, and the last firing is readable (so it
includes the commit of the last transaction if something fires). The first turn, with a quarter of the events,
is not counted: a broker's first writes to the files of new topics take milliseconds each. Points that are
compared take turns.
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
from .load import OPEN, event_of, hidden, subscribe, waits
from .process import Counting

DEADLINE_S: Final = 120.0
ENGINE, RAW, TWO_HOPS = "counting", "raw_loop", "two_hops"


@dataclass(frozen=True)
class Point:
    """A choice of everything that is varied.

    match_percent: of the events. parts: events of the condition, each of its own type, with a common key.
    others: waits for other types. keyed: waits for the same condition with keys that no event has.
    replicas: of each partition of the bus. program: the module to run: the engine, or a client loop instead.
    batch: records per transaction of the raw loop.
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
    """rates: events/s of each turn. kib: memory of the first engine before the events."""

    rates: Sequence[float]
    kib: float

    @property
    def rate(self) -> float:
        """The median of the turns."""
        return statistics.median(self.rates)

    def ratio_to(self, other: Throughput) -> float:
        """The median of the ratios of each turn to the other's turn beside it."""
        return statistics.median(own / its for own, its in zip(self.rates, other.rates, strict=True))


def in_turns(
    bootstrap_servers: str, sides: Mapping[str, tuple[Point, int]], turns: int
) -> Mapping[str, Throughput]:
    """Measures several points, {name: (point, events per turn)}, alternately: a turn of each, then the next.

    So changes of the machine's speed, which come within seconds, affect all alike. The engines of the others
    are idle meanwhile and take 2 to 3 % of a core each.
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
    """A context in which one point is measured.

    events: of each turn; a missing or repeated firing ends the bench. kib: memory of the first engine before
    the events.
    """

    def __init__(self, bootstrap_servers: str, name: str, point: Point, events: int) -> None:
        progress(f"{name}: {point}")
        self._bus = PointBus(BusConfig(name=name, client={"bootstrap.servers": bootstrap_servers}), point)
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


class PointBus:
    """The bus of one point, with its registrations.

    `load(numbers)`: the events with these numbers. `keys(numbers)`: how many keys are complete among them.
    """

    def __init__(self, config: BusConfig, point: Point) -> None:
        self._config, self._point = config, point
        self._processes: list[Counting] = []
        self._firings = self._matches = 0  # expected so far
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
        """Runs the point's engines inside the block, joined; yields the memory of the first one in KiB."""
        with ExitStack() as stack:
            for _ in range(self._point.engines):
                self._processes.append(Counting(self._point.program, self._config, self._point.batch))
                stack.callback(self._processes[-1].kill)
            topics = 1 if self._point.program == RAW else 2
            self._until(
                lambda: (
                    all(each.owns for each in self._processes)
                    and sum(each.owns for each in self._processes) == topics * self._point.partitions
                )
            )
            yield self._processes[0].kib()

    def delete(self) -> None:
        """Deletes the topics, so that they do not burden the next point."""
        self._reader.close()
        admin = AdminClient(dict(self._config.client))
        for answer in admin.delete_topics([self._config.topic(kind) for kind in KINDS]).values():
            answer.result(30)

    def seconds(self, numbers: range) -> float:
        """Seconds from when the events with these numbers can be read until they are processed."""
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
                yield event_of("com.example.other", n, f"s{n % 1000}")

    def _matching(self, numbers: range, keys: int) -> Iterator[Event]:
        """A key's next part comes OPEN keys later, so that OPEN keys are half met."""
        for first in range(0, keys, OPEN):
            for part in range(self._point.parts):
                for key in range(first, min(first + OPEN, keys)):
                    name = f"{numbers.start}-{key}"
                    yield event_of(f"part{part}", name, name)

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
    """A condition for `parts` events of one subject."""
    found: Condition = event("part0", by="subject")
    for n in range(1, parts):
        found &= event(f"part{n}", by="subject")
    return found
