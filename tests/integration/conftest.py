"""The real broker of the integration tests. It cannot be skipped: without Java 17 they fail and say so."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interlock.plugin.broker import LocalBroker

# It logs the end of its connections after pytest has closed its log.
logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line at once, past pytest's capture: for what takes long."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    return line


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """`eventually("what is awaited", fact)` gives the first true value of `fact()`.

    The test fails when there is none within `deadline_s`, by default 60.
    """

    def first_true(what: str, fact: Callable[[], Any], deadline_s: float = 60.0) -> Any:
        deadline = time.monotonic() + deadline_s
        pause = threading.Event()
        while True:
            value = fact()
            if value:
                return value
            if time.monotonic() > deadline:
                pytest.fail(f"not within {deadline_s:.0f} s: {what}")
            pause.wait(0.1)

    return first_true


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Iterator[LocalBroker]:
    """A running broker for the whole session. Tests share it: use unique names, do not stop it."""
    with LocalBroker(tmp_path_factory.mktemp("broker"), report=say) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: LocalBroker) -> str:
    """Where the session's broker answers."""
    return broker.bootstrap_servers
