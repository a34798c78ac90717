"""Checks that partitions can continue from their committed offsets, and that compact topics are complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ....conditions.explanation.wording import counted
from ...bus import Bus, Committed, TopicPartition
from ...config import BusConfig
from ...errors import RecordError, TopicsError, UnknownVersion
from ...records import OffsetMetadata, decode_json
from ..poison.suspects import why_stopped
from .lifecycle import PAUSED, STOPPED, PartitionState

ANOTHER_BUS: Final = "Create a bus with another name, and let the waits register there."
HALF_MET: Final = "half-met conditions"
REGISTRATIONS: Final = "registrations"
RESUME: Final = "topics resume {topic} {partition} --from start|end|OFFSET"


@dataclass(frozen=True)
class CommitInspection:
    """A committed offset's metadata. `lost`: why the partition cannot continue from it; None if it can."""

    metadata: OffsetMetadata
    lost: str | None


def paused_text(tp: TopicPartition, reason: str) -> str:
    """The message that a partition is paused."""
    return f"{_begins(tp, PAUSED)}{reason}"


def stopped_text(config: BusConfig, tp: TopicPartition, reason: str) -> str:
    """The message that a partition is stopped, with the command that resumes it."""
    command = config.command(RESUME.format(topic=tp.topic, partition=tp.partition))
    return f"{_begins(tp, STOPPED)}{reason} To resume: {command}"


def reported_state(tp: TopicPartition, problem: str) -> PartitionState | None:
    """The state that a partition's recorded problem is about; None if it is read in spite of the problem."""
    return next((state for state in (PAUSED, STOPPED) if problem.startswith(_begins(tp, state))), None)


def _begins(tp: TopicPartition, state: PartitionState) -> str:
    return f"{tp} is {state.value}: "


def unreadable_state_text(config: BusConfig, unreadable: Mapping[str, str]) -> str:
    """Why a trigger partition is paused that has states which are needed and cannot be read, and what to do.

    unreadable: {subscription: why its state cannot be read}.
    """
    name, *others = sorted(unreadable)
    rest = counted(len(others), "other subscription", "other subscriptions")
    which = f"{name!r} and {rest} need" if others else f"{name!r} needs"
    cancel = config.command(f"subscriptions cancel {name}")
    return (
        f"a state record cannot be read. {unreadable[name]} {which} such a record. Run the version that "
        f"wrote it, or write the record's earlier value again. To drop what is pending for {name!r}: {cancel}"
    )


def unreadable_match_text(config: BusConfig, tp: TopicPartition, reason: str) -> str:
    """Why a trigger partition is paused whose next match cannot be read, and what to do."""
    command = config.command(RESUME.format(topic=tp.topic, partition=tp.partition))
    return (
        f"{reason} The matches before it are processed. If no engine wrote it, remove the partition's "
        f"records up to it with Kafka's `kafka-delete-records.sh`, then run: {command}"
    )


def inspect_commit(
    found: Committed | None,
    topic_id: str,
    low: int,
    high: int,
    *,
    in_use: bool,
    listed: bool = False,
    registry_end: int | None = None,
) -> CommitInspection:
    """The metadata of a committed offset, and whether the partition can continue from it.

    topic_id, low, high: the topic's present id, and the partition's first and next offset. in_use: the
    partition has a source record. listed: its topic is a listed one. registry_end: where the registry ended
    when it was read after the commit; None: R is not compared with it. Without readable metadata R is 0, so
    all registrations are applied again.
    """
    if found is None or predates_listing(found, in_use=in_use, listed=listed):
        gone = "the group's committed offset no longer exists (groups without members lose theirs)."
        return CommitInspection(OffsetMetadata(applied=0), gone if in_use else None)
    lost: str | None
    try:
        metadata = metadata_of(found)
    except UnknownVersion as e:
        lost = f"{e} `topics resume` would drop the metadata committed with offset {found.offset}."
        return CommitInspection(OffsetMetadata(applied=0), lost)
    except RecordError as e:
        return CommitInspection(OffsetMetadata(applied=0), str(e))
    if registry_end is not None and registry_end < metadata.applied:
        lost = (
            f"its committed offset says that the registry was read up to {metadata.applied}, and it ends at"
            f" {registry_end}: no engine committed that, or the registry's last records were lost."
        )
        return CommitInspection(OffsetMetadata(applied=0), lost)
    if metadata.topic_id not in ("", topic_id):
        lost = "its topic was deleted and created again; the committed offset belongs to the old one."
    elif found.offset < low:
        lost = f"records {found.offset} to {low - 1} were removed before they were read (retention)."
    elif found.offset > high:
        lost = f"the committed offset {found.offset} lies beyond its end {high}."
    else:
        lost = why_stopped(metadata)
    return CommitInspection(metadata, lost)


def predates_listing(found: Committed, *, in_use: bool, listed: bool) -> bool:
    """Whether the offset was committed before the topic was last removed from the list.

    `topics remove` deletes the source record. An offset without metadata was not committed by an engine: an
    administrator may have set it for this listing.
    """
    return listed and not in_use and bool(found.metadata)


def metadata_of(found: Committed) -> OffsetMetadata:
    """The metadata of a committed offset. Raises RecordError if it is unreadable."""
    if not found.metadata:  # committed by hand
        return OffsetMetadata(applied=0)
    return decode_json(OffsetMetadata, found.metadata, "its committed offset")


def require_whole(bus: Bus, partitions: Iterable[TopicPartition], contents: str) -> None:
    """Raises TopicsError if records of these compacted partitions were removed. See `removed_records`."""
    problems = removed_records(bus.start_offsets(partitions), contents)
    if problems:
        raise TopicsError(*problems, ANOTHER_BUS)


def removed_records(starts: Mapping[TopicPartition, int], contents: str) -> list[str]:
    """A message for each compacted partition that does not start at offset 0. contents: what its records are.

    Compaction never moves the start of a partition. Retention or an administrator does, and may remove the
    newest record of a key.
    """
    return [
        f"Records 0 to {start - 1} of {tp} were removed, and possibly {contents} with them."
        for tp, start in starts.items()
        if start > 0
    ]
