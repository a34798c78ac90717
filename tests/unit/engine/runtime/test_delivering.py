"""A deliverer's runs, over brokers in memory: how one begins, and what it leaves when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.posts import Delivery, Ended
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.errors import EngineError
from interlock.engine.records import encode_json
from interlock.engine.runtime import delivering as module
from interlock.engine.runtime.delivering import DELIVERER, DelivererProcess, Delivering, run_deliverer
from interlock.engine.runtime.loop_thread import LoopRun
from interlock.engine.waiting.notices import NoticeBoard
from structlog.contextvars import clear_contextvars

from tests.kit.bus import Alone, SimulatedBus
from tests.kit.kafka import Cluster
from tests.unit.engine.delivery.firings import SINK, TP, action

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
PASSES = 12  # of a run: more than a takeover takes


class Posts:
    """Answers 200 to what was sent, at its call `answers_at` of `ended`; None: never."""

    def __init__(self, on_ended: Callable[[], None], answers_at: int | None) -> None:
        self.on_ended, self.answers_at = on_ended, answers_at
        self.sent: list[Delivery] = []
        self.calls = 0
        self.left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    def start(self, delivery: Delivery) -> None:
        assert not self.left
        self.sent.append(delivery)
        self.on_ended()

    def ended(self) -> list[Ended]:
        self.calls += 1
        self.on_ended()  # so that no pass waits
        return [Ended(a.number, Answer(200)) for a in self.sent] if self.calls == self.answers_at else []


class Stop(threading.Event):
    """Is set after so many passes; `then` is called after each."""

    def __init__(self, then: Callable[[int], object] = lambda _: None) -> None:
        super().__init__()
        self.passes, self.then = 0, then

    def is_set(self) -> bool:
        self.passes += 1
        self.then(self.passes)
        return self.passes > PASSES


class Process(DelivererProcess):
    """One partition, one sink, and a firing. fails_at: the pass in which a deliverer fails."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.create("b-action", 1, compact=True)
        self.cluster.create("b-subscription", 1, compact=True)
        record = SinkRecord(subscription=SINK, connection="c", retry=Retry(jitter=0))
        self.cluster.append(TopicPartition("b-subscription", 0), record.key, encode_json(record))
        self.posts: list[Posts] = []
        self.buses: list[SimulatedBus] = []
        self.fails_at: int | None = None
        self.fire("f1", "a")

    def fire(self, name: str, key: str) -> None:
        fired = action(name, key)
        self.cluster.append(TP, fired.key, encode_json(fired))

    def make_bus(self, config: BusConfig) -> SimulatedBus:
        self.buses.append(SimulatedBus(self.cluster, Alone(self.cluster), self.identity.next(config)))
        return self.buses[-1]

    def make_deliverer(self, *arguments: Any) -> Deliverer:
        fails_at = self.fails_at

        class Failing(Deliverer):
            passes = 0

            def run_pass(self, timeout_s: float = 0.0) -> None:
                super().run_pass(timeout_s)
                self.passes += 1
                if self.passes == fails_at:
                    raise EngineError("the brokers are gone")

        return Failing(*arguments)

    def run(self, answers_at: int | None, stop: threading.Event | None = None, drain_s: float = 5.0) -> Posts:
        def make_posts(_: BusConfig, on_ended: Callable[[], None]) -> Posts:
            self.posts.append(Posts(on_ended, answers_at))
            return self.posts[-1]

        self.drain_s = drain_s
        run_deliverer(CONFIG, stop or Stop(), make_posts, process=self)
        return self.posts[-1]

    @property
    def acknowledged(self) -> int:
        log = self.cluster.topics["b-action"].logs[0]
        return sum(b'"acked"' in (entry.value or b"") for _, entry in log.history())

    def assert_ended(self) -> None:
        """It has left the group, and nothing of it is left."""
        assert not self.cluster.group.members
        assert all(bus.closed for bus in self.buses)
        assert all(posts.left for posts in self.posts)
        assert not self.open_ids


@pytest.fixture(autouse=True)
def _no_field_of_a_deliverer_stays() -> Iterator[None]:
    """Deliverers run in the thread of the tests here."""
    yield
    clear_contextvars()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setattr(module, "check", lambda *_, **__: None)
    return Process()


def test_what_is_in_flight_at_a_stop_is_acknowledged_if_it_ends_in_time(process: Process) -> None:
    posts = process.run(answers_at=PASSES + 5)
    assert (len(posts.sent), process.acknowledged) == (1, 1)
    process.assert_ended()


def test_a_stop_does_not_wait_longer_than_its_time_and_the_next_run_delivers_again(process: Process) -> None:
    posts = process.run(answers_at=None, drain_s=0.05)
    assert (len(posts.sent), process.acknowledged) == (1, 0)
    process.assert_ended()
    posts = process.run(answers_at=PASSES)
    assert (len(posts.sent), process.acknowledged) == (1, 1)


def test_nothing_begins_after_a_stop(process: Process) -> None:
    def then(passes: int) -> None:
        if passes == PASSES + 1:
            process.fire("f2", "b")

    posts = process.run(answers_at=PASSES + 5, stop=Stop(then))
    assert len(posts.sent) == 1


def test_a_firing_is_delivered_while_another_one_is_in_flight(process: Process) -> None:
    def then(passes: int) -> None:
        if passes == PASSES - 3:
            process.fire("f2", "b")

    posts = process.run(answers_at=None, stop=Stop(then), drain_s=0)
    assert len(posts.sent) == 2


def test_an_error_cancels_what_is_in_flight_and_leaves_the_group(process: Process) -> None:
    process.fails_at = PASSES - 1
    with pytest.raises(EngineError, match="the brokers are gone"):
        process.run(answers_at=None)
    assert len(process.posts[0].sent) == 1
    process.assert_ended()


def test_an_error_while_the_last_deliveries_are_acknowledged_ends_no_stop(process: Process) -> None:
    process.fails_at = PASSES + 2
    process.run(answers_at=None)
    process.assert_ended()


def test_a_thread_that_was_replaced_does_not_wait_for_deliveries(process: Process) -> None:
    made: list[Posts] = []

    def make_posts(_: BusConfig, on_ended: Callable[[], None]) -> Posts:
        made.append(Posts(on_ended, None))
        return made[-1]

    class Replaced(LoopRun):
        def is_set(self) -> bool:
            self.abandoned = super().is_set() or self.passes > PASSES
            return self.abandoned

    process.drain_s = 1e9
    host = Delivering(CONFIG, make_posts, process)
    host._run(Replaced(DELIVERER, CONFIG, NoticeBoard()))
    assert (len(made[0].sent), made[0].calls) == (1, PASSES)
    process.assert_ended()
