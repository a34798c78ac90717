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
_CHARACTER_BYTES: Final = 4  # at most, in UTF-8
_LENGTHS_BYTES: Final = 10  # at most, of a header's name and value
_ONE_BYTE: Final = 64  # a smaller length takes one byte


def record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Returns the size that a broker compares with `max.message.bytes` for a single uncompressed record."""
    body = _FIXED_BYTES + _with_length(key) + _with_length(value) + _varint(len(headers))
    for name, raw in headers:
        body += _with_length(name.encode()) + _with_length(raw)
    return _BATCH_BYTES + _varint(body) + body


def is_small(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> bool:
    """Returns whether a record is certainly below MAX_EVENT_BYTES; faster than `record_bytes`."""
    length = len(key or b"") + len(value or b"")
    for name, raw in headers:  # in half the time of `sum`: there are few
        length += len(name) + len(raw)
    return _CHARACTER_BYTES * length + _LENGTHS_BYTES * (len(headers) + 10) < MAX_EVENT_BYTES


def _with_length(part: bytes | None) -> int:
    if part is None:
        return 1  # the length -1
    size = len(part)
    return (1 if size < _ONE_BYTE else _varint(size)) + size


def _varint(number: int) -> int:
    """Returns the length in bytes of a zigzag variable-length integer from 0 on."""
    return max(1, -(-(number * 2).bit_length() // 7))
