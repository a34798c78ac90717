"""Where the engine's thread spends its time on a backlog: `make bench-profile`.

    python -m bench.profile [--match-percent 100] [--parts 2] [--events 200000]

Another thread notes what the engine's is doing, as often as the interpreter lets it. A share is of those
samples, with all that a function calls, and with the waits for the broker.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.protocol.loop import Engine
from interlock.plugin.broker import LocalBroker

from .__main__ import FOLDER
from .engine.load import hidden
from .engine.points import Bus, Point
from .lines import progress

SAMPLE_S = 0.001
LEAST_PERCENT = 1.5
ROOT = Path(__file__).parents[1]


class Sampler:
    """What one thread does, by function, with what called it."""

    def __init__(self, thread: int) -> None:
        self._thread, self._over = thread, threading.Event()
        self.samples, self.within = 0, Counter[str]()
        self._sampling = threading.Thread(target=self._sample)

    def __enter__(self) -> Sampler:
        self._sampling.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._sampling.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            frame: FrameType | None = sys._current_frames().get(self._thread)
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


def run(bootstrap_servers: str, point: Point, events: int) -> None:
    """A table of what took at least LEAST_PERCENT; the second turn is what is sampled."""
    config = BusConfig(name="profile", client={"bootstrap.servers": bootstrap_servers})
    bus = Bus(config, point)
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
    print(f"{point}: {took / events * 1e6:.1f} us of processor time for each of {events} events\n")
    print("| share | function |\n|---:|---|")
    for name, count in sampler.within.most_common():
        share = 100 * count / sampler.samples
        if share >= LEAST_PERCENT and name.startswith(("engine", "conditions", "events")):
            print(f"| {share:.1f} % | `{name}` |")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile", description="Where the engine's time goes."
    )
    parser.add_argument("--match-percent", type=int, default=100)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--events", type=int, default=200_000)
    given = parser.parse_args()
    sys.setswitchinterval(SAMPLE_S / 2)  # else a sample waits until the engine's thread waits
    point = Point(match_percent=given.match_percent, parts=given.parts, others=0)
    with (
        tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=FOLDER) as folder,
        LocalBroker(Path(folder), report=progress) as broker,
    ):
        run(broker.bootstrap_servers, point, given.events)


if __name__ == "__main__":
    main()
