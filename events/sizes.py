"""How large an event may be: counted as the brokers count it, as a record with key and headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# What event topics are made with (max.message.bytes), and what emitters keep to.
MAX_EVENT_BYTES: Final = 1024 * 1024
# Of a batch of one record, format 2 (https://kafka.apache.org/documentation/#recordbatch); and of the record:
# its attributes and the differences of its time and offset from the batch's, which are 0.
_BATCH_BYTES: Final = 61
_FIXED_BYTES: Final = 3


def record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """What a broker compares with `max.message.bytes` when this is sent alone and not compressed."""
    body = _FIXED_BYTES + _with_length(key) + _with_length(value) + _varint(len(headers))
    body += sum(_with_length(name.encode()) + _with_length(raw) for name, raw in headers)
    return _BATCH_BYTES + _varint(body) + body


def _with_length(part: bytes | None) -> int:
    return _varint(-1) if part is None else _varint(len(part)) + len(part)


def _varint(number: int) -> int:
    """Bytes of a zigzag variable-length integer."""
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    return max(1, -(-zigzag.bit_length() // 7))
