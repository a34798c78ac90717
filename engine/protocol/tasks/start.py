"""Where a task starts."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus import Committed, TopicPartition
from ...records import OffsetMetadata, decode_json


@dataclass(frozen=True)
class TaskStart:
    """The partition of a task, and where it begins.

    `committed`: the next offset to read, with its metadata. `partitions`: how many the trigger topic has.
    `topic_id`: the present id of the partition's topic. `listed`: it belongs to a listed topic.
    `resumed`: see `MatchRecord`.
    """

    tp: TopicPartition
    committed: Committed
    partitions: int
    topic_id: str = ""
    listed: bool = False
    resumed: int = 0

    def metadata(self) -> OffsetMetadata:
        """The committed metadata; without any, `applied` is 0. Raises RecordError if unreadable."""
        if not self.committed.metadata:
            return OffsetMetadata(applied=0)
        return decode_json(OffsetMetadata, self.committed.metadata, f"The committed offset of {self.tp}")
