"""An engine that hangs is replaced, and what it still does has no effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from interlock import event
from interlock.engine.errors import EngineError
from interlock.engine.kafka import bus as kafka_bus
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.records import Registration
from interlock.engine.runtime import watchdog
from interlock.engine.runtime.probes import Probes
from interlock.engine.runtime.runtime import Runtime
from interlock.engine.waiting.notices import Notice
from interlock.engine.waiting.waits import FiringForWait
from interlock.plugin.broker.ports import free_ports

from tests.kit.asking import status


class Hang:
    """Makes the first commit of a firing hang, with its records sent and its transaction open."""

    def __init__(self, bench: Any) -> None:
        self.topic = bench.config.topic("action")
        self.hangs, self.returns, self.refused = threading.Event(), threading.Event(), threading.Event()
        self.ids: list[str] = []

    def around(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        hang = self

        def hanging(transactions: Transactions, outputs: Any, offsets: Any, membership: Any) -> Any:
            if hang.ids or not any(output.topic == hang.topic for output in outputs):
                return commit(transactions, outputs, offsets, membership)
            hang.ids.append(transactions._id)
            producer = transactions._producer

            class Slow:
                def __getattr__(self, name: str) -> Any:
                    if name == "send_offsets_to_transaction":
                        producer.flush(10)
                        hang.hangs.set()
                        hang.returns.wait(120)
                    return getattr(producer, name)

            slow: Any = Slow()
            transactions._producer = slow
            try:
                return commit(transactions, outputs, offsets, membership)
            except EngineError:
                hang.refused.set()
                raise
            finally:
                transactions._producer = producer

        return hanging


@pytest.fixture
def probes() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def test_an_engine_that_hangs_in_a_transaction_is_replaced_and_its_late_commit_is_refused(
    bench: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, probes: ExitStack
) -> None:
    monkeypatch.setattr(watchdog, "SILENT_S", 3.0)
    monkeypatch.setattr(kafka_bus, "MAX_POLL_INTERVAL_MS", 6000)
    hang = Hang(bench)
    monkeypatch.setattr(Transactions, "commit", hang.around(Transactions.commit))
    notices: list[str | None] = []
    firings: list[FiringForWait] = []

    def deliver(item: FiringForWait | Notice) -> None:
        if isinstance(item, Notice):
            notices.append(item.text)
        else:
            firings.append(item)

    runtime = Runtime(bench.config)
    [port] = free_ports(1)
    try:
        runtime.start()
        probes.enter_context(Probes(runtime, "127.0.0.1", port))
        eventually("it is ready", lambda: status(port, "/readyz") == 200)
        assert status(port, "/healthz") == 200
        runtime.waits.open(Registration.of("w", event("go"), None, 0), deliver)
        bench.emit("go")
        assert hang.hangs.wait(60)
        eventually("the wait is resumed by another engine", lambda: firings)
        assert "made no progress" in str(notices[0])
        eventually("the problem passes", lambda: notices[-1] is None)
        assert not hang.refused.is_set()
        assert [status(port, path) for path in ("/healthz", "/readyz")] == [503, 200]

        hang.returns.set()
        assert hang.refused.wait(60)
        [loop, _] = runtime._loops
        eventually("the old thread ends", lambda: status(port, "/healthz") == 200)
        assert loop.hung == 0
        runtime.waits.open(Registration.of("after", event("go"), None, 0), deliver)
        eventually("the new engine continues", lambda: len(firings) == 2)
        assert sorted(f["subscription"] for f in bench.firings()) == ["after", "w"]
        assert (loop.replaced, loop.failures) == (1, 0)
        assert notices[-1] is None
    finally:
        hang.returns.set()
        runtime.stop()
