"""Gaps: records that scans miss because retention removed them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from ...bus import End, Record, TopicPartition
from ...log import at, log
from ...registry.registry import Registered
from ..context import EngineContext
from ..tasks.source_task import SourceTask

MOST_NAMED: Final = 5
LEAST_S: Final = 60.0  # a gap is listed for at least this long: its scan may end before anybody sees it
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Final = "no record to look back at is left."
# If no record is left, the age of the removed ones is unknown. Then only look-backs beyond the event topic's
# default retention count as missing records: the partition may have been idle for months.
KEPT_MS: Final = 30 * 24 * 3_600_000


def beyond_retention(registered: Registered) -> bool:
    """Whether a registration looks back further than the default retention."""
    return registered.registration.since_ms < registered.timestamp_ms - KEPT_MS


@dataclass
class _Gap:
    text: str = ""
    concerned: dict[int, Registered] = field(default_factory=dict)  # by registry offset
    until: float = 0.0


class Gaps:
    """The gaps in the scans of an engine.

    Each gap is logged once for each scan, counted for each registration (`look_back_lost`), and listed in
    `problems` while the scan runs, at least for a minute.
    """

    def __init__(self, context: EngineContext) -> None:
        self._registry, self._stats, self._monotonic = context.registry, context.stats, context.monotonic
        self._gaps: dict[TopicPartition, _Gap] = {}

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def problems(self) -> dict[TopicPartition, str]:
        """{source partition: message about the records that look-backs miss}, sorted."""
        return {tp: self._gaps[tp].text for tp in sorted(self._gaps)}

    def report_missing(self, source: SourceTask, start: int, end: int, left: Record | End) -> None:
        """Report a gap: the scan expected record `start` and found `left`, so [start, end) were removed."""
        self._report_read(source, f"records {start} to {end - 1}", end - 1, left)

    def report_below(self, source: SourceTask, end: int, left: Record) -> None:
        """Report a gap: the scan begins at the partition's first record, `left` at offset `end`."""
        self._report_read(source, f"records below {end}", end, left)

    def report_nothing_left(self, source: SourceTask, new: Iterable[Registered]) -> None:
        """Report a gap: all records below the live position of this partition were removed."""
        self._report(source, f"records below {source.position}", NOTHING, filter(beyond_retention, new))

    def drop_finished(self, sources: Mapping[TopicPartition, SourceTask]) -> None:
        """Forget the gaps of scans that are over."""
        for tp, gap in list(self._gaps.items()):
            source = sources.get(tp)
            running = source is not None and any(map(source.scans.covers, gap.concerned))
            if not running and self._monotonic() >= gap.until:
                del self._gaps[tp]

    def _report_read(self, source: SourceTask, what: str, last: int, left: Record | End) -> None:
        """Report a gap that concerns the registrations of all groups at positions up to `last`."""
        members = [
            registered
            for group in source.scans.front(left.offset)
            if group.position <= last
            for registered in self._registry.between(group.start, group.end)
            # Removed records are older than those that are left.
            if isinstance(left, End) or registered.registration.since_ms < left.timestamp_ms
        ]
        self._report(source, what, _remainder(left), members)

    def _report(self, source: SourceTask, what: str, remainder: str, members: Iterable[Registered]) -> None:
        concerned = {registered.offset: registered for registered in members}
        if not concerned:
            return
        gap = self._gaps.setdefault(source.tp, _Gap())
        new = concerned.keys() - gap.concerned.keys()
        running = {offset: old for offset, old in gap.concerned.items() if source.scans.covers(offset)}
        gap.concerned = running | concerned
        gap.text = f"{source.tp}: {what} were removed (retention); {remainder} {_names(gap.concerned)}"
        gap.until = self._monotonic() + LEAST_S
        self._stats.look_back_lost += len(new)
        if new:
            with at(*source.tp):
                log.warning("%s", gap.text)


def _remainder(left: Record | End) -> str:
    if isinstance(left, End):
        return NOTHING
    try:
        time = (EPOCH + timedelta(milliseconds=left.timestamp_ms)).isoformat(timespec="seconds")
    except OverflowError:  # a record of a listed topic may have any timestamp
        time = f"{left.timestamp_ms} ms"
    return f"the oldest record left is offset {left.offset}, of {time}."


def _names(concerned: Mapping[int, Registered]) -> str:
    names = sorted({registered.registration.subscription for registered in concerned.values()})
    shown, more = ", ".join(names[:MOST_NAMED]), len(names) - MOST_NAMED
    several = f"{len(names)} subscriptions look" if len(names) > 1 else "1 subscription looks"
    return (
        f"{several} back further, and may miss removed events: {shown}"
        f"{f' and {more} more' if more > 0 else ''}."
    )
