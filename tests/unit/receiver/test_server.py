"""The receiver's server: its workers, and the probe of its readiness."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.receiver import connection, server
from interlock.receiver.app import Receiver
from interlock.receiver.server import ReceiverOptions

PARENT = """
import multiprocessing, signal
from interlock.receiver.server import end_with_parent

def work():
    end_with_parent()
    print("works", flush=True)
    signal.pause()

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=work).start()
    signal.pause()
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "works\n"
        parent.kill()
        parent.communicate(timeout=30)  # returns when the worker too has closed its output


def test_the_probe_continues_after_a_client_that_could_not_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate's file may be missing while it is replaced; the receiver stayed ready for ever after."""
    problems: list[Exception | None] = [
        None, ConfigError("ssl.ca.location: no such file"), None, RuntimeError("no thread"), None
    ]  # fmt: skip
    readiness: list[bool] = []
    receiver = Receiver({})

    class Ended(BaseException):
        """Ends the probe, which no Exception does."""

    def require_answer(_config: Any, _timeout_s: float) -> None:
        readiness.append(receiver.is_ready())
        if not problems:
            raise Ended
        if (problem := problems.pop(0)) is not None:
            raise problem

    monkeypatch.setattr(server, "require_answer", require_answer)
    monkeypatch.setattr(server, "PROBE_S", 0.0)
    monkeypatch.setattr(server, "PROBE_AGAIN_S", 0.0)
    config = BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(Ended):
        asyncio.run(server._probe(config, receiver))
    assert readiness == [False, True, False, True, False, True]


def test_a_receiver_that_starts_leaves_what_exists_out_of_garbage_collections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside batches of events the collections took a tenth of the processor time."""
    frozen: list[tuple[int, ...]] = []
    before, thresholds = gc.get_threshold(), (700, 10, 10)
    monkeypatch.setattr(server, "EventProducer", lambda *_: Mock())
    monkeypatch.setattr(server, "require_answer", lambda *_: None)
    monkeypatch.setattr(connection, "reserve_connections", lambda: connection.Connection.most_connections)
    monkeypatch.setattr(server.gc, "freeze", lambda: frozen.append(gc.get_threshold()))
    config = BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
    app = server.build_app(config, ReceiverOptions(), None, lambda *_: None)
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.shutdown" if sent else "lifespan.startup"}

    async def send(message: dict[str, str]) -> None:
        sent.append(message["type"])

    try:
        gc.set_threshold(*thresholds)
        asyncio.run(app({"type": "lifespan"}, receive, send))
        assert gc.get_threshold()[0] > thresholds[0]
    finally:
        gc.set_threshold(*before)
    assert frozen == [thresholds]
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
