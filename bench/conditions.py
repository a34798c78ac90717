"""The cost of conditions, in memory and in one thread: `make bench ONLY=conditions`.

Sizes that are compared take turns within one run, on new events each time; a ratio is large to small. A
figure is the best of all turns, since other load of the machine only adds to it. If the machine is slow
during all turns of a comparison, its ratio is still right, but its figures are not comparable to those of
another table.

The index is measured three times. Events of a few subscriptions show how the search grows: the processor's
cache holds all that it visits. Events of any subscription show the cost of memory: a look-up is so short that
one access to memory takes several times as long. Events with decoding show the look-up's share of the cost of
an event in the engine.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple

from interlock.conditions import EMPTY, Condition, Match, MatcherIndex, State, event, step
from interlock.conditions import count as counted
from interlock.conditions import filters as dialects
from interlock.events import Event, kafka

from . import lines
from .sizes import number

SUBSCRIPTIONS = number("SUBSCRIPTIONS", 100_000)
HISTORY = number("HISTORY", 100_000)
SHORT_HISTORY = 10
SIZES = sorted({1, 100, 10_000, SUBSCRIPTIONS})
HISTORIES = sorted({SHORT_HISTORY, 1_000, HISTORY})
TURNS = 50
EVENTS_A_TURN = 500
STEPS_A_TURN = 20
PREDICATE_EVENTS = 3
FEW = 16
# The largest ratio of the cost at the largest size to the smallest: of an index, and of state (a step,
# encoding or decoding).
INDEX_GROWS = 1.3
STATE_GROWS = 1.2
STEP_US = 4

ONE_TYPE = "com.example.order.placed"
KEYED_PAIR = event("pair.first", by="data.order") & event("pair.second", by="data.order")

_ids = count()
_random = random.Random(4)  # the same events in every run


def report(
    question: str, figure: float, unit: str = "us/event", ratio: float | None = None, **more: Any
) -> None:
    lines.report(question, figure, unit, ratio, **more)


class Timed(NamedTuple):
    """Something to measure. prepare: makes the inputs of a turn, not timed. work: processes them, timed."""

    prepare: Callable[[], list[Any]]
    work: Callable[[list[Any]], None]


def best_of_turns(*sides: Timed, turns: int = TURNS) -> list[float]:
    """Microseconds per input, for each side."""
    best = [float("inf")] * len(sides)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for _ in range(turns):
            for n, side in enumerate(sides):
                inputs = side.prepare()
                started = time.perf_counter()
                side.work(inputs)
                best[n] = min(best[n], (time.perf_counter() - started) / len(inputs) * 1e6)
    finally:
        gc.enable()
        gc.unfreeze()
    return best


def compare(question: str, large: Timed, small: Timed, most_ratio: float) -> None:
    slow, quick = best_of_turns(large, small)
    report(question, slow, ratio=slow / quick, aim=lines.Aim("ratio at most", most_ratio))


def grow(
    curve: str, sides: Mapping[int, Timed], most_ratio: float, most: float | None = None, turns: int = TURNS
) -> None:
    """Prints a line for each size, as a curve; ratios are to the smallest size.

    most_ratio: aim for the largest size. most: aim for the smallest, in microseconds.
    """
    found = best_of_turns(*sides.values(), turns=turns)
    for size, figure in zip(sides, found, strict=True):
        cost = lines.point(curve, size, figure, "us/event")
        aim = None
        if size == max(sides):
            aim = lines.Aim("ratio at most", most_ratio)
        elif size == min(sides) and most is not None:
            aim = lines.Aim("figure at most", most)
        report(f"{curve}, {size}", figure, ratio=figure / found[0], aim=aim, **cost)


def placed(type_: str = ONE_TYPE, subject: str = "s", order: int = 0) -> Event:
    """A new event of about 300 bytes, not yet parsed."""
    data = b'{"order":%d,"currency":"EUR","amount":1250.5,"note":"%s"}' % (order, b"x" * 60)
    attributes = {
        "specversion": "1.0",
        "id": f"e{next(_ids)}",
        "source": "/bench/shop",
        "type": type_,
        "subject": subject,
        "time": "2026-11-20T09:30:00Z",
        "datacontenttype": "application/json",
    }
    return Event(attributes, data)


# ---------------------------------------------------------------------------------------------
# The index


class Shape(NamedTuple):
    """A way in which subscriptions differ: the nth one's condition and key, and an event that matches it."""

    name: str
    subscribe: Callable[[int], tuple[Condition, str | None]]
    event: Callable[[int], Event]


