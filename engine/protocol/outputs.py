"""What one transaction will write: outputs and offsets, gathered by the tasks of one pass."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final

from ..bus import Committed, Headers, Output, Record, TopicPartition
from ..config import KINDS, BusConfig
from ..records.sizes import MAX_VALUE_BYTES

ATTEMPTS: Final = "interlock_attempts"
# Of one transaction: at most half a second of work, so that a crash repeats little and no reader waits long.
MAX_PASS_BYTES: Final = 6 * 1024 * 1024
MAX_PASS_RECORDS: Final = 20_000
# Up to which part of that live events and scans go on: the rest is for timers, which else wait for both.
LIVE_SHARE: Final = 0.75
SCAN_SHARE: Final = 0.9
_PREFIX_BYTES = 64 * 1024
_HEADER_BYTES = 1024
_MOST_HEADERS = 100
_REASON_CHARS = 4000


class Outputs:
    """Gathers the outputs of one pass. Empty means that there is nothing to commit.

    version: of the records to write, as the bus record says.
    """

    def __init__(self, config: BusConfig, version: int) -> None:
        self._topics = {kind: config.topic(kind) for kind in KINDS}
        self.version = version
        self.records: list[Output] = []
        self.offsets: dict[TopicPartition, Committed] = {}
        self.dead_lettered: set[TopicPartition] = set()  # partitions whose offsets move past a dead letter
        self._bytes = 0
        self._expected = 0

    def __bool__(self) -> bool:
        return bool(self.offsets)

    @property
    def full(self) -> bool:
        """Whether the rest of a batch is for the next pass."""
        return self.beyond(1.0)

    def beyond(self, share: float) -> bool:
        """Whether as much is gathered as this share of what a pass may."""
        return (
            self._bytes >= share * MAX_PASS_BYTES
            or len(self.records) + self._expected >= share * MAX_PASS_RECORDS
        )

    def expect(self, records: int, size: int) -> None:
        """So much more (bytes) will be written with the commit: states, which may change again until then."""
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
        """A record of one of the bus's topics, named by its kind."""
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
    ) -> None:
        """Set a record aside as it came, with headers that say where it was and why it is here.

        It is written in the transaction that moves past the record: it is never skipped and never repeated.
        `interlock_attempts` counts on over every redrive. A record too large for the dead-letter topic is cut
        to its beginning, and headers tell the value's size and hash. read_from: the partition that moves past
        it, where that is not the record's own. attempts: how often it was tried here.
        """
        own, before = [], 0
        for name, raw in record.headers or ():
            if name == ATTEMPTS:
                before = int(raw) if raw is not None and raw.isdigit() else 0
            elif not name.startswith("interlock_"):
                own.append((name, raw))
        about = {
            # What is wrong with a record can take more words than the record has bytes.
            "interlock_reason": reason if len(reason) <= _REASON_CHARS else reason[:_REASON_CHARS] + " ...",
            "interlock_stage": stage,
            "interlock_origin": str(record),
            "interlock_time": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            ATTEMPTS: str(before + attempts),
        }
        key, value = record.key, record.value
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(raw or b"") for name, raw in own)
        if size > MAX_VALUE_BYTES:  # it would be refused, and the engine could never move past it
            digest = hashlib.sha256(value or b"").hexdigest()
            about |= {"interlock_size": str(len(value or b"")), "interlock_sha256": digest}
            key, value = (part and part[:_PREFIX_BYTES] for part in (key, value))
            own = [(name[:100], raw and raw[:_HEADER_BYTES]) for name, raw in own[:_MOST_HEADERS]]
        headers = [*own, *((name, text.encode("utf-8", "replace")) for name, text in about.items())]
        self.records.append(Output(self._topics["dead-letter"], None, key, value, headers))
        self.dead_lettered.add(record.source if read_from is None else read_from)
        self._bytes += len(value or b"")
