"""The metadata that is committed with a partition's offset."""

from __future__ import annotations

import msgspec

from .versions import VERSION


class Trial(msgspec.Struct, frozen=True, array_like=True):
    """The next records of a partition are suspects: one of them may have ended a process.

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

    `R`: the registry is applied up to this position. `g`: scans in progress. `c`, `n`: the committer's
    transactional id, and the number of its transaction. `t`: the topic's id. `e`: with this commit the
    committer cleanly ended its work on the partition. `a`: suspects. `s`: condemned records. `f`: offsets
    that refused records claimed, and their own.
    """

    v: int = VERSION
    R: int
    g: list[tuple[int, int, int]] = []
    c: str = ""
    n: int = 0
    t: str = ""
    e: bool | msgspec.UnsetType = msgspec.UNSET
    a: Trial | msgspec.UnsetType = msgspec.UNSET
    s: Condemned | msgspec.UnsetType = msgspec.UNSET
    f: list[tuple[int, int]] | msgspec.UnsetType = msgspec.UNSET
