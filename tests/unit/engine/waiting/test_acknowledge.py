"""What a resumed task writes to the bus, and for how long it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from interlock import event
from interlock.engine.bus import Output
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.records import ActionRecord, FiringRecord, Registration
from interlock.engine.waiting import acknowledge as module
from interlock.engine.waiting.acknowledge import write

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
W = Registration.of("w", event("x"), None, 0)
FIRING = FiringRecord(id="f", outcome="met", key=None, fired_at="", events={}, origins={})
ACTION = ActionRecord(subscription="w", incarnation=W.incarnation, state="fired", firing=FIRING)


class SlowBrokers:
    """Clients and writer at once. Each answer takes `answer_s` on a clock of its own."""

    def __init__(self, answer_s: float) -> None:
        self.answer_s, self.now = answer_s, 100.0
        self.undelivered: list[Callable[[str | None], None]] = []
        self.written: list[str] = []

    def monotonic(self) -> float:
        return self.now

    def _answers(self, timeout_s: float) -> bool:
        self.now += min(timeout_s, self.answer_s)
        return timeout_s >= self.answer_s

    def writer(self, delivery_s: float | None = None) -> SlowBrokers:
        return self

    def unreachable(self, reason: str) -> UnreachableError:
        return UnreachableError(reason)

    def partitions(self, topic: str, timeout_s: float) -> int:
        if not self._answers(timeout_s):
            raise UnreachableError("no answer")
        return 1

    def write(self, output: Output, on_delivery: Callable[[str | None], None]) -> None:
        self.written.append(output.topic)
        self.undelivered.append(on_delivery)

    def flush(self, timeout_s: float) -> int:
        if self._answers(timeout_s):
            for on_delivery in self.undelivered:
                on_delivery(None)
            self.undelivered.clear()
        return len(self.undelivered)


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], SlowBrokers]:
    """Acknowledges a firing within 10 s, by brokers that take this long for each answer."""

    def acknowledge(answer_s: float) -> SlowBrokers:
        brokers = SlowBrokers(answer_s)
        monkeypatch.setattr(module, "monotonic", brokers.monotonic)
        try:
            write(CONFIG, cast("Any", brokers), (ACTION,), ("key",), 10.0)
        except UnreachableError:
            brokers.written.append("raises")
        return brokers

    return acknowledge


@pytest.mark.parametrize(
    ("answer_s", "expected", "expected_s"),
    [
        (3.0, ["b-action", "b-subscription"], 9.0),
        (4.0, ["b-action", "b-subscription", "raises"], 10.0),
        (9.0, ["b-action", "raises"], 10.0),
        (11.0, ["raises"], 10.0),
    ],
)
def test_all_requests_of_an_acknowledgement_share_one_timeout(
    answer_s: float, expected: list[str], expected_s: float, takes: Callable[[float], SlowBrokers]
) -> None:
    """Each had its own, so that a task could wait for three times as long."""
    brokers = takes(answer_s)
    assert brokers.written == expected
    assert brokers.now - 100 == expected_s
