"""Which events the event topic already holds, for a caller that may have to emit them again.

Kafka removes the oldest records of a partition first, and records are in the order of their timestamps.
Whether records of the requested period were removed follows from these cases:

E1  The partition begins at offset 0: nothing was removed.
E2  A record from before the period still exists: nothing of the period was removed.
E3  No record from before the period exists, and the topic's settings remove records by time alone: removed
    records were older than `retention.ms`. Nothing of the period is gone if it begins within `retention.ms`.
    E3 is the case after a month without events. With `retention.bytes` it applies only to empty partitions: a
    size limit alone does not empty a partition.
E4  Otherwise it is unknown.

E3 does not notice records that were deleted by hand, or by a shorter retention that was raised again: the
brokers report neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from ...events.errors import EventError
from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, TopicsError
from ..kafka.admin import Admin
from .sources import event_of, read_between

EventIdentity = tuple[str, str]  # source and id

# Retention uses the broker's clock, and only writing a record would show it. The margin covers how far this
# machine's clock may be behind it, and how long the reading may take.
CLOCK_MARGIN_MS: Final = 5 * 60 * 1000


class Emitted:
    """The events in the event topic, up to its end when this object is created.

    Finds events in binary mode only, as Interlock and most producers write them, because it reads only
    headers. If the config has a proof, it reads the whole event, and does not find one that needs a proof and
    lacks it.
    now_s: this machine's clock. Raises TopicsError if the topic is missing.
    """

    def __init__(self, config: BusConfig, now_s: Callable[[], float] = time.time) -> None:
        self._config, self._now_s = config, now_s
        self._topic = topic = config.topic("event")
        with closing(Admin(config)) as admin:
            found = admin.topics((topic,))[topic]
            if found is None:
                raise TopicsError(f"Topic {topic!r} is missing. Run: {config.command('topics create')}")
            self._ends = admin.end_offsets(TopicPartition(topic, n) for n in range(found.partitions))

    def among(
        self, wanted: Collection[EventIdentity], since_ms: int, until_ms: int | None = None
    ) -> set[EventIdentity]:
        """The wanted (source, id) pairs that the topic holds with timestamps in [since_ms, until_ms).

        until_ms: None for the end of the topic. Raises EngineError if records of that period may have been
        removed (E4), with the reason.
        """
        partitions = list(self._ends)
        with closing(Admin(self._config)) as admin:
            first = admin.offsets_since(partitions, since_ms)
            last = {} if until_ms is None else admin.offsets_since(partitions, until_ms)
            starts = {tp: _least(first[tp], end) for tp, end in self._ends.items()}
            self._check_removed(admin, starts, since_ms)
        stops = {tp: _least(last.get(tp), end) for tp, end in self._ends.items()}
        wanted = frozenset(wanted)
        found: set[EventIdentity] = set()
        for record in read_between(self._config, starts, stops):
            if len(found) == len(wanted):
                break
            headers = dict(record.headers or ())
            source, id_ = headers.get("ce_source"), headers.get("ce_id")
            if source is not None and id_ is not None:
                identity = (source.decode("utf-8", "replace"), id_.decode("utf-8", "replace"))
                if identity in wanted and self._is_accepted(record):
                    found.add(identity)
        return found

    def _is_accepted(self, record: Record) -> bool:
        if self._config.proof is not None:
            try:
                event_of(self._config, (), record)
            except EventError:
                return False
        return True

    def _check_removed(self, admin: Admin, starts: Mapping[TopicPartition, int], since_ms: int) -> None:
        lows = admin.start_offsets(starts)  # after `starts`: what is removed in between counts
        unsure = [tp for tp, start in starts.items() if 0 < lows[tp] >= start]  # neither E1 nor E2
        if not unsure:
            return
        empty = all(lows[tp] >= self._ends[tp] for tp in unsure)
        reason = _why_unknown(admin.settings(self._topic), since_ms, int(self._now_s() * 1000), empty)
        if reason is not None:
            raise EngineError(
                f"{', '.join(map(str, unsure))}: no record from before {_text(since_ms)} is left, so later "
                "records may have been removed too, and their events would be emitted again. "
                f"{reason}"
            )


def _why_unknown(settings: Mapping[str, str] | None, since_ms: int, now_ms: int, empty: bool) -> str | None:
    """Why it is unknown whether records were removed (E4), and what to do; None if E3 holds."""
    if settings is None:
        return "Use a later --since, or allow DescribeConfigs on the topic: its settings are unknown."
    if lacking := [name for name in ("retention.ms", "retention.bytes") if name not in settings]:
        return f"The brokers do not name {' and '.join(lacking)} of the topic. Use a later --since."
    kept_ms, kept_bytes = int(settings["retention.ms"]), int(settings["retention.bytes"])
    if kept_ms < 0:
        return "retention.ms=-1 removes nothing: somebody has removed the records. Use a later --since."
    if kept_bytes == 0 or (kept_bytes > 0 and not empty):
        return f"retention.bytes={kept_bytes} removes records of any age. Use a later --since."
    oldest_ms = now_ms + CLOCK_MARGIN_MS - kept_ms
    if since_ms < oldest_ms:
        return f"retention.ms={kept_ms} keeps records from {_text(oldest_ms)} on. Use a later --since."
    return None


def _least(offset: int | None, end: int) -> int:
    return end if offset is None else min(offset, end)


def _text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="seconds")
