"""What was lost of a partition: whether it can go on from what is committed for it."""

from __future__ import annotations

from ..bus import Committed, TopicPartition
from ..records import OffsetMetadata, decode_json


def metadata_of(tp: TopicPartition, found: Committed | None) -> OffsetMetadata:
    """What was committed with the offset; of none, and of one committed by hand, nothing is known (R=0).

    RecordError where it cannot be read.
    """
    if found is None or not found.metadata:
        return OffsetMetadata(R=0)
    return decode_json(OffsetMetadata, found.metadata, f"The committed offset of {tp}")


def what_is_lost(
    found: Committed | None, metadata: OffsetMetadata, topic_id: str, low: int, high: int, *, in_use: bool
) -> str | None:
    """Why a partition cannot go on from its committed offset; None where it can.

    topic_id, low, high: of the topic as it is now, and its first and next offset. in_use: whether the
    registry says that the partition was read before.
    """
    if found is None:
        return (
            "the group's committed offset is gone (groups without members lose theirs)." if in_use else None
        )
    if metadata.t not in ("", topic_id):
        return "its topic was deleted and made again; what was committed is of the old one."
    if found.offset < low:
        return f"records {found.offset} to {low - 1} were removed before they were read (retention)."
    if found.offset > high:
        return f"the committed offset {found.offset} lies beyond its end {high}."
    return None
