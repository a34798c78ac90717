"""Scanning: reading source partitions behind their live position, for registrations that look back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from ...bus import End, Record, TopicPartition
from ...log import at, log
from ...registry.registry import Registered
from ..context import EngineContext
from ..outputs import SCAN_SHARE, Outputs
from ..partitions.offsets import Refusal
from ..tasks.scans import ScanIndex
from ..tasks.source_task import SourceTask
from .gaps import Gaps, beyond_retention

MOST_BESIDE_LIVE: Final = 2500  # records in a pass with live events, a quarter of their limit
MOST_ALONE: Final = 5000
MOST_S: Final = 1.0  # in a pass, whatever the filters cost
WAIT_S: Final = 0.01


class Scanning:
    """Runs the scans of all partitions of an engine, with one reader and some records in each pass."""

    def __init__(self, context: EngineContext, gaps: Gaps) -> None:
        self._bus, self._gaps, self._monotonic = context.bus, gaps, context.monotonic
        self._stats, self._reader = context.stats, context.bus.reader()
        self._index = ScanIndex(context.registry)
        self._offsets = context.parts.offsets(context)
        self._next: dict[TopicPartition, int] = {}  # where the reader continues
        self._fetches = False  # whether the reader has partitions: it keeps them when `drop` clears `_next`
        self._rest: dict[TopicPartition, deque[Record | End]] = {}  # read, and not matched yet
        # Partitions in which the reader continues after the offset that a refused record claims.
        self._misled: set[TopicPartition] = set()
        # First offsets of partitions whose reading begins or resumes, until their first record arrives.
        self._starts: dict[TopicPartition, int] = {}

    @property
    def busy(self) -> bool:
        """Whether a scan is running."""
        return bool(self._next)

    def drop(self) -> None:
        """Forget what was read: partitions were lost or rolled back."""
        self._next.clear()
        self._rest.clear()
        self._starts.clear()
        self._misled.clear()

    def report_gaps(
        self, sources: Iterable[SourceTask], new: list[Registered], first: Mapping[TopicPartition, int | None]
    ) -> None:
        """Report a gap where new registrations look back and no record is left, so that there is no scan.

        first: the offset from which each partition must be read for them.
        """
        if not any(map(beyond_retention, new)):
            return
        live = {s.tp: s for s in sources if s.position and not _is_below(first.get(s.tp), s.position)}
        for tp, start in (self._bus.start_offsets(live) if live else {}).items():
            if start >= live[tp].position:
                self._gaps.report_nothing_left(live[tp], new)

    def forget(self, registered: Registered) -> None:
        """Remove a registration that the registry removed."""
        self._index.forget(registered)

    def take_filter_errors(self) -> Counter[str]:
        """Like `Engine.take_filter_errors`, for scans."""
        return self._index.take_errors()

    def close(self) -> None:
        self._offsets.close()
        self._reader.close()

    def advance(
        self, sources: Mapping[TopicPartition, SourceTask], outputs: Outputs, now_ms: int, *, alone: bool
    ) -> set[TopicPartition]:
        """Read and match some records. Returns the partitions where a scan ended or wrote matches."""
        self._gaps.drop_finished(sources)
        wanted = {tp: source.scans.position() for tp, source in sources.items() if source.scans}
        if not wanted:
            if self._fetches:
                self._read({})
                self.drop()
            self._index.clear()
            return set()
        if self._index.crowded:
            self._index.keep(group for source in sources.values() for group in source.scans.groups)
        if wanted == self._next and self._misled:
            # Read only these again; if the reader cannot, read all.
            if not all(self._reader.seek(tp, wanted[tp]) for tp in self._misled & wanted.keys()):
                self._next = {}
            self._misled.clear()
        if wanted != self._next:
            self._misled.clear()
            moved = [tp for tp, at in wanted.items() if at and at != self._next.get(tp)]
            self._starts.update(self._bus.start_offsets(moved) if moved else {})
            self._next = wanted
            self._rest.clear()
            self._read(wanted)
        if not self._rest and not outputs.beyond(SCAN_SHARE):
            most = MOST_ALONE if alone else MOST_BESIDE_LIVE
            for item in self._reader.take(most, WAIT_S if alone else 0):
                self._rest.setdefault(item.source, deque()).append(item)
            self._look_for_gaps(sources)
        touched = set()
        over = False
        until = self._monotonic() + MOST_S
        for tp in list(self._rest):
            source = sources[tp]
            before = len(outputs.records)
            self._match(source, self._rest.pop(tp), outputs, now_ms, until)
            finished = source.scans.finish(source.position)
            if finished or len(outputs.records) != before:
                touched.add(tp)
            if source.scans:
                self._next[tp] = source.scans.current
            else:
                del self._next[tp]
                self._rest.pop(tp, None)
                over = True
        if over:  # stop reading finished partitions, or the client fetches their new records too
            self._rest.clear()
            self._read(self._next)
        return touched

    def _read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._reader.read(positions)
        self._fetches = bool(positions)

    def _look_for_gaps(self, sources: Mapping[TopicPartition, SourceTask]) -> None:
        """Look for gaps in what was read. Jumps over control or compacted records are no gaps."""
        jumps: dict[TopicPartition, list[tuple[int, Record | End]]] = {}
        for tp, items in self._rest.items():
            source = sources[tp]
            at, first = source.scans.current, items[0]
            if self._starts.pop(tp, None) == at and isinstance(first, Record):
                self._gaps.report_below(source, at, first)
            for item in items:
                if item.offset > at:
                    jumps.setdefault(tp, []).append((at, item))
                at = item.offset if isinstance(item, End) else item.offset + 1
        for tp, start in (self._bus.start_offsets(jumps) if jumps else {}).items():
            source = sources[tp]
            for at, item in jumps[tp]:
                end = min(start, item.offset, source.position)
                if at < end:
                    self._gaps.report_missing(source, at, end, item)

    def _match(
        self, source: SourceTask, items: deque[Record | End], outputs: Outputs, now_ms: int, until: float
    ) -> None:
        while items and not outputs.beyond(SCAN_SHARE) and self._monotonic() < until:
            item = items.popleft()
            if isinstance(item, End):
                source.scanned_to_end(item.offset)
                continue
            current = source.scans.current
            if current >= source.position:
                return  # the scan has ended: later records were read live
            if item.offset != current and (refusal := self._offsets.refusal(item, current)) is not None:
                self._refuse(source, item, refusal)
                return
            index = self._index.of(source.scans.front(item.offset))
            source.scan(item, index, outputs, now_ms)
            self._stats.scanned += 1
        if items:
            self._rest[source.tp] = items

    def _refuse(self, source: SourceTask, record: Record, refusal: Refusal) -> None:
        """Skip a record that is not at its offset: it became a dead letter when it was read live."""
        with at(*record.source, record.offset):
            log.warning("A scan skips %s: %s", record, refusal.reason)
        if record.offset >= refusal.position:
            source.claims.add(record.offset, refusal.position - 1)
        source.scans.advance(min(refusal.position, source.position))
        self._misled.add(source.tp)


def _is_below(first: int | None, position: int) -> bool:
    return first is not None and first < position
