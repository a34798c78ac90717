"""The real broker of the integration tests. It cannot be skipped: without Java 17 they fail and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from interlock.plugin.broker import LocalBroker


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line at once, past pytest's capture: for what takes long."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    return line


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Iterator[LocalBroker]:
    """A running broker for the whole session. Tests share it: use unique names, do not stop it."""
    with LocalBroker(tmp_path_factory.mktemp("broker"), report=say) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: LocalBroker) -> str:
    """Where the session's broker answers."""
    return broker.bootstrap_servers
