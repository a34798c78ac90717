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


def emitted_since(config: BusConfig, since_ms: int, wanted: Collection[Identity]) -> set[Identity]:
    """Those of the identities (source, id) that lie in the event topic, stamped at `since_ms` or later.

    Reads headers only, as Interlock and most producers write them (binary mode). TopicsError without the
    topic; EngineError where records of that time were removed, for then nobody can tell.
    """
    topic = config.topic("event")
    with closing(Admin(config, ClientErrors())) as admin:
        found = admin.topics((topic,))[topic]
        if found is None:
            raise TopicsError(
                (f"Topic {topic!r} is missing.", f"Run: {config.command('topics create')}"),
            )
        partitions = [TopicPartition(topic, number) for number in range(found.partitions)]
        lows, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
        first = admin.offsets_since(partitions, since_ms)
    starts = {tp: end if (at := first[tp]) is None else at for tp, end in ends.items()}
    removed = [tp for tp, start in starts.items() if 0 < lows[tp] == start < ends[tp]]
    if removed:
        text = datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="seconds")
        raise EngineError(
            f"{', '.join(map(str, removed))}: no record from before {text} is left, so some from after it may"
            " have been removed too, and what they told would be emitted again. Begin later."
        )
    wanted = frozenset(wanted)
    there: set[Identity] = set()
    for record in read_between(config, starts, ends):
        about = dict(record.headers or ())
        source, id_ = about.get("ce_source"), about.get("ce_id")
        if source is not None and id_ is not None:
            identity = (source.decode("utf-8", "replace"), id_.decode("utf-8", "replace"))
            if identity in wanted:
                there.add(identity)
    return there
