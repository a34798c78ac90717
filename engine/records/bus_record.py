"""The bus record."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .versions import VERSION

BUS_KEY = b"bus"


class BusRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a bus was created, and what it reads (JSON in the subscription topic, key `bus`).

    `v`: the version in which all records are written. `partitions`: how many the trigger topic has.
    Subscriptions are distributed over them, so with another number their states would not be found.
    `topics`: the listed topics. `cloudevents`: the listed topics that hold CloudEvents, as their owners say;
    records of the others are plain. `topic_ids`: {kind: id} of the internal topics.
    """

    v: int = VERSION
    partitions: Annotated[int, msgspec.Meta(ge=1)]
    topics: tuple[str, ...] = ()
    cloudevents: tuple[str, ...] = ()
    topic_ids: dict[str, str] = {}
