"""What one transaction will write: outputs and offsets, gathered by the tasks of one pass."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from ..bus import Committed, Output, Record, TopicPartition
from ..config import BusConfig
from ..sizes import MAX_VALUE_BYTES

_PREFIX_BYTES = 64 * 1024
_HEADER_BYTES = 1024
_MOST_HEADERS = 100
_REASON_CHARS = 4000


class Outputs:
    """Gathers the outputs of one pass. Empty means that there is nothing to commit."""

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self.records: list[Output] = []
        self.offsets: dict[TopicPartition, Committed] = {}

    def __bool__(self) -> bool:
        return bool(self.offsets)

    def write(self, kind: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        self.records.append(Output(self._config.topic(kind), partition, key, value))

    def dead_letter(self, record: Record, stage: str, reason: str, now: float) -> None:
        """Set a record aside as it came, with headers that say where it was and why it is here.

        It is written in the transaction that moves past the record: it is never skipped and never repeated.
        A record too large for the dead-letter topic is cut to its beginning, and headers tell the value's
        size and hash.
        """
        about = {
            # What is wrong with a record can take more words than the record has bytes.
            "interlock_reason": reason if len(reason) <= _REASON_CHARS else reason[:_REASON_CHARS] + " ...",
            "interlock_stage": stage,
            "interlock_origin": str(record),
            "interlock_time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
        }
        key, value, own = record.key, record.value, list(record.headers or ())
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(raw or b"") for name, raw in own)
        if size > MAX_VALUE_BYTES:  # it would be refused, and the engine could never move past it
            digest = hashlib.sha256(value or b"").hexdigest()
            about |= {"interlock_size": str(len(value or b"")), "interlock_sha256": digest}
            key, value = (part and part[:_PREFIX_BYTES] for part in (key, value))
            own = [(name[:100], raw and raw[:_HEADER_BYTES]) for name, raw in own[:_MOST_HEADERS]]
        headers = [*own, *((name, text.encode("utf-8", "replace")) for name, text in about.items())]
        self.records.append(Output(self._config.topic("dead-letter"), None, key, value, headers))
