"""The clocks and unique names that waits take from their process; tests replace them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass


def nonce() -> str:
    """A name that no other process uses."""
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True)
class WaitEnvironment:
    """clock: the time of day in seconds. monotonic: seconds. nonce: returns a new unique name."""

    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    nonce: Callable[[], str] = nonce
