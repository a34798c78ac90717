"""The dead letters of a bus: finding them, and deciding whether and where each may be sent again.

`redrive` sends them. The topic also holds redrive records: without a value, and with a header that names a
dead letter that was sent again. They are written in the transaction that sends it, so that none is sent twice
by mistake.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from ...events.errors import EventError
from ...events.kafka import decode
from ..bus import Headers, Record, TopicPartition
from ..config import BusConfig
from ..delivery.firings import open_firing, subscription_in
from ..errors import EngineError, RecordError
from ..kafka.admin import Admin
from ..kafka.reader import KafkaReader, drain
from ..kafka.topics import read_registry
from ..protocol.outputs import ATTEMPTS, MISSING, attempts_in
from ..reading.sources import read_between
from .sinks import destination

REDRIVEN: Final = "interlock_redriven"  # header of a redrive record
DELIVERY: Final = "delivery"  # the stage of a firing that could not be delivered to its sink
STAGES: Final = ("event", "trigger", DELIVERY)
# How much of the topic is read to count them: monitoring asks for the health of a bus again and again.
MOST_COUNTED: Final = 10_000
MAX_COUNTED_BYTES: Final = 32 * 1024 * 1024
_PLACE = re.compile(
    r"(?:(?P<topic>[A-Za-z0-9._-]+)\[(?P<number>\d{1,9})\]|(?P<short>\d{1,9}))@(?P<offset>\d{1,18})"
)


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter without its content.

    time_ms: when it was written to the dead-letter topic. origin: partition and offset of the original
    record, None if unknown. attempts: how often it became a dead letter. event_type, event_id: "" if it is no
    CloudEvent. cut: the dead letter has only the record's beginning. missing: the parts of the record that it
    does not have, because the Kafka client could not unpack them. by_reference: its data were too large for a
    match and are only at its origin. redriven_ms: when it was last sent again. subscription: of a firing that
    could not be delivered to its sink; then event_id is the firing's. "" for other records.
    """

    partition: TopicPartition
    offset: int
    time_ms: int
    stage: str
    reason: str
    origin: tuple[TopicPartition, int] | None
    attempts: int
    event_type: str = ""
    event_id: str = ""
    cut: bool = False
    missing: str = ""
    by_reference: bool = False
    redriven_ms: int | None = None
    subscription: str = ""

    @classmethod
    def of(cls, record: Record) -> DeadLetter:
        about = {name: (raw or b"").decode("utf-8", "replace") for name, raw in record.headers or ()}
        event_type = event_id = ""
        by_reference = False
        try:
            event = decode(record.key, record.value, own_headers(record.headers))
            event_type, event_id = event.attributes["type"], event.attributes["id"]
            by_reference = event.attributes.get("dataref", "").startswith("kafka:") and event.data is None
        except EventError:
            # These two headers may be readable although the record holds no event.
            event_type, event_id = about.get("ce_type", ""), about.get("ce_id", "")
        stage, subscription = about.get("interlock_stage", ""), ""
        if stage == DELIVERY:
            subscription, event_id = _firing_in(record)
        found = _PLACE.fullmatch(about.get("interlock_origin", ""))
        return cls(
            partition=record.source,
            offset=record.offset,
            time_ms=record.timestamp_ms,
            stage=stage,
            reason=about.get("interlock_reason", "") or record.fault,
            origin=(TopicPartition(found["topic"], int(found["number"])), int(found["offset"]))
            if found and found["topic"]
            else None,
            attempts=attempts_in(dict(record.headers or ()).get(ATTEMPTS)),
            event_type=event_type,
            event_id=event_id,
            cut="interlock_size" in about,
            missing=about.get(MISSING, ""),
            by_reference=by_reference,
            subscription=subscription,
        )

    @property
    def place(self) -> str:
        return f"{self.partition}@{self.offset}"

    @property
    def origin_place(self) -> str:
        return "" if self.origin is None else f"{self.origin[0]}@{self.origin[1]}"

    def refusal(
        self, config: BusConfig, readers: Readers, *, to_event_topic: bool = False, again: bool = False
    ) -> str:
        """Why it may not be sent again; "" if it may."""
        if self.cut:
            return (
                "it was too large, so the dead letter has only its beginning: read the original at "
                f"{self.origin_place or 'its origin'}, if it still exists"
            )
        if self.missing:  # without its headers it would be another event
            return (
                f"the Kafka client could not unpack it, so the dead letter has no {self.missing}: let its "
                f"producer send a correct record; the original is at {self.origin_place or 'its origin'}"
            )
        if self.redriven_ms is not None and not again:
            return "it was already sent again (--again sends it once more)"
        if self.origin is None or self.stage not in STAGES:
            return "its headers do not say where it came from"
        topic = self.origin[0].topic
        if self.stage == DELIVERY:
            return self._refusal_of_delivery(config, topic, readers) or readers.refusal(self.origin[0])
        if self.stage == "event":
            if topic not in readers.topics:
                return f"the bus no longer reads topic {topic!r}"
            return readers.refusal(self.origin[0])
        if topic == config.topic("trigger"):
            return (
                "it is a match that no engine could read, or on which engine processes ended, and it would "
                "come after later matches of its subscription: emit its event again instead"
            )
        if self.by_reference:
            return f"its data were too large for a match: read the event at {self.origin_place}"
        if not to_event_topic:
            return (
                "only one subscription could not process it, but its event would reach all subscriptions; "
                "they recognise a repeated event for a limited time only (--to-event-topic sends it anyway)"
            )
        return ""

    def _refusal_of_delivery(self, config: BusConfig, topic: str, readers: Readers) -> str:
        if topic != config.topic("action") or not self.subscription:
            return "it holds no firing of a sink of this bus"
        if self.subscription not in readers.sinks:
            return (
                f"the sink of {self.subscription!r} was removed, so no deliverer would take it: let a run of "
                "its deliver_dag register the sink again"
            )
        return ""

    def target(self, config: BusConfig) -> tuple[str, int]:
        """(Topic, partition) to send it to. Partition -1: chosen by the record's key.

        A firing goes to the action topic again, where only the deliverers of its own sink take it.
        """
        if self.stage in ("event", DELIVERY) and self.origin is not None:
            return self.origin[0]
        return config.topic("event"), -1


