"""Scans of several partitions: which one is next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.engine.bus import TopicPartition
from interlock.engine.delivery.scans import DelivererScans
from interlock.engine.delivery.window import Scope


class Backlog:
    """A partition that has left firings out and has room for them, however often it is scanned."""

    is_scanning = True
    reads_what_is_noted = False

    def __init__(self, number: int) -> None:
        self.tp = TopicPartition("b-action", number)
        self.left_out: Mapping[Scope, int] = {("s", None): 0}

    def begin_scan(self) -> int:
        return 0

    def end_scan(self, position: int) -> list[Any]:
        return []


class Owned:
    """The open partitions of a deliverer."""

    def __init__(self, *partitions: int) -> None:
        self.open = [Backlog(number) for number in partitions]


class Bus:
    """Has readers of empty partitions."""

    def reader(self) -> Bus:
        return self

    def read(self, positions: Mapping[TopicPartition, int]) -> None: ...

    def take(self, most: int, timeout_s: float) -> list[Any]:
        return []


def scanned(scans: DelivererScans, count: int) -> list[int]:
    """The partitions of the next scans."""
    found = [scans.read()[0] for _ in range(count)]
    return [partition.tp.partition for partition in found if partition is not None]


def test_partitions_that_always_have_firings_to_scan_take_turns() -> None:
    """The first two alternated, and those behind them got no firing of theirs."""
    owned = Owned(2, 0, 1)
    scans = DelivererScans(Bus(), owned)  # type: ignore[arg-type]
    assert scanned(scans, 6) == [0, 1, 2, 0, 1, 2]
    scans.assign()
    owned.open = Owned(1, 3, 2).open  # another assignment
    assert scanned(scans, 4) == [3, 1, 2, 3]
