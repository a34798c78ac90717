"""What was lost: whether a partition can go on from its committed offset, and a log is kept whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...bus import Bus, Committed, TopicPartition
from ...errors import RecordError, TopicsError
from ...records import OffsetMetadata, decode_json
from ..poison.suspects import why_stopped

ANOTHER_BUS: Final = "Make a bus of another name, and let the waits register there."
HALF_MET: Final = "half-met conditions"
REGISTRATIONS: Final = "registrations"


@dataclass(frozen=True)
class Known:
    """What is known of a partition from its committed offset. `lost`: why it cannot go on from there."""

    metadata: OffsetMetadata
    lost: str | None


def not_read(tp: TopicPartition, reason: str) -> str:
    """The sentence that a partition is not read; with "" for the reason, how each of them begins."""
    return f"{tp} is not read: {reason}"


def look_at(
    found: Committed | None, topic_id: str, low: int, high: int, *, in_use: bool, listed: bool = False
) -> Known:
    """What was committed with an offset, and whether the partition can go on from it.

    topic_id, low, high: of the topic as it is now, and its first and next offset. in_use: whether the
    registry says that the partition was read before. listed: whether it is one of a topic of others. Of an
    offset without metadata that can be read nothing is known: R is 0, so that all registrations are applied
    to it again.
    """
    if found is None or begins_anew(found, in_use=in_use, listed=listed):
        gone = "the group's committed offset is gone (groups without members lose theirs)."
        return Known(OffsetMetadata(R=0), gone if in_use else None)
    try:
        metadata = metadata_of(found)
    except RecordError as e:
        return Known(OffsetMetadata(R=0), str(e))
    lost: str | None
    if metadata.t not in ("", topic_id):
        lost = "its topic was deleted and made again; what was committed is of the old one."
    elif found.offset < low:
        lost = f"records {found.offset} to {low - 1} were removed before they were read (retention)."
    elif found.offset > high:
        lost = f"the committed offset {found.offset} lies beyond its end {high}."
    else:
        lost = why_stopped(metadata)
    return Known(metadata, lost)


def begins_anew(found: Committed, *, in_use: bool, listed: bool) -> bool:
    """Whether an offset is of before its topic was taken out of the list: an engine's, and not in use."""
    return listed and not in_use and bool(found.metadata)


def metadata_of(found: Committed) -> OffsetMetadata:
    """What was committed with an offset; RecordError where it cannot be read."""
    if not found.metadata:  # committed by hand
        return OffsetMetadata(R=0)
    return decode_json(OffsetMetadata, found.metadata, "its committed offset")


def require_whole(bus: Bus, partitions: Iterable[TopicPartition], held: str) -> None:
    """TopicsError where records of these compact partitions were removed; held: as for `cut_off`."""
    problems = cut_off(bus.start_offsets(partitions), held)
    if problems:
        raise TopicsError((*problems, ANOTHER_BUS))


def cut_off(starts: Mapping[TopicPartition, int], held: str) -> list[str]:
    """A sentence for each compact partition that does not start at 0; held: what its records tell.

    Compaction never moves a start: only retention or somebody's hand does, and what stood below may be gone.
    """
    return [
        f"Records 0 to {start - 1} of {tp} were removed, and {held} may be gone with them."
        for tp, start in starts.items()
        if start > 0
    ]