def _firing_in(record: Record) -> tuple[str, str]:
    """(Subscription, id) of a firing that was not delivered; two empty texts if the record holds none."""
    name = subscription_in(record)
    try:
        if not name or open_firing(record, name) is None:
            return "", ""
    except RecordError:
        return "", ""
    return name, (record.key or b"").partition(b"\0")[2].decode("utf-8", "replace")


class Readers(NamedTuple):
    """Who reads a dead letter that is sent again.

    topics: those that engines read. sinks: the subscriptions whose firings deliverers read. partitions: how
    many a topic has, as far as known; 0 if it does not exist.
    """

    topics: Collection[str]
    sinks: Collection[str] = ()
    partitions: Mapping[str, int] = MappingProxyType({})

    def refusal(self, place: TopicPartition) -> str:
        """Why nothing can be written there; "" if it can."""
        count = self.partitions.get(place.topic)
        if count is None or place.partition < count:
            return ""
        if not count:
            return f"topic {place.topic!r} does not exist any more"
        return (
            f"topic {place.topic!r} has no partition {place.partition}, only 0 to {count - 1}: it was "
            "created again, or Interlock did not write this dead letter. Let its producer send it again"
        )


def own_headers(headers: Headers | None) -> list[tuple[str, bytes | None]]:
    """The headers of the original record."""
    return [(name, raw) for name, raw in headers or () if not name.startswith("interlock_")]


@dataclass(frozen=True)
class Selection:
    """Selects dead letters written at or after `since_ms`, with this stage, and this text in the reason."""

    since_ms: int | None = None
    stage: str | None = None
    reason: str | None = None

    def __call__(self, dead_letter: DeadLetter) -> bool:
        return (self.stage is None or dead_letter.stage == self.stage) and (
            self.reason is None or self.reason.casefold() in dead_letter.reason.casefold()
        )


@dataclass(frozen=True)
class DeadLetterCount:
    """How many dead letters `DeadLetters.find` would return: never sent again, and sent again.

    complete: False if only the latest were read, so that there may be more.
    """

    open: int
    redriven: int
    complete: bool


