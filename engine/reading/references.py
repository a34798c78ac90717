"""Reads the records that datarefs in firings refer to."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection
from contextlib import closing
from typing import Final

from ...events.errors import EventError
from ...events.event import Event
from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, FetchError
from ..kafka.admin import Admin
from ..kafka.clients import ClientErrors
from ..kafka.reader import KafkaReader
from ..kafka.topics import bus_record
from ..records import BusRecord
from .sources import event_of

_DATAREF: Final = re.compile(r"kafka:([A-Za-z0-9._-]{1,249})/([0-9]{1,9})/([0-9]{1,18})")
_STALL_S: Final = 10.0
_FRESH_S: Final = 60.0  # how long a topic counts as listed


class References:
    """Reads the records that datarefs name. Not thread-safe. Close it.

    Its clients stay open between the calls: making them takes half a second. After an error of the cluster
    they are made again.
    """

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self._clients: tuple[ClientErrors, Admin, KafkaReader] | None = None
        self._bus: BusRecord | None = None
        self._bus_at = 0.0

    def event(self, dataref: str) -> Event:
        """The event in the record that `kafka:topic/partition/offset` names.

        Raises FetchError if the bus does not read the topic, or the record does not exist; UnreachableError
        if the cluster does not answer.
        """
        found = _DATAREF.fullmatch(dataref)
        if found is None:
            raise FetchError(
                f"{dataref[:200]!r} does not refer to a record: use kafka:topic/partition/offset."
            )
        tp, offset = TopicPartition(found[1], int(found[2])), int(found[3])
        try:
            cloudevents = self._check_topic(tp.topic)
            record = self._record(tp, offset)
        except FetchError:
            raise
        except EngineError:
            self.close()
            raise
        try:
            return event_of(self._config, cloudevents, record)
        except EventError as e:
            raise FetchError(f"The record at {dataref} is not a CloudEvent: {e}") from e

    def close(self) -> None:
        clients, self._clients = self._clients, None
        if clients is not None:
            _, admin, reader = clients
            with closing(admin), closing(reader):
                pass

    def _check_topic(self, topic: str) -> Collection[str]:
        """The listed topics that hold CloudEvents. Raises FetchError if the bus does not read the topic.

        Any producer may write a dataref, so it must not name other topics of the cluster.
        """
        config = self._config
        if topic == config.topic("event"):
            return ()
        if self._bus is None or topic not in self._bus.topics or time.monotonic() - self._bus_at > _FRESH_S:
            self._bus, self._bus_at = bus_record(config), time.monotonic()
        if self._bus is None or topic not in self._bus.topics:
            raise FetchError(f"{config.describe()} does not read topic {topic!r}.")
        return self._bus.cloudevents

    def _record(self, tp: TopicPartition, offset: int) -> Record:
        place = f"{tp.topic}/{tp.partition}/{offset}"
        if self._clients is None:
            errors = ClientErrors()
            admin = Admin(self._config, errors)
            self._clients = errors, admin, KafkaReader(self._config, errors, sparing=True, brief=True)
        errors, admin, reader = self._clients
        topic = admin.topics([tp.topic])[tp.topic]
        if topic is None or tp.partition >= topic.partitions:
            raise FetchError(f"{place}: the partition does not exist.")
        low, end = admin.start_offsets([tp])[tp], admin.end_offsets([tp])[tp]
        if offset < low:
            raise FetchError(f"{place}: retention has removed the record; the oldest offset is {low}.")
        if offset >= end:
            raise FetchError(f"{place}: the record does not exist yet; the next offset is {end}.")
        reader.read({tp: offset})
        try:
            deadline = time.monotonic() + _STALL_S
            while time.monotonic() < deadline:
                for item in reader.take(1, 0.5):
                    if item.source != tp:
                        continue
                    if isinstance(item, Record) and item.offset == offset:
                        return item
                    if item.offset >= offset:
                        raise FetchError(f"{place}: no record has this offset.")
            raise errors.unreachable(self._config, f"{place} could not be read within {_STALL_S:.0f} s")
        finally:
            reader.read({})  # otherwise it would go on fetching


class SharedReferences:
    """`References` for several threads: one for each thread that reads now, used again later. Close it."""

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._idle: list[References] = []
        self._is_closed = False

    def event(self, dataref: str) -> Event:
        """As `References.event`. Thread-safe."""
        with self._lock:
            references = self._idle.pop() if self._idle else References(self._config)
        try:
            return references.event(dataref)
        finally:
            with self._lock:
                is_closed = self._is_closed
                if not is_closed:
                    self._idle.append(references)
            if is_closed:
                references.close()

    def close(self) -> None:
        """Closes the clients; those that are being used, when their read ends."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for references in idle:
            references.close()


def referred_event(config: BusConfig, dataref: str) -> Event:
    """The event that one dataref names: `References.event`, with clients that are closed again."""
    with closing(References(config)) as references:
        return references.event(dataref)
