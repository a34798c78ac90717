"""The metadata that are committed with a partition's offset: by engines, and by deliverers."""

from __future__ import annotations

import msgspec

from .versions import VERSION


class SuspectRecords(msgspec.Struct, frozen=True, array_like=True):
    """The next records of a partition, one of which may have ended a process.

    docs/understand/engine/suspects.md has the rules.

    `width`: how many suspects a pass may process; 0: one record, and nothing else. `left`: how many suspects
    are left. `at`: with width 0, the offset of the record to try alone, or -1 if none is chosen yet; with
    another width, the offset at which the suspects began, or -1 if a process ended after progress beyond it.
    `trying`: the committer was about to try that record. `ended`: transactional ids of the processes that
    ended on it.
    """

    width: int
    left: int
    at: int = -1
    trying: bool = False
    ended: tuple[str, ...] = ()


class Condemned(msgspec.Struct, frozen=True, array_like=True):
    """`count`: how many records of a partition were condemned. `at`: the offset of the last one."""

    count: int
    at: int


class OffsetMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Committed with an offset, at most 4,095 characters of JSON: docs/understand/engine/look-back.md.

    The members of the JSON are single letters, because the space is small.

    `applied`: the registry is applied up to this position. `scans`: those in progress. `committer`,
    `transaction`: the committer's transactional id, and the number of its transaction. `ended_cleanly`: with
    this commit the committer cleanly ended its work on the partition. `condemned`: the condemned records.
    `claims`: (claimed offset, own offset) of records that were refused because they claimed another offset.
    """

    v: int = VERSION
    applied: int = msgspec.field(name="R")
    scans: list[tuple[int, int, int]] = msgspec.field(default_factory=list, name="g")
    committer: str = msgspec.field(default="", name="c")
    transaction: int = msgspec.field(default=0, name="n")
    topic_id: str = msgspec.field(default="", name="t")
    ended_cleanly: bool | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="e")
    suspects: SuspectRecords | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="a")
    condemned: Condemned | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="s")
    claims: list[tuple[int, int]] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="f")


class DeliveryMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Committed by a deliverer with the offset of an action partition: docs/understand/engine/sinks.md.

    `topic_id`: the topic's id at the commit; "" if something other than a deliverer committed the offset.
    `committer`: the deliverer's transactional id. `problem`: what is wrong with the partition, for `health`.
    """

    v: int
    topic_id: str = msgspec.field(default="", name="t")
    committer: str = msgspec.field(default="", name="c")
    problem: str = msgspec.field(default="", name="p")