def counted(
    config: BusConfig, lows: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> DeadLetterCount:
    """How many there are from `lows` to `ends`, among about the latest MOST_COUNTED records.

    Reads at most MAX_COUNTED_BYTES. Raises UnreachableError, or NotReadable without the right to read.
    """
    if lows == ends:
        return DeadLetterCount(0, 0, True)  # no client is needed
    share = max(1, MOST_COUNTED // max(1, len(ends)))
    starts = {tp: max(lows[tp], end - share) for tp, end in ends.items()}
    complete, size = starts == lows, 0
    dead_letters: set[str] = set()
    sent: set[str] = set()
    for record in read_between(config, starts, ends, sparing=True):
        size += len(record.value or b"")
        if size > MAX_COUNTED_BYTES:
            complete = False
            break
        place = dict(record.headers or ()).get(REDRIVEN)
        if place is None:
            dead_letters.add(f"{record.source}@{record.offset}")
        else:
            sent.add(place.decode("utf-8", "replace"))
    redriven = len(dead_letters & sent)
    return DeadLetterCount(len(dead_letters) - redriven, redriven, complete)


class DeadLetters:
    """Reads the dead letters of a bus. Raises UnreachableError if no broker answers."""

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self._topic = config.topic("dead-letter")
        self._admin = Admin(config)
        self._reader = KafkaReader(config)

    def close(self) -> None:
        self._reader.close()
        self._admin.close()

    def find(self, wanted: Selection, limit: int | None = None, most: int | None = None) -> list[DeadLetter]:
        """The dead letters that match, newest first, at most `limit`.

        most: search about so many of the latest records only.
        """
        partitions = self._partitions()
        if wanted.since_ms is None:
            starts = self._admin.start_offsets(partitions)
        else:
            since = self._admin.offsets_since(partitions, wanted.since_ms)
            starts = {tp: offset for tp, offset in since.items() if offset is not None}
        if most is not None:
            share, ends = max(1, most // max(1, len(partitions))), self._admin.end_offsets(starts)
            starts = {tp: max(start, ends[tp] - share) for tp, start in starts.items()}
        return self._select(starts, wanted, limit)

    def at(self, places: Iterable[str]) -> list[DeadLetter]:
        """The dead letters at these positions, each `topic[partition]@offset` or `partition@offset`.

        Raises EngineError if one does not exist.
        """
        asked = [self._parsed(place) for place in places]
        starts: dict[TopicPartition, int] = {}
        for tp, offset in asked:
            starts[tp] = min(offset, starts.get(tp, offset))
        chosen = set(asked)
        found = self._select(
            starts, lambda dead_letter: (dead_letter.partition, dead_letter.offset) in chosen, None
        )
        missing = chosen - {(dead_letter.partition, dead_letter.offset) for dead_letter in found}
        if missing:
            listing = ", ".join(f"{tp}@{offset}" for tp, offset in sorted(missing))
            raise EngineError(f"No dead letter at {listing}: retention removed it, or it never existed.")
        return found

    def records(self, dead_letters: Collection[DeadLetter]) -> Iterator[tuple[DeadLetter, Record]]:
        """Yields the dead letters with their records, in order per partition."""
        wanted = {(dead_letter.partition, dead_letter.offset): dead_letter for dead_letter in dead_letters}
        starts: dict[TopicPartition, int] = {}
        for tp, offset in wanted:
            starts[tp] = min(offset, starts.get(tp, offset))
        for record in self._read(starts):
            dead_letter = wanted.pop((record.source, record.offset), None)
            if dead_letter is not None:
                yield dead_letter, record
            if not wanted:
                return

    def sinks_of(self, dead_letters: Iterable[DeadLetter]) -> dict[str, str]:
        """{subscription: where it delivers now, as a text} of the firings among these dead letters.

        "removed" if there is no such sink any more.
        """
        names = {dead_letter.subscription for dead_letter in dead_letters if dead_letter.subscription}
        if not names:
            return {}
        registry = read_registry(self._config)
        return {name: destination(registry, name) or "removed" for name in names}

    def readers(self) -> Readers:
        """Who reads dead letters of this bus that are sent again, as the registry says now."""
        registry = read_registry(self._config)
        listed = registry.bus.topics if registry.bus is not None else ()
        event, action = self._config.topic("event"), self._config.topic("action")
        found = self._admin.topics([event, action, *listed], others=listed)
        partitions = {
            name: 0 if topic is None else topic.partitions
            for name, topic in found.items()
            if topic is None or not topic.refused
        }
        return Readers(frozenset((event, *listed)), frozenset(registry.sinks), partitions)

    def _select(
        self,
        starts: Mapping[TopicPartition, int],
        wanted: Callable[[DeadLetter], bool],
        limit: int | None,
    ) -> list[DeadLetter]:
        sent_ms: dict[str, int] = {}

        def dead_letters() -> Iterator[DeadLetter]:
            for record in self._read(starts):
                place = dict(record.headers or ()).get(REDRIVEN)
                if place is not None:
                    sent_ms[place.decode("utf-8", "replace")] = record.timestamp_ms
                elif wanted(dead_letter := DeadLetter.of(record)):
                    yield dead_letter

        def age(dead_letter: DeadLetter) -> tuple[int, TopicPartition, int]:
            return dead_letter.time_ms, dead_letter.partition, dead_letter.offset

        if limit is None:
            found = sorted(dead_letters(), key=age, reverse=True)
        else:
            found = heapq.nlargest(limit, dead_letters(), key=age)
        return [replace(dead_letter, redriven_ms=sent_ms.get(dead_letter.place)) for dead_letter in found]

    def _read(self, starts: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Yields the records from these offsets to the current ends."""
        lows, ends = self._admin.start_offsets(starts), self._admin.end_offsets(starts)
        positions = {tp: max(at, lows[tp]) for tp, at in starts.items() if max(at, lows[tp]) < ends[tp]}
        yield from drain(self._reader, positions, ends)

    def _partitions(self) -> list[TopicPartition]:
        topic = self._admin.topics([self._topic])[self._topic]
        if topic is None:
            raise EngineError(
                f"Topic {self._topic!r} does not exist. Run: {self._config.command('topics create')}"
            )
        return [TopicPartition(self._topic, number) for number in range(topic.partitions)]

    def _parsed(self, place: str) -> tuple[TopicPartition, int]:
        found = _PLACE.fullmatch(place)
        number = int(found["number"] or found["short"]) if found else -1
        if found is None or found["topic"] not in (None, self._topic):
            raise EngineError(
                f"{place!r} is not the position of a dead letter: write '{self._topic}[0]@17', or just 0@17."
            )
        if number >= len(self._partitions()):
            raise EngineError(f"Topic {self._topic!r} has no partition {number}.")
        return TopicPartition(self._topic, number), int(found["offset"])
