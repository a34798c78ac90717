"""Limits the log lines of Kafka clients: each line at most once a minute, and no values of settings."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

from .visible import visible_logger

REPEAT_AFTER_S: Final = 60.0
# The client retries by itself while a coordinator starts, as on a new cluster. A lasting failure reaches the
# caller as an error.
_TRANSIENT = re.compile(
    r"Failed to acquire (?:idempotence PID .*|"
    r"transactional PID.*: Coordinator (?:load in progress|not available)): retrying$"
)

# "CONF [rdkafka#producer-1] [thrd:app]:   client.rack = r1"
_SETTING = re.compile(r"(CONF \[.*?\] \[thrd:[^\]]*\]:\s+[\w.]+ = )", re.DOTALL)


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


class WithoutValues(logging.Filter):
    """Hides the values that a client logs of its settings with `debug=conf`; the client hides few itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        if found := _SETTING.match(record.getMessage()):
            record.msg, record.args = f"{found[1]}[hidden]", ()
        return True


def client_logger(name: str) -> logging.Logger:
    """Returns the logger of this name for Kafka clients, with the filters OncePerMinute and WithoutValues."""
    logger = visible_logger(name)
    if not any(isinstance(each, OncePerMinute) for each in logger.filters):
        logger.addFilter(OncePerMinute())
        logger.addFilter(WithoutValues())
    return logger
