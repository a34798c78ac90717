"""The records and offsets that the tasks of one pass gather for its transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from ...events.sizes import record_bytes
from ..bus import Committed, Headers, Output, Record, TopicPartition
from ..config import KINDS, BusConfig
from ..records.sizes import MAX_VALUE_BYTES

ATTEMPTS: Final = "interlock_attempts"
MISSING: Final = "interlock_missing"  # the parts of the original record that the dead letter does not have
# At most about half a second of work: a crash repeats little, and readers do not wait long.
MAX_PASS_BYTES: Final = 6 * 1024 * 1024
MAX_PASS_RECORDS: Final = 20_000
# Live events, then scans, may fill a transaction up to these shares; timers come last and get the rest.
LIVE_SHARE: Final = 0.75
SCAN_SHARE: Final = 0.9
_PREFIX_BYTES = 64 * 1024
_HEADER_BYTES = 1024
_MOST_HEADERS = 100
_REASON_CHARS = 4000
_ATTEMPTS_DIGITS = 9


def attempts_in(raw: bytes | None) -> int:
    """The number in an ATTEMPTS header; 0 if it is no number. Anybody may write it, and `int` has a limit."""
    return int(raw) if raw is not None and len(raw) <= _ATTEMPTS_DIGITS and raw.isdigit() else 0


class Outputs:
    """Gathers the outputs of one pass. False while it has no offsets to commit.

    version: that of the records to write.
    """

    def __init__(self, config: BusConfig, version: int) -> None:
        self._topics = {kind: config.topic(kind) for kind in KINDS}
        self.version = version
        self.records: list[Output] = []
        self.offsets: dict[TopicPartition, Committed] = {}
        self.dead_lettered: set[TopicPartition] = set()  # whose offsets move past a dead letter
        self._bytes = 0
        self._expected = 0

    def __bool__(self) -> bool:
        return bool(self.offsets)

    @property
    def full(self) -> bool:
        """Whether the transaction has no more room: the rest of the batch waits for the next pass."""
        return self.beyond(1.0)

    def beyond(self, share: float) -> bool:
        """Whether this share of the limits is reached."""
        return (
            self._bytes >= share * MAX_PASS_BYTES
            or len(self.records) + self._expected >= share * MAX_PASS_RECORDS
        )

    def expect(self, records: int, size: int) -> None:
        """Count records and bytes that the commit will add: states may still change until then."""
        self._expected += records
        self._bytes += size

    def write(
        self,
        kind: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
    ) -> None:
        """Add a record of one of the bus's topics. kind: see `config.KINDS`."""
        self.records.append(Output(self._topics[kind], partition, key, value, headers))
        if value is not None:
            self._bytes += len(value)

    def dead_letter(
        self,
        record: Record,
        stage: str,
        reason: str,
        now_ms: int,
        read_from: TopicPartition | None = None,
        *,
        attempts: int = 1,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Send a record to the dead-letter topic unchanged, with headers for where it was and why it failed.

        The transaction that moves past the record writes it, so it is neither lost nor repeated.
        `interlock_attempts` keeps counting over redrives. A record too large for the topic is truncated, and
        headers give the size and hash of its value. A part that the client could not unpack is missing, and
        `interlock_missing` says so. stage: "event", "trigger" or "delivery". read_from: the
        partition whose offset moves past the record, if not its own. attempts: how often it was tried here.
        more: further headers, whose names begin with `interlock_`.
        """
        own, before = [], 0
        for name, raw in record.headers or ():
            if name == ATTEMPTS:
                before = attempts_in(raw)
            elif not name.startswith("interlock_"):
                own.append((name, raw))
        about = {
            # A reason can be longer than the record.
            "interlock_reason": reason if len(reason) <= _REASON_CHARS else reason[:_REASON_CHARS] + " ...",
            "interlock_stage": stage,
            "interlock_origin": str(record),
            "interlock_time": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            ATTEMPTS: str(before + attempts),
            **(more or {}),
        }
        if record.fault:
            nothing = (record.timestamp_ms, record.key, record.value) == (-1, None, None)
            about[MISSING] = "headers, key, value" if nothing else "headers"
        key, value = record.key, record.value
        if record_bytes(key, value, own) > MAX_VALUE_BYTES:  # brokers would refuse it, for ever
            digest = hashlib.sha256(value or b"").hexdigest()
            about |= {"interlock_size": str(len(value or b"")), "interlock_sha256": digest}
            key, value = (part and part[:_PREFIX_BYTES] for part in (key, value))
            own = [(name[:100], raw and raw[:_HEADER_BYTES]) for name, raw in own[:_MOST_HEADERS]]
        headers = [*own, *((name, text.encode("utf-8", "replace")) for name, text in about.items())]
        self.records.append(Output(self._topics["dead-letter"], None, key, value, headers))
        self.dead_lettered.add(record.source if read_from is None else read_from)
        self._bytes += record_bytes(key, value, headers)
