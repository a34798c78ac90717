"""The size of an event as brokers count it: as a record with key and headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# max.message.bytes of event topics, and the limit of emitters.
MAX_EVENT_BYTES: Final = 1024 * 1024
# Header of a batch, format 2 (https://kafka.apache.org/documentation/#recordbatch); then the record's
# attributes, and the deltas of its timestamp and offset, which are 0 for the only record of a batch.
_BATCH_BYTES: Final = 61
_FIXED_BYTES: Final = 3


def record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Returns the size that a broker compares with `max.message.bytes` for a single uncompressed record."""
    body = _FIXED_BYTES + _with_length(key) + _with_length(value) + _varint(len(headers))
    body += sum(_with_length(name.encode()) + _with_length(raw) for name, raw in headers)
    return _BATCH_BYTES + _varint(body) + body


def _with_length(part: bytes | None) -> int:
    return _varint(-1) if part is None else _varint(len(part)) + len(part)


def _varint(number: int) -> int:
    """Returns the length in bytes of a zigzag variable-length integer."""
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    return max(1, -(-zigzag.bit_length() // 7))
