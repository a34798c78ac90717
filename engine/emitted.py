"""Which events a bus's event topic holds already, for whoever may have to emit them again."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from datetime import UTC, datetime

from .bus import TopicPartition
from .config import BusConfig
from .errors import EngineError, TopicsError
from .kafka.admin import Admin
from .kafka.clients import ClientErrors
from .sources import read_between

Identity = tuple[str, str]


class Emitted:
    """The events of the event topic, up to where it ends when this is made. TopicsError without the topic.

    Reads headers only, as Interlock and most producers write them (binary mode), and holds nothing of them.
    """

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        topic = config.topic("event")
        with closing(Admin(config, ClientErrors())) as admin:
            found = admin.topics((topic,))[topic]
            if found is None:
                raise TopicsError(
                    (f"Topic {topic!r} is missing.", f"Run: {config.command('topics create')}"),
                )
            self._ends = admin.end_offsets(TopicPartition(topic, n) for n in range(found.partitions))

    def among(
        self, wanted: Collection[Identity], since_ms: int, until_ms: int | None = None
    ) -> set[Identity]:
        """Those of the identities (source, id) that lie there, stamped from `since_ms` to before `until_ms`.

        until_ms: None for the end of the topic. EngineError where records of that time were removed, for then
        nobody can tell.
        """
        partitions = list(self._ends)
        with closing(Admin(self._config, ClientErrors())) as admin:
            lows = admin.start_offsets(partitions)
            first = admin.offsets_since(partitions, since_ms)
            last = {} if until_ms is None else admin.offsets_since(partitions, until_ms)
        starts = {tp: _least(first[tp], end) for tp, end in self._ends.items()}
        stops = {tp: _least(last.get(tp), end) for tp, end in self._ends.items()}
        removed = [tp for tp, start in starts.items() if 0 < lows[tp] == start < self._ends[tp]]
        if removed:
            text = datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="seconds")
            raise EngineError(
                f"{', '.join(map(str, removed))}: no record from before {text} is left, so some from after "
                "it may have been removed too, and what they told would be emitted again. Begin later."
            )
        wanted = frozenset(wanted)
        there: set[Identity] = set()
        for record in read_between(self._config, starts, stops):
            if len(there) == len(wanted):
                break
            about = dict(record.headers or ())
            source, id_ = about.get("ce_source"), about.get("ce_id")
            if source is not None and id_ is not None:
                identity = (source.decode("utf-8", "replace"), id_.decode("utf-8", "replace"))
                if identity in wanted:
                    there.add(identity)
        return there


def _least(offset: int | None, end: int) -> int:
    return end if offset is None else min(offset, end)
