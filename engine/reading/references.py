"""Reads the record that a `dataref` in a firing refers to."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from contextlib import closing
from typing import Final

from ...events.errors import EventError
from ...events.event import Event
from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..errors import FetchError
from ..kafka.admin import Admin
from ..kafka.clients import ClientErrors
from ..kafka.reader import KafkaReader
from ..kafka.topics import bus_record
from .sources import event_of

_DATAREF: Final = re.compile(r"kafka:([A-Za-z0-9._-]{1,249})/([0-9]{1,9})/([0-9]{1,18})")
_STALL_S: Final = 10.0


def referred_event(config: BusConfig, dataref: str) -> Event:
    """The event in the record that `kafka:topic/partition/offset` names.

    Raises FetchError if the bus does not read the topic, or the record does not exist; UnreachableError if
    the cluster does not answer.
    """
    found = _DATAREF.fullmatch(dataref)
    if found is None:
        raise FetchError(f"{dataref[:200]!r} does not refer to a record: use kafka:topic/partition/offset.")
    tp, offset = TopicPartition(found[1], int(found[2])), int(found[3])
    bus = bus_record(config) if tp.topic != config.topic("event") else None
    record = _record(config, tp, offset, () if bus is None else bus.topics)
    try:
        return event_of(config, () if bus is None else bus.cloudevents, record)
    except EventError as e:
        raise FetchError(f"The record at {dataref} is not a CloudEvent: {e}") from e


def _record(config: BusConfig, tp: TopicPartition, offset: int, listed: Collection[str]) -> Record:
    errors = ClientErrors()
    place = f"{tp.topic}/{tp.partition}/{offset}"
    with closing(Admin(config, errors)) as admin:
        if tp.topic != config.topic("event") and tp.topic not in listed:  # any producer may write a dataref
            raise FetchError(f"{place}: {config.describe()} does not read topic {tp.topic!r}.")
        topic = admin.topics([tp.topic])[tp.topic]
        if topic is None or tp.partition >= topic.partitions:
            raise FetchError(f"{place}: the partition does not exist.")
        low, end = admin.start_offsets([tp])[tp], admin.end_offsets([tp])[tp]
    if offset < low:
        raise FetchError(f"{place}: retention has removed the record; the oldest offset is {low}.")
    if offset < end:
        with closing(KafkaReader(config, errors)) as reader:
            reader.read({tp: offset})
            deadline = time.monotonic() + _STALL_S
            while time.monotonic() < deadline:
                for item in reader.take(1, 0.5):
                    if isinstance(item, Record) and item.offset == offset:
                        return item
                    if item.offset >= offset:
                        raise FetchError(f"{place}: no record has this offset.")
        raise errors.unreachable(config, f"{place} could not be read within {_STALL_S:.0f} s")
    raise FetchError(f"{place}: the record does not exist yet; the next offset is {end}.")
