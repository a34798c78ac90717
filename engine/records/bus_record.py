"""The bus record."""

from __future__ import annotations

import msgspec

from .versions import VERSION

BUS_KEY = b"bus"


class BusRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a bus was made with, and what it reads (JSON in the subscription topic, key `bus`).

    `v`: the version that writers give all records. `partitions`: of the trigger topic. Subscriptions are
    spread by that number, so another one would look for their states where they are not. `topics`: sources
    beside the event topic. `topic_ids`: of the internal topics, by kind.
    """

    v: int = VERSION
    partitions: int
    topics: tuple[str, ...] = ()
    topic_ids: dict[str, str] = {}
