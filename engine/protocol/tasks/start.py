"""What a task is made with."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus import Committed, TopicPartition
from ...records import OffsetMetadata, decode_json


@dataclass(frozen=True)
class TaskStart:
    """The partition of a task, and where it begins.

    `committed`: the next offset to read, with the metadata of that commit. `partitions`: of the trigger
    topic. `topic_id`: of the partition's topic as it is now. `plain`: a listed
    topic, each record of which is an event.
    """

    tp: TopicPartition
    committed: Committed
    partitions: int
    topic_id: str = ""
    plain: bool = False

    def metadata(self) -> OffsetMetadata:
        """The committed metadata; nothing is applied where there are none. Raises RecordError."""
        if not self.committed.metadata:
            return OffsetMetadata(R=0)
        return decode_json(OffsetMetadata, self.committed.metadata, f"The committed offset of {self.tp}")
