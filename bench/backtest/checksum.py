"""A checksum of firings that does not depend on their order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


class Checksum:
    """The sum of a digest of each firing with all of its members."""

    def __init__(self) -> None:
        self.firings = self.value = 0

    def add(
        self,
        key: str,
        outcome: str,
        fired_ms: int,
        timer_ms: int | None,
        missing: Iterable[str],
        parts: Iterable[tuple[object, ...]],
    ) -> None:
        """parts: (label, source, id, type, topic, partition, offset, stamp)."""
        text = repr((key, outcome, fired_ms, timer_ms, tuple(missing), tuple(parts)))
        self.firings += 1
        self.value += int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
