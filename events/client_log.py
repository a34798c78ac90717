"""What Kafka clients say of themselves in the log: each line once a minute, however often it is repeated."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

REPEAT_AFTER_S: Final = 60.0
# The client goes on by itself, and what it cannot do its caller is told: a coordinator that starts, as on a
# cluster that is new.
_PASSES = re.compile(r"Failed to acquire idempotence PID .*: retrying$")


class OncePerMinute(logging.Filter):
    """Lets a client's line pass once a minute: while a broker is away, each repeats its own by the second."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if _PASSES.search(text):
            return False
        # lines differ in the times and the client's number they tell
        shape = re.sub(r"\d+", "#", text)[:200]
        now = time.monotonic()
        if now - self._passed.get(shape, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            return False
        if len(self._passed) > 1000:
            self._passed.clear()
        self._passed[shape] = now
        return True


def client_logger(name: str) -> logging.Logger:
    """The logger of this name, for clients to write to."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, OncePerMinute) for each in logger.filters):
        logger.addFilter(OncePerMinute())
    return logger
