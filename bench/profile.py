"""Where the engine's thread spends its time on a backlog: `make bench ONLY=profile`, or for another load
`make bench-profile PROFILE="--match-percent 10 --parts 2 --events 200000"`.

Another thread samples the engine's, as often as the interpreter permits. A function's share is the percentage
of samples in it or in what it calls, waits for the broker included.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine
from interlock.engine.runtime.loop_thread import frames

from . import brokers
from .engine.load import hidden
from .engine.points import Point, PointBus
from .lines import report

SAMPLE_S = 0.001
LEAST_PERCENT = 3.0
EVENTS = 100_000
PAIRS = Point(match_percent=100, parts=2, others=0)
ROOT = Path(__file__).parents[1]


class Sampler:
    """Samples the stack of a thread, and counts the samples of each function on it."""

    def __init__(self, thread: int) -> None:
        self._thread, self._over = thread, threading.Event()
        self.samples, self.within = 0, Counter[str]()
        self._sampling = threading.Thread(target=self._sample)

    def __enter__(self) -> Sampler:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SAMPLE_S / 2)  # otherwise a sample waits until the thread blocks
        self._sampling.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._sampling.join()
        sys.setswitchinterval(self._interval)

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            frame: FrameType | None = frames().get(self._thread)
            found = set()
            while frame is not None:
                found.add(_name(frame))
                frame = frame.f_back
            self.within.update(found)
            self.samples += 1


def _name(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    return f"{where} {frame.f_code.co_qualname}"


def run(bootstrap_servers: str) -> None:
    """Runs the benchmark."""
    took_us, shares = profiled(bootstrap_servers, PAIRS, EVENTS)
    report("processor time of the engine's thread, every event half of a pair", took_us, "us/event")
    for name, share in shares.items():
        report(f"`{name}`", share, "% of the time")


def profiled(bootstrap_servers: str, point: Point, events: int) -> tuple[float, dict[str, float]]:
    """Microseconds of processor time per event, and {function: percent} from LEAST_PERCENT on.

    Samples the second turn.
    """
    config = BusConfig(name="profile", client={"bootstrap.servers": bootstrap_servers})
    bus = PointBus(config, point)
    engine = Engine(KafkaBus(config), config)
    while not (engine.is_open and engine.up_to_date):
        engine.run_pass()

    def work(numbers: range) -> float:
        until = engine.stats.consumed + events + bus.keys(numbers) * point.parts
        began = time.thread_time()
        while engine.stats.consumed < until:
            engine.run_pass()
        return time.thread_time() - began

    hidden(config, bus.load(range(events)))()
    work(range(events))
    show = hidden(config, bus.load(range(events, 2 * events)))
    show()
    with Sampler(threading.get_ident()) as sampler:
        took = work(range(events, 2 * events))
    engine.close()
    shares = {name: 100 * count / sampler.samples for name, count in sampler.within.most_common()}
    return took / events * 1e6, {
        name: share
        for name, share in shares.items()
        if share >= LEAST_PERCENT and name.startswith(("engine", "conditions", "events"))
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile", description="Where the engine's time goes."
    )
    parser.add_argument("--match-percent", type=int, default=100)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--events", type=int, default=EVENTS)
    given = parser.parse_args()
    point = Point(match_percent=given.match_percent, parts=given.parts, others=0)
    with brokers.started() as bootstrap_servers:
        took_us, shares = profiled(bootstrap_servers, point, given.events)
    print(f"{point}: {took_us:.1f} us of processor time per event, {given.events} events\n")
    print("| share | function |\n|---:|---|")
    for name, share in shares.items():
        print(f"| {share:.1f} % | `{name}` |")


if __name__ == "__main__":
    main()
