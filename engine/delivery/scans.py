"""Reading firings that did not fit into memory, in one partition at a time and a part in each pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..bus import Bus, End, Reader, TopicPartition
from .firings import OpenFiring
from .ownership import DelivererOwnership
from .partition import ActionPartition

TAKE: Final = 2000


class DelivererScans:
    """Scans the open partitions that have left firings out, one at a time and in turn.

    count: how many scans have begun. noted_count: how many of them read no further than firings are noted.
    """

    def __init__(self, bus: Bus, ownership: DelivererOwnership) -> None:
        self._bus, self._ownership = bus, ownership
        self.count = self.noted_count = 0
        self._partition: ActionPartition | None = None
        self._last = TopicPartition("", -1)  # before the first scan: lower than all partitions
        self._position = 0
        self._reader: Reader | None = None

    def assign(self) -> None:
        """Another assignment begins."""
        self._end()

    def read(self) -> tuple[ActionPartition | None, Sequence[OpenFiring]]:
        """Read a part. Returns the partition of a scan that has ended, and the firings that it found."""
        if self._partition is None:
            self._partition = self._begin()
        partition, reader = self._partition, self._reader
        if partition is None or reader is None:
            return None, []
        for item in reader.take(TAKE, 0):
            if isinstance(item, End):
                self._position = max(self._position, item.offset)
            else:
                partition.scan(item)
                self._position = item.offset + 1
        found = partition.end_scan(self._position)
        if found is None and partition.is_scanning:
            return None, []
        self._end()
        return partition, found or []

    def _begin(self) -> ActionPartition | None:
        # While one partition is scanned, the one before gets room again. Without turns the same two would be
        # scanned for ever.
        waiting = [partition for partition in self._ownership.open if partition.left_out]
        for partition in sorted(waiting, key=lambda each: (each.tp <= self._last, each.tp)):
            start = partition.begin_scan()
            if start is not None:
                if self._reader is None:
                    self._reader = self._bus.reader()
                self._reader.read({partition.tp: start})
                self._position = start
                self.count += 1
                self.noted_count += partition.reads_what_is_noted
                self._last = partition.tp
                return partition
        return None

    def _end(self) -> None:
        if self._partition is not None and self._reader is not None:
            self._reader.read({})  # otherwise it would go on fetching, and keep what it has fetched
        self._partition = None

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
