"""Events that come in over HTTP go out over HTTP: 100 a second from four senders, as in Knative's Sacura.

SOAK_SECONDS: how long. A quarter of a minute without it, ten minutes in `make soak`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.airflow import free_port
from tests.integration.engine.conftest import Bench
from tests.integration.plugin.commands.conftest import Start
from tests.kit.sinks import Sink

from .test_deliver import durable_of, registering, states

SOAK_S = float(os.environ.get("SOAK_SECONDS") or 15)
RATE, SENDERS, KEYS = 100, 4, 50  # events a second of all senders together
MOST_REPEATED = 0.001
TOKEN = "of-the-soak"
CREDENTIALS = f"""
[[credential]]
name = "sender"
token_sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
types = ["order"]
"""


class Senders:
    """Four threads that post an event each, 25 a second. answers: {status or error: ids of events}."""

    def __init__(self, url: str) -> None:
        self._url, self._over = url, threading.Event()
        self.answers: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(SENDERS)]

    def send_for(self, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        self._over.wait(seconds)  # the load itself
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _send(self, sender: int) -> None:
        began, sent = time.monotonic(), 0
        with httpx.Client(timeout=60) as client:
            while not self._over.wait(max(0.0, began + sent * SENDERS / RATE - time.monotonic())):
                id_ = f"{sender}-{sent}"
                headers = {
                    "ce-specversion": "1.0", "ce-id": id_, "ce-source": f"/sender/{sender}",
                    "ce-type": "order", "ce-subject": f"k{sent % KEYS}", "authorization": f"Bearer {TOKEN}",
                }  # fmt: skip
                try:
                    answer = str(client.post(self._url, headers=headers, content=b"{}").status_code)
                except httpx.TransportError as error:
                    answer = repr(error)
                with self._lock:
                    self.answers.setdefault(answer, []).append(id_)
                sent += 1


def test_each_event_of_four_senders_is_received_by_the_sink_and_hardly_any_twice(
    bench: Bench,
    start_command: Start,
    tmp_path: Path,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    say: Callable[[str], None],
) -> None:
    (tmp_path / "credentials.toml").write_text(CREDENTIALS)
    port = free_port()
    with Sink() as sink:
        durable = durable_of(bench, monkeypatch)
        crm = json.dumps({"conn_type": "http", "host": sink.url})
        receiver = start_command(
            "receiver", "--port", str(port), "--credentials", str(tmp_path / "credentials.toml")
        )
        deliver = start_command(
            "deliver", AIRFLOW_CONN_CRM=crm, AIRFLOW__INTERLOCK__DELIVERY_NETWORKS="127.0.0.0/8"
        )
        processes = (receiver, deliver, start_command("engine"))
        with registering(bench, durable, eventually):
            eventually("the receiver is ready", lambda: _is_ready(port))
            senders = Senders(f"http://127.0.0.1:{port}/events")
            senders.send_for(SOAK_S)
        assert set(senders.answers) == {"202"}, {name: len(ids) for name, ids in senders.answers.items()}
        sent = senders.answers["202"]

        def received() -> Counter[str]:
            return Counter(each.attributes["id"] for each in [*sink.received])

        eventually("all events are received", lambda: len(received()) >= len(sent))
        eventually("no firing is open", lambda: set(states(bench).values()) <= {"acked"})
        counts = received()
    repeated = sum(counts.values()) - len(counts)
    say(f"soak: {len(sent)} events sent in {SOAK_S:.0f} s, {len(counts)} received, {repeated} more than once")
    assert set(counts) == set(sent)
    assert repeated <= MOST_REPEATED * len(sent)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    # uvicorn ends a server that has drained with the signal itself.
    assert [process.wait(60) for process in processes] == [-signal.SIGTERM, 0, 0]


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False
