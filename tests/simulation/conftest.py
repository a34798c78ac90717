"""Quiet while worlds are played."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Engines say in their logs what becomes of them, which is much here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
