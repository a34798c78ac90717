"""The bus of a file's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interlock.plugin.broker import LocalBroker

from tests.integration.engine.conftest import Bench
from tests.kit.page_server import two_partitions


@pytest.fixture(scope="module")
def bench(
    broker: LocalBroker, unique_name: Callable[[str], str], eventually: Callable[..., Any]
) -> Iterator[Bench]:
    with two_partitions(unique_name("bus"), broker, eventually) as made:
        yield made
