from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet(request: pytest.FixtureRequest) -> Iterator[None]:
    if "_i13_" not in request.node.name:  # which looks at the logs
        logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
