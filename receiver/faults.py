"""Logs a fault at most once a minute, however many requests meet it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..engine.log import log

AGAIN_S: Final = 60.0
_MOST: Final = 100  # texts that are remembered


class Faults:
    """The faults that were logged in the last minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._logged: dict[str, float] = {}

    def report(self, text: str) -> None:
        """Logs this text as a warning, unless it was logged within AGAIN_S."""
        now = self._now()
        if now - self._logged.get(text, -AGAIN_S) < AGAIN_S:
            return
        if len(self._logged) >= _MOST:
            self._logged.clear()
        self._logged[text] = now
        log.warning("receiver: %s", text)
