"""A thread of the waits that the watchdog abandoned leaves everything to the one that replaced it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import End, Output, Record, TopicPartition
from interlock.engine.errors import NoRoom
from interlock.engine.records import RegistrationKey, encode_json
from interlock.engine.waiting.dispatching import Durable
from interlock.engine.waiting.environment import WaitEnvironment
from interlock.engine.waiting.lease_writer import LEASE_S
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.waiting.waits import Waits

from tests.kit.clients import kind_of
from tests.unit.engine.waiting.waits_stage import ACTION, CONFIG, REGISTRY, bus_record

CONDITION = (event("x", by="subject") & event("y", by="subject")).to_json()
LONG_S = 10.0  # for what takes no time


def durable(since_ms: int) -> Durable:
    return Durable(
        subscription="s", condition=CONDITION, since_ms=since_ms, since_given=False, max_keys=10,
        at_limit="dead-letter",
    )  # fmt: skip


ORIGINAL = durable(1000).registration()
ENDS = [End(REGISTRY, 2), End(ACTION, 0)]


def registered() -> Record:
    key = RegistrationKey(ORIGINAL.incarnation, "n0").encode()
    return Record(REGISTRY, 1, 0, key, encode_json(ORIGINAL), None)


class Connection:
    """The clients of one thread. `script`: what its reader's `take` returns or calls; then it hangs."""

    has_error = False

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.hangs, self.goes_on = threading.Event(), threading.Event()
        self.full = False
        self.written: list[Output] = []

    def check(self) -> Mapping[str, int]:
        return {"b-action": 1}

    def reader(self) -> Any:
        return self

    def writer(self, delivery_s: float | None = None) -> Any:
        return self

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        pass

    def take(self, most: int, timeout_s: float) -> list[Any]:
        if self.script:
            entry = self.script.pop(0)
            return entry() if callable(entry) else entry  # type: ignore[no-any-return]
        self.hang()
        return []

    def hang(self) -> None:
        self.hangs.set()
        assert self.goes_on.wait(LONG_S)

    def write(self, output: Output, on_delivery: Callable[[str | None], None] | None = None) -> None:
        if self.full:
            raise NoRoom("full")
        self.written.append(output)

    def serve(self, timeout_s: float = 0) -> None:
        if self.full and timeout_s:
            self.hang()

    def flush(self, timeout_s: float) -> int:
        return 0

    def outage(self) -> None:
        return None

    def close(self) -> None:
        pass


class Threads:
    """Waits with a stream, and the threads that run them, each with the connection that a test gives it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._connections: list[Any] = [None]
        self._stops: list[threading.Event] = []
        self.waits = Waits(
            CONFIG,
            NoticeBoard(),
            lambda _: self._connections[-1],
            WaitEnvironment(monotonic=lambda: self.now),
        )
        # The task of a later run, whose `since` is later.
        self.waits.dispatching.open(durable(5000), [].append)

    def begin(self, connection: Connection) -> Callable[[], None]:
        """A thread runs the waits until its connection hangs. Returns a function: it goes on, and ends."""
        self._connections.append(connection)
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,), daemon=True)
        thread.start()
        assert connection.hangs.wait(LONG_S)

        def end() -> None:
            stop.set()
            connection.goes_on.set()
            thread.join(LONG_S)
            assert not thread.is_alive()

        self._stops.append(stop)
        return end

    def replace(self, connection: Connection) -> Callable[[], None]:
        """As the watchdog does it: the thread is told to end, and another one begins."""
        self._stops[-1].set()
        return self.begin(connection)

    def _run(self, stop: threading.Event) -> None:
        try:
            self.waits.run(stop)
        except Exception:
            if not stop.is_set():  # as a `LoopThread`
                raise

    def later(self) -> list[Any]:
        self.now += LEASE_S + 1
        return []


@pytest.fixture
def threads() -> Threads:
    return Threads()


def test_it_registers_nothing_from_what_the_next_thread_has_read_so_far(threads: Threads) -> None:
    """The subscription got a later `since`, and events before it were lost."""
    abandoned, new = Connection([bus_record(), registered(), *ENDS], []), Connection([bus_record()])
    end_abandoned = threads.begin(abandoned)
    end_new = threads.replace(new)
    end_abandoned()
    assert abandoned.written == []
    end_new()


def test_it_stops_trying_to_register_once_another_thread_has_begun(threads: Threads) -> None:
    abandoned, new = Connection([bus_record(), End(REGISTRY, 1), End(ACTION, 0)]), Connection([bus_record()])
    abandoned.full = True
    end_abandoned = threads.begin(abandoned)
    end_new = threads.replace(new)
    abandoned.full = False
    end_abandoned()
    assert abandoned.written == []
    end_new()


def test_it_does_not_end_the_leases_of_the_next_thread(threads: Threads) -> None:
    abandoned = Connection([bus_record(), registered(), *ENDS], [])
    new = Connection([bus_record(), registered(), *ENDS], threads.later, [])
    end_abandoned = threads.begin(abandoned)
    end_new = threads.replace(new)
    assert [kind_of(output) for output in new.written] == ["a lease", "a renewal"]
    end_abandoned()
    assert abandoned.written == []
    end_new()
    assert [kind_of(output) for output in new.written] == ["a lease", "a renewal", "a renewal"]
