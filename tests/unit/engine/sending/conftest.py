"""A sink on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.sinks import Sink


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made
