"""Limits the log lines of Kafka clients: each line at most once a minute."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

from .visible import visible_logger

REPEAT_AFTER_S: Final = 60.0
# The client retries by itself while a coordinator starts, as on a new cluster. A lasting failure reaches the
# caller as an error.
_TRANSIENT = re.compile(r"Failed to acquire idempotence PID .*: retrying$")


class OncePerMinute(logging.Filter):
    """Passes a line once a minute: while a broker is down, each client repeats its lines every second."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if _TRANSIENT.search(text):
            return False
        # Repeated lines differ only in numbers: times and the client's number.
        shape = re.sub(r"\d+", "#", text)[:200]
        now = time.monotonic()
        if now - self._passed.get(shape, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            return False
        if len(self._passed) > 1000:
            self._passed.clear()
        self._passed[shape] = now
        return True


def client_logger(name: str) -> logging.Logger:
    """Returns the logger of this name for Kafka clients, with the filter OncePerMinute."""
    logger = visible_logger(name)
    if not any(isinstance(each, OncePerMinute) for each in logger.filters):
        logger.addFilter(OncePerMinute())
    return logger
