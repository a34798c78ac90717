"""The metadata that is committed with a partition's offset."""

from __future__ import annotations

import msgspec

from .versions import VERSION


class Trial(msgspec.Struct, frozen=True, array_like=True):
    """A partition whose next records are suspected of having ended a process.

    docs/understand/engine/suspects.md has the rules.

    `width`: how many of them a pass may take, 0 for one alone. `left`: how many are still suspected. `at`: of
    0 the record that is tried alone, -1 where none is yet; else the offset from which that many are taken, -1
    where a process has ended beyond it before. `trying`: the committer was about to try it. `ended`:
    transactional ids of processes that ended on it.
    """

    width: int
    left: int
    at: int = -1
    trying: bool = False
    ended: tuple[str, ...] = ()


class Aside(msgspec.Struct, frozen=True, array_like=True):
    """How many records of a partition were set aside because processes ended on them; `at`: the last one."""

    count: int
    at: int


class OffsetMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Committed with an offset, at most 4,095 characters of JSON: docs/understand/engine/look-back.md.

    `R`: the registry position applied. `g`: scans in progress. `c`, `n`: the transactional id of the
    committer and the number of its transaction. `t`: the topic's id. `e`: the committer ended in good order
    with it. `a`, `s`: of records on which processes end.
    """

    v: int = VERSION
    R: int
    g: list[tuple[int, int, int]] = []
    c: str = ""
    n: int = 0
    t: str = ""
    e: bool | msgspec.UnsetType = msgspec.UNSET
    a: Trial | msgspec.UnsetType = msgspec.UNSET
    s: Aside | msgspec.UnsetType = msgspec.UNSET