KEYED = event(ONE_TYPE, by="data.order")
SHAPES = (
    Shape(
        "distinct types",
        lambda n: (event(f"{ONE_TYPE}.n{n}"), None),
        lambda n: placed(type_=f"{ONE_TYPE}.n{n}"),
    ),
    Shape("key values of one matcher", lambda n: (KEYED, str(n)), lambda n: placed(order=n)),
    Shape(
        "distinct prefixes of one type",
        lambda n: (event(ONE_TYPE, filters=[dialects.Prefix(subject=f"shop/{n:06}/")]), None),
        lambda n: placed(subject=f"shop/{n:06}/orders"),
    ),
)


def index_of(shape: Shape, size: int) -> MatcherIndex[int]:
    index: MatcherIndex[int] = MatcherIndex()
    for n in range(size):
        condition, key = shape.subscribe(n)
        index.add(n, condition, key)
    return index


class Index:
    """An index of `size` subscriptions, and events that each match one of them, in random order."""

    def __init__(self, shape: Shape, size: int) -> None:
        self.shape, self.size, self.index = shape, size, index_of(shape, size)
        for n in {0, size // 2, size - 1}:
            if [hit.handle for hit in self.index.lookup(shape.event(n))] != [n]:
                raise SystemExit(f"bench: {shape.name}: event {n} did not reach subscription {n} alone")

    def events(self, numbers: Sequence[int], events: int = EVENTS_A_TURN) -> list[Event]:
        return [self.shape.event(_random.choice(numbers)) for _ in range(events)]

    def of_few(self) -> Timed:
        few = _random.sample(range(self.size), min(FEW, self.size))
        return Timed(lambda: self.events(few), self.look_up)

    def of_any(self) -> Timed:
        return Timed(lambda: self.events(range(self.size)), self.look_up)

    def decoded(self) -> Timed:
        def work(records: list[Any]) -> None:
            decode, lookup = kafka.decode, self.index.lookup
            for key, value, headers in records:
                lookup(decode(key, value, headers))

        return Timed(lambda: [kafka.encode(one) for one in self.events(range(self.size))], work)

    def look_up(self, events: list[Event]) -> None:
        lookup = self.index.lookup
        for one in events:
            lookup(one)


def measure_index() -> None:
    for shape in SHAPES:
        sizes = {size: Index(shape, size) for size in SIZES}
        by = f"index by {shape.name}, events of"
        grow(f"{by} {FEW} of them", {n: i.of_few() for n, i in sizes.items()}, INDEX_GROWS)
        grow(f"{by} any of them", {n: i.of_any() for n, i in sizes.items()}, INDEX_GROWS)
        large, small = sizes[SUBSCRIPTIONS], sizes[1]
        what = f"index by {shape.name}, {SUBSCRIPTIONS} against 1"
        about = f"{what}, events of any of them, with decoding"
        compare(about, large.decoded(), small.decoded(), INDEX_GROWS)


def measure_predicates() -> None:
    """Predicates that require a value are looked up by it; others are evaluated one by one."""
    shape = Shape(
        "distinct predicates (CEL) that need a value",
        lambda n: (event(ONE_TYPE, where=f"data.order == {n} && data.currency == 'EUR'"), None),
        lambda n: placed(order=n),
    )
    compare(
        f"index, {SUBSCRIPTIONS} {shape.name} against 1, events of {FEW} of them",
        Index(shape, SUBSCRIPTIONS).of_few(),
        Index(shape, 1).of_few(),
        INDEX_GROWS,
    )
    shape = Shape(
        "other distinct predicates (CEL)",
        lambda n: (event(ONE_TYPE, where=f"data.order > {n - 1} && data.order < {n + 1}"), None),
        lambda n: placed(order=n),
    )
    index = Index(shape, SUBSCRIPTIONS)
    side = Timed(lambda: index.events(range(SUBSCRIPTIONS), PREDICATE_EVENTS), index.look_up)
    report(f"index, {SUBSCRIPTIONS} {shape.name} on one type", best_of_turns(side, turns=1)[0])


# ---------------------------------------------------------------------------------------------
# step


def halves() -> Iterator[Match]:
    """The matches of a keyed pair, alternating: every second one fires."""
    for n in count():
        half = n % 2
        one = placed(("pair.first", "pair.second")[half], order=7)
        yield Match(one, (half,), "bus-event", 0, n, 1_800_000_000_000 + n)


def after(events: int) -> tuple[State, Iterator[Match]]:
    """The state of a key after this many events, and the next matches."""
    state, matches, fired = EMPTY, halves(), 0
    for _ in range(events):
        state, firings = step(KEYED_PAIR, state, next(matches))
        fired += len(firings)
    if fired != events // 2:
        raise SystemExit(f"bench: the pair fired {fired} times in {events} events")
    return state, matches


def stepped(events: int) -> Timed:
    """The events after this history; each turn starts from the same state."""
    state, matches = after(events)
    following = [next(matches) for _ in range(STEPS_A_TURN)]

    def work(turn: list[Match]) -> None:
        now = state
        for match in turn:
            now, _ = step(KEYED_PAIR, now, match)

    def prepare() -> list[Match]:  # new each time: a match caches what was read from it
        return [Match(m.event, m.matchers, m.topic, m.partition, m.offset, m.timestamp_ms) for m in following]

    return Timed(prepare, work)


def written(events: int) -> Timed:
    state, _ = after(events)

    def work(states: list[State]) -> None:
        for one in states:
            one.encode()

    return Timed(lambda: [state] * EVENTS_A_TURN, work)


def read(events: int) -> Timed:
    state, _ = after(events)
    stored = state.encode()

    def work(records: list[bytes]) -> None:
        for record in records:
            State.decode(record)

    return Timed(lambda: [stored] * EVENTS_A_TURN, work)


def measure_step() -> None:
    sides = {events: stepped(events) for events in HISTORIES}
    grow("step of a keyed pair, by events of the key so far", sides, STATE_GROWS, STEP_US, TURNS * 10)
    # one more event, so that half of a pair is pending
    for name, side in (("encode", written), ("decode", read)):
        compare(
            f"{name} of the state after {HISTORY + 1} events against {SHORT_HISTORY + 1}",
            side(HISTORY + 1),
            side(SHORT_HISTORY + 1),
            STATE_GROWS,
        )


def measure_most_expensive_steps() -> None:
    """The most expensive event for conditions that search by trial for events within a window."""
    one = event("dear")
    shapes = (
        ("count(a, 1000) in a window, 1,000 held", counted(one, 1000).within("10m"), 1010, 1000, 1000),
        (
            "count(a, 400) in a window, event times together, record timestamps apart",
            counted(one, 400).within("10m"),
            403,
            1,
            10_800_000,
        ),
    )
    for name, condition, events, time_step_ms, stamp_step_ms in shapes:
        state, most_s = EMPTY, 0.0
        for n in range(events):
            moment = datetime.fromtimestamp(1_800_000_000 + n * time_step_ms / 1000, UTC)
            given = Event.of("dear", "/bench", id=str(n), time=moment)
            match = Match(given, (0,), "bus-event", 0, n, 1_800_000_000_000 + n * stamp_step_ms)
            started = time.process_time()
            state, _ = step(condition, state, match)
            most_s = max(most_s, time.process_time() - started)
        report(f"most expensive step of {name}", most_s * 1e6)


# ---------------------------------------------------------------------------------------------
# Filters

FILTERS: dict[str, Callable[[], dialects.Filter]] = {
    "exact": lambda: dialects.Exact(type=ONE_TYPE, source="/bench/shop"),
    "prefix": lambda: dialects.Prefix(type="com.example."),
    "suffix": lambda: dialects.Suffix(type=".placed"),
    "all": lambda: dialects.All(dialects.Exact(source="/bench/shop"), dialects.Prefix(type="com.example.")),
    "any": lambda: dialects.Any(dialects.Exact(source="/elsewhere"), dialects.Prefix(type="com.example.")),
    "not": lambda: dialects.Not(dialects.Exact(source="/elsewhere")),
    "sql": lambda: dialects.Sql("type LIKE 'com.example.%' AND source = '/bench/shop'"),
    "cel": lambda: dialects.Where("data.currency == 'EUR' && data.amount > 100.0"),
}


def measure_filters() -> None:
    for name, build in FILTERS.items():
        kept = build()
        if not kept.accepts(placed()):
            raise SystemExit(f"bench: {kept} did not accept the event")

        def work(events: list[Event], accepts: Callable[[Event], bool] = kept.accepts) -> None:
            for one in events:
                accepts(one)

        side = Timed(lambda: [placed() for _ in range(EVENTS_A_TURN)], work)
        parsing = ", with parsing the data" if name == "cel" else ""
        report(f"filter {name}{parsing}", best_of_turns(side)[0])


def run(_: str) -> None:
    measure_index()
    measure_step()
    measure_most_expensive_steps()
    measure_filters()
    measure_predicates()
