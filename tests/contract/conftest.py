"""The places where each fact is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.places import Broker, Place, Simulation


@pytest.fixture(params=["simulation", "broker"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """An empty cluster, or an unused name on the session's broker."""
    found: Place
    if request.param == "simulation":
        found = Simulation()
    else:
        found = Broker(request.getfixturevalue("broker").bootstrap_servers)
    yield found
    found.close()
