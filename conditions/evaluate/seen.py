"""Which events a key has seen: 8-byte digests of the last identities, oldest first (D1)."""

from __future__ import annotations

import hashlib
from typing import Final

# Identities remembered for a key, so that a repeat of an event does not count twice even across a firing.
# A larger horizon makes every state record larger, by 8 bytes an event.
SEEN_EVENTS: Final = 64
# And for how long after the latest stamp: it bounds how long a key stays open for nothing else (Z1).
SEEN_MS: Final = 3_600_000

_DIGEST_BYTES: Final = 8
_SEEN_BYTES: Final = SEEN_EVENTS * _DIGEST_BYTES


def digest(source: str, id_: str) -> bytes:
    """The digest of an identity; the same in every process and release, for states hold it."""
    framed = f"{len(source)}:{source}{id_}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(framed, digest_size=_DIGEST_BYTES).digest()


def is_seen(seen: bytes, wanted: bytes) -> bool:
    """True if the digest is among those in `seen`."""
    start = seen.find(wanted)
    while start != -1 and start % _DIGEST_BYTES:
        start = seen.find(wanted, start + 1)
    return start != -1


def with_digest(seen: bytes, new: bytes) -> bytes:
    """`seen` with one more, without the oldest beyond the bound."""
    return (seen + new)[-_SEEN_BYTES:]
