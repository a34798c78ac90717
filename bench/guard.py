"""The cost of the hot path in executed bytecode instructions, which do not depend on the machine.

A regression guard (tests/unit/bench/test_guard.py): `guard.json` has the count of each piece of work; 10 %
more or less are tolerated. `python -m bench.guard` prints the present counts, `--write` saves them: then the
commit says why they changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from interlock.conditions import EMPTY, Match, MatcherIndex, State, event, step
from interlock.events import Event, kafka

from .engine.hops import PROVING, Work, event_hop, own_event, trigger_hop
from .engine.load import PAIR

BOUNDS: Final = Path(__file__).with_name("guard.json")
ROOM: Final = 0.1  # tolerated change of a count, up or down: a lower count should be saved too
MANY: Final = 100


def event_of(number: int, type_: str = "com.example.order.placed", subject: str | None = None) -> Event:
    data = b'{"order":%d,"currency":"EUR","amount":1250.5}' % number
    attributes = {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "/bench/shop",
        "type": type_,
        "subject": subject or f"s{number % 7}",
        "time": "2026-11-20T09:30:00Z",
        "datacontenttype": "application/json",
    }
    return Event(attributes, data)


def decoding() -> Work:
    records = [kafka.encode(event_of(number)) for number in range(MANY)]
    return lambda: _each(records, lambda record: kafka.decode(*record))


def encoding() -> Work:
    events = [event_of(number) for number in range(MANY)]
    return lambda: _each(events, kafka.encode)


def looking_up(subscriptions: int) -> Callable[[], Work]:
    """Events for subscriptions by type; the count should be the same for any number of subscriptions."""

    def prepare() -> Work:
        index: MatcherIndex[int] = MatcherIndex()
        for number in range(subscriptions):
            index.add(number, event(f"com.example.n{number}"), None)
        events = [event_of(number, f"com.example.n{number % subscriptions}") for number in range(MANY)]
        return lambda: _each(events, index.lookup)

    return prepare


def keyed() -> Work:
    """Look-ups by a key in the event's data."""
    index: MatcherIndex[int] = MatcherIndex()
    for number in range(MANY):
        index.add(number, event("com.example.order.placed", by="data.order"), str(number))
    events = [event_of(number) for number in range(MANY)]
    return lambda: _each(events, index.lookup)


def halves(count: int) -> list[Match]:
    return [
        Match(
            event_of(n, ("pair.first", "pair.second")[n % 2]),
            (n % 2,),
            "bus-event",
            0,
            n,
            1_800_000_000_000 + n,
        )
        for n in range(count)
    ]


def stepping(history: int) -> Callable[[], Work]:
    """Steps of a pair, where every second event fires, after `history` events of the key."""

    def prepare() -> Work:
        matches = halves(history + MANY)
        state = EMPTY
        for match in matches[:history]:
            state, _ = step(PAIR, state, match)
        rest = matches[history:]

        def work() -> None:
            now = state
            for match in rest:
                now, _ = step(PAIR, now, match)

        return work

    return prepare


def storing() -> Work:
    state, _ = step(PAIR, EMPTY, halves(1)[0])
    return lambda: _each([state] * MANY, lambda each: State.decode(each.encode()))


def pairs() -> list[Event]:
    """The first events of all pairs, then the second ones, which fire."""
    return [
        event_of(n, ("pair.first", "pair.second")[n * 2 // MANY], f"s{n % (MANY // 2)}") for n in range(MANY)
    ]


WORKS: Final[dict[str, Callable[[], Work]]] = {
    "decode a record": decoding,
    "encode an event": encoding,
    "look up among 1 subscription": looking_up(1),
    "look up among 10,000 subscriptions": looking_up(10_000),
    "look up by a key in the data": keyed,
    "step of a pair, a new key": stepping(0),
    "step of a pair, after 10,000 events": stepping(10_000),
    "encode and decode a state": storing,
    "event hop, an event that matches nothing": event_hop([event_of(n) for n in range(MANY)], 0),
    "event hop, an event of a pair": event_hop(pairs(), 0),
    "event hop, an event of a pair among 10,000 others": event_hop(pairs(), 10_000),
    "event hop, an own event without a proof": event_hop([own_event(n) for n in range(MANY)], 0),
    "event hop, an own event with its proof": event_hop([own_event(n) for n in range(MANY)], 0, PROVING),
    "event hop, another event on a bus with proofs": event_hop(
        [event_of(n) for n in range(MANY)], 0, PROVING
    ),
    "trigger hop, an event of a pair": trigger_hop(pairs()),
}


def _each(inputs: list[Any], work: Callable[[Any], object]) -> None:
    for each in inputs:
        work(each)


def instructions(prepare: Callable[[], Work]) -> int:
    """Bytecode instructions for one input, counted in a second run: the first one fills caches."""
    prepare()()
    return round(_counted(prepare()) / MANY)


if sys.version_info >= (3, 12):  # tracing misses opcodes there; PEP 669 counts them

    def _counted(work: Work) -> int:
        count = 0

        def one_more(_code: object, _offset: int) -> None:
            nonlocal count
            count += 1

        monitoring = sys.monitoring
        tool, executed = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION
        monitoring.use_tool_id(tool, __name__)
        monitoring.register_callback(tool, executed, one_more)
        monitoring.set_events(tool, executed)
        try:
            work()
        finally:
            monitoring.set_events(tool, monitoring.events.NO_EVENTS)
            monitoring.register_callback(tool, executed, None)
            monitoring.free_tool_id(tool)
        return count

else:

    def _counted(work: Work) -> int:
        count = 0

        def trace(frame: FrameType, kind: str, _argument: object) -> Any:
            nonlocal count
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            count += kind == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
        return count


def bounds() -> dict[str, int]:
    """The saved count of each piece of work."""
    found: dict[str, int] = json.loads(BOUNDS.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.guard", description=__doc__)
    parser.add_argument("--write", action="store_true", help="save the present counts")
    counts = {name: instructions(prepare) for name, prepare in WORKS.items()}
    if parser.parse_args().write:
        if sys.version_info[:2] != (3, 11):
            sys.exit("the counts are for Python 3.11: run this with that version")
        BOUNDS.write_text(json.dumps(counts, indent=2) + "\n")
    print(json.dumps(counts, indent=2))


if __name__ == "__main__":
    main()
