"""What one transaction will write: outputs and offsets, gathered by the tasks of one pass."""

from __future__ import annotations

from datetime import datetime, timezone

from .bus import Committed, Output, Record, TopicPartition
from .config import BusConfig


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
        """
        about = {
            "interlock_reason": reason,
            "interlock_stage": stage,
            "interlock_origin": str(record),
            "interlock_time": datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="milliseconds"),
        }
        headers = [*(record.headers or ()), *((name, text.encode()) for name, text in about.items())]
        self.records.append(
            Output(self._config.topic("dead-letter"), None, record.key, record.value, headers)
        )
