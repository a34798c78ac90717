"""The clusters on which each fact is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.kafkas import Broker, Kafka, Simulation


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each fact is tested on the simulation and on a broker, there with the groups that its mark names."""
    if "kafka" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("groups")
        groups = mark.args if mark is not None else ("broker",)
        metafunc.parametrize("kafka", ["simulation", *groups], indirect=True)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """An empty cluster, or an unused name on the session's broker."""
    found: Kafka
    if request.param == "simulation":
        found = Simulation()
    else:
        servers = request.getfixturevalue("broker").bootstrap_servers
        found = Broker(servers, of_deliverers=request.param == "deliverers")
    yield found
    found.close()
