"""Processes of engines and deliverers that die at a given step: `python -m tests.chaos.processes CONFIG`.

Each is Interlock's own runtime, with clients of confluent_kafka that count the steps of a commit
(docs/understand/engine/commit.md), so that the process can be killed after any of them. Orders are lines on
stdin: `die STEP`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

# The numbers are those of docs/understand/engine/commit.md. A kill comes after the named step, or during 5.
STEPS = (
    "1 polled",
    "2 registry applied",
    "3 begin",
    "3 produce one",
    "3 produce all",
    "3 flush",
    "4 send offsets",
    "5 commit sent",
    "5 committed",
    "6 in memory",
)
OWNS = "trigger partitions of bus"  # in the log line of an engine that has taken over partitions
ROOT = Path(__file__).resolve().parents[2]


@dataclass(eq=False)
class EngineProcess:
    """Starts and controls a process with an engine, or with a deliverer."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    plant: str | None = None
    stopped: bool = False  # by SIGSTOP
    ordered_step: str | None = None  # the step at which it should die
    started: float = field(default_factory=time.monotonic)
    owning: float | None = None  # when it was first seen to own partitions
    at_work: bool = False  # whether it must have done some work before it dies

    @staticmethod
    def start(
        name: str,
        bus: dict[str, Any],
        folder: Path,
        skew_s: float = 0.0,
        plant: str | None = None,
        *,
        delivers: bool = False,
    ) -> EngineProcess:
        """bus: arguments of BusConfig. skew_s: how far its clock is off. plant: a fault of plants.py.

        delivers: whether it is a deliverer.
        """
        form = {"bus": bus, "skew_s": skew_s, "plant": plant, "name": name, "delivers": delivers}
        log = folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.processes", json.dumps(form)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=ROOT,
            )
        return EngineProcess(name, process, log, plant)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def look(self) -> None:
        """Checks in its log whether it owns partitions."""
        if self.owning is None and OWNS in self.log.read_text(errors="replace"):
            self.owning = time.monotonic()

    def die_at(self, step: str | None) -> None:
        """Orders it to die at a step; None revokes the order."""
        self.ordered_step = step
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"die {step or ''}\n".encode())
            self.process.stdin.flush()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def kill(self) -> None:
        """Sends SIGKILL, in any state."""
        self.process.kill()
        self.process.wait()
        self.close()

    def terminate(self) -> None:
        """Stops it cleanly; SIGKILL after 15 s."""
        if self.stopped:
            self.resume()
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        pipe: IO[bytes] | None = self.process.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


# -- inside the process

_step: str | None = None
_committed = False  # since the last poll


def _die(here: str) -> None:
    if _step == here:
        os.kill(os.getpid(), signal.SIGKILL)


def _install_steps() -> None:
    """Replaces the clients in confluent_kafka by ones that die after the ordered step."""
    import confluent_kafka

    class Producer(confluent_kafka.Producer):  # type: ignore[misc]
        produced = 0
        transactional = False

        def __init__(self, config: dict[str, Any], *more: Any, **others: Any) -> None:
            super().__init__(config, *more, **others)
            self.transactional = "transactional.id" in config

        def begin_transaction(self) -> None:
            _die("2 registry applied")
            super().begin_transaction()
            self.produced = 0
            _die("3 begin")

        def produce(self, *args: Any, **others: Any) -> None:
            super().produce(*args, **others)
            self.produced += 1
            if self.transactional and _step == "3 produce one":
                super().flush(5)  # so that it is in the broker's log, in a transaction that stays open
                _die("3 produce one")

        def send_offsets_to_transaction(self, *args: Any) -> None:
            if self.produced:
                _die("3 produce all")
                if _step == "3 flush":
                    super().flush(5)
                    _die("3 flush")
            super().send_offsets_to_transaction(*args)
            _die("4 send offsets")

        def commit_transaction(self, *args: Any) -> None:
            global _committed
            if _step == "5 commit sent":
                sent = super().commit_transaction
                threading.Thread(target=sent, args=args, daemon=True).start()
                time.sleep(random.random() * 0.006)
                _die("5 commit sent")
            super().commit_transaction(*args)
            _die("5 committed")
            _committed = True

    class Consumer(confluent_kafka.Consumer):  # type: ignore[misc]
        in_group = False

        def subscribe(self, *args: Any, **others: Any) -> None:
            self.in_group = True
            super().subscribe(*args, **others)

        def poll(self, *args: Any) -> Any:
            global _committed
            if self.in_group and _committed:
                _committed = False
                _die("6 in memory")
            message = super().poll(*args)
            if self.in_group and message is not None and message.error() is None:
                _die("1 polled")
            return message

    confluent_kafka.Producer, confluent_kafka.Consumer = Producer, Consumer


def _skew(seconds: float) -> None:
    real = time.time
    time.time = lambda: real() + seconds


def main(form: dict[str, Any]) -> None:
    """Runs until SIGTERM, or until stdin ends, so that it does not outlive its parent."""
    global _step
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    _install_steps()
    if form["skew_s"]:
        _skew(form["skew_s"])
    runtime = _delivering(form) if form["delivers"] else _engine(form)
    runtime.start()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())

    def orders() -> None:
        global _step
        for line in sys.stdin:
            order, _, what = line.strip().partition(" ")
            if order == "die":
                _step = what or None
        over.set()

    threading.Thread(target=orders, daemon=True).start()
    while not over.wait(1.0):
        pass
    runtime.stop()


def _engine(form: dict[str, Any]) -> Any:
    from interlock.engine.config import BusConfig
    from interlock.engine.runtime.runtime import Runtime

    from tests.chaos.plants import PlantedProcess

    process = PlantedProcess(form["plant"]) if form["plant"] else None
    return Runtime(BusConfig(**form["bus"]), process=process)


def _delivering(form: dict[str, Any]) -> Any:
    from interlock.engine.config import BusConfig
    from interlock.engine.runtime.delivering import Delivering

    from tests.kit.arrivals import posts

    return Delivering(BusConfig(**form["bus"]), posts)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
