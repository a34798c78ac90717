"""A Produce request by hand, for records that no Kafka client would write."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from interlock.engine.bus import TopicPartition

CRC32C = 0x82F63B78  # the polynomial of the checksum of record batches, reflected


def produce(
    servers: str,
    tp: TopicPartition,
    key: bytes,
    value: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    delta: int = 0,
) -> int:
    """Write one record, whose header names may be any bytes; returns its offset.

    delta: the record claims to be so many offsets after its batch, which ends with it.

    The broker must lead the partition. https://kafka.apache.org/protocol#The_Messages_Produce, version 3.
    """
    host, _, port = servers.partition(":")
    batch = _batch(key, value, headers, delta)
    request = b"".join(
        [
            struct.pack(">hhi", 0, 3, 1),  # Produce, its version, the request's number
            _text("test"),
            struct.pack(">hhi", -1, -1, 10_000),  # no transaction, acks=all, timeout_ms
            struct.pack(">i", 1) + _text(tp.topic),
            struct.pack(">ii", 1, tp.partition),
            struct.pack(">i", len(batch)) + batch,
        ]
    )
    with socket.create_connection((host, int(port)), 10) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        [length] = struct.unpack(">i", answers.read(4))
        answer = answers.read(length)
    at = 4 + 4 + 2 + len(tp.topic) + 4 + 4  # after number, count, topic, count, partition
    error, offset = struct.unpack_from(">hq", answer, at)
    assert error == 0, f"the broker answers error {error}"
    return int(offset)


def _batch(key: bytes, value: bytes, headers: Sequence[tuple[bytes, bytes]], delta: int) -> bytes:
    fields = [_sized(key), _sized(value), _varint(len(headers))]
    fields += [_sized(name) + _sized(raw) for name, raw in headers]
    record = b"\0" + _varint(0) + _varint(delta) + b"".join(fields)
    now_ms = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + _sized(record)
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, _crc32c(checked)) + checked


def _crc32c(form: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in form:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (CRC32C if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _sized(form: bytes) -> bytes:
    return _varint(len(form)) + form


def _varint(number: int) -> bytes:
    number = number * 2 if number >= 0 else -2 * number - 1  # zigzag
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
