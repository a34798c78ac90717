"""The clusters on which each fact is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.kafkas import Broker, Kafka, Simulation


@pytest.fixture(params=["simulation", "broker"])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """An empty cluster, or an unused name on the session's broker."""
    found: Kafka
    if request.param == "simulation":
        found = Simulation()
    else:
        found = Broker(request.getfixturevalue("broker").bootstrap_servers)
    yield found
    found.close()
