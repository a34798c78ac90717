"""No logs while worlds are played."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Turns logs off: thousands of engines fail and restart here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
