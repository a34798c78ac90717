"""Which events a key has seen: 8-byte digests of the last identities, oldest first (D1)."""

from __future__ import annotations

import hashlib
from typing import Final

# How many identities of events a key remembers, so that a repeat does not count twice, even after a firing.
# Each makes every state record 8 bytes larger.
SEEN_EVENTS: Final = 64
# How long after the latest stamp they are remembered. A key that holds nothing else ends after this (Z1).
SEEN_MS: Final = 3_600_000

_DIGEST_BYTES: Final = 8
SEEN_BYTES: Final = SEEN_EVENTS * _DIGEST_BYTES


def digest(source: str, id_: str) -> bytes:
    """The digest of an identity; the same in every process and release, because stored states contain it."""
    framed = f"{len(source)}:{source}{id_}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(framed, digest_size=_DIGEST_BYTES).digest()


def is_seen(seen: bytes, wanted: bytes) -> bool:
    """True if the digest is among those in `seen`."""
    start = seen.find(wanted)
    while start != -1 and start % _DIGEST_BYTES:
        start = seen.find(wanted, start + 1)
    return start != -1


def remembers(seen: bytes, last_ms: int | None, identity: tuple[str, str], stamp_ms: int | None) -> bool:
    """True if an event with this identity (source, id) and stamp counts as a repeat of one in `seen` (D1)."""
    forgotten = stamp_ms is not None and last_ms is not None and stamp_ms > last_ms + SEEN_MS
    return not forgotten and is_seen(seen, digest(*identity))


def with_digest(seen: bytes, new: bytes) -> bytes:
    """`seen` with one more digest, without the oldest beyond SEEN_EVENTS."""
    return (seen + new)[-SEEN_BYTES:]
