"""The deliveries of firings whose events are read again: rows without bodies, with one firing in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from .....conditions import Firing, Match, MatcherIndex
from .....conditions.evaluate.firing import Part
from .....engine.bus import Record, TopicPartition
from .....engine.protocol.tasks.computed import action_of_computed, part_in_state
from .....engine.records import partition_of
from .....engine.records.event_form import check_attributes
from .....engine.records.sizes import MAX_INLINE_BYTES, MAX_VALUE_BYTES
from .....engine.sending.content import FIRING, MOST_RESOLVED_BYTES
from .....engine.sending.expected import METHOD, ExpectedRequest, expected_path, expected_request
from .....events.errors import EventError
from .....events.event import Event
from ..tables import rows_in
from .sink import SinkQuestion

# A firing with one of its events, or without any. firing: its number. place: of the event among those of the
# firing; null without events. attributes: null if the event was not found again.
_FIRED: Final = ("firing", "place", "key", "outcome", "fired_ms", "timer_ms", "missing")
_EVENT: Final = ("label", "topic", "partition", "offset", "appended_ms", "attributes", "data")
COLUMNS: Final = (*_FIRED, *_EVENT)

DELIVERIES: Final = (
    "fired_ms long, key string, outcome string, method string, path string, id string, source string,"
    " type string, subject string, firing_id string, lane string, body_bytes long, header_bytes long,"
    " events int, references int, hops int, refused string"
)
_KINDS: Final = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
_ARROW: Final = pa.schema(
    [(name, _KINDS[kind]) for name, kind in (each.split() for each in DELIVERIES.split(", "))]
)
_BATCH: Final = 1000
_MOST_MS: Final = (
    253_402_300_799_999  # the end of the year 9999, the last time that a firing's record can have
)
# An engine's state holds all events of a firing but the one that decides it.
_MOST_HELD_BYTES: Final = MAX_VALUE_BYTES + MAX_INLINE_BYTES
_SIGNS: Final = len(": \r\n")  # of a header, beside its name and value

TOO_MUCH_DATA: Final = (
    f"its events have more than {MAX_VALUE_BYTES} bytes: the engine would refuse one of them"
)
GONE: Final = "an event is not in its topic or in the archive any more"


def requests_in(asked: SinkQuestion, batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches of DELIVERIES for those of one task with COLUMNS, sorted by firing and place."""
    requests = Requests(asked)
    for row in rows_in(batches, COLUMNS):
        requests.take(row)
        if len(requests.rows) >= _BATCH:
            yield requests.pop_batch()
    requests.end()
    yield requests.pop_batch()


class Requests:
    """Makes rows of DELIVERIES from the rows of one task."""

    def __init__(self, asked: SinkQuestion) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._asked, self._sink = asked, asked.record
        self._registration = asked.registration
        self._condition = asked.question.condition
        self._path = expected_path(self._sink)
        self._index: MatcherIndex[str] = MatcherIndex()  # the engine's own
        self._index.add("", self._condition, None)
        self._fired: tuple[Any, ...] | None = None
        self._clear()

    def _clear(self) -> None:
        self._parts: list[Part] = []
        self._large: dict[str, Event] = {}  # by reference, as far as data are sent
        self._held_bytes = self._large_bytes = 0
        self._refused: str | None = None

    def take(self, row: tuple[Any, ...]) -> None:
        """Handles the next row. The first one of a firing ends the firing before it."""
        place, fired = row[1], row[2 : len(_FIRED)]
        if not place:  # the first event, or none
            self.end()
            self._fired = fired
        if place is None or self._refused is not None:
            return
        label, topic, partition, offset, stamp, attributes, data = row[len(_FIRED) :]
        if attributes is None:
            self._refused = GONE
            return
        event = Event(dict(attributes), data)
        try:
            check_attributes(event)
        except EventError as error:
            self._refused = f"an event becomes a dead letter: {error}"
            return
        key = fired[0]
        match = Match(event, self._numbers(event, key), topic, partition, offset, stamp)
        part = part_in_state(Part(label, match), self._condition, key)
        self._parts.append(part)
        size = len(data or b"")
        if part.match.event is event:
            self._held_bytes += size
            if self._held_bytes > _MOST_HELD_BYTES:
                self._refused = TOO_MUCH_DATA
                self._parts.clear()
        else:
            if self._large_bytes <= MOST_RESOLVED_BYTES:  # `Content` asks for no more data after that
                self._large[_dataref(part)] = event
            self._large_bytes += size

    def end(self) -> None:
        """Ends the firing, if there is one."""
        if self._fired is None:
            return
        key, outcome, fired_ms, _, _ = self._fired
        sent: tuple[object, ...] = (None,) * 11
        if self._refused is None:
            try:
                sent = self._sent(self._request(*self._fired))
            except Exception as error:  # noqa: BLE001  # as in a deliverer, no firing stops the others
                self._refused = f"the request cannot be made: {type(error).__name__}"
        self.rows.append((fired_ms, key, outcome, METHOD, self._path, *sent, self._refused))
        self._fired = None
        self._clear()

    def pop_batch(self) -> Any:
        """Removes and returns the rows, as one Arrow batch."""
        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in _ARROW)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
        self.rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)

    def _request(
        self,
        key: str | None,
        outcome: Any,
        fired_ms: int,
        timer_ms: int | None,
        missing: Iterable[str] | None,
    ) -> ExpectedRequest:
        firing = Firing(outcome, tuple(self._parts), tuple(missing or ()), timer_ms)
        at_ms = max(0, min(fired_ms, _MOST_MS))
        written = action_of_computed(self._registration, self._condition, key, firing, at_ms)
        # Its offset is not known; nor are the partitions, unless they were given.
        place = TopicPartition("action", self._partition(key))
        action = Record(place, 0, at_ms, *written, None)
        return expected_request(self._sink, action, self._event_behind)

    def _sent(self, request: ExpectedRequest) -> tuple[object, ...]:
        event = request.event
        return (
            event.id,
            event.source,
            event.type,
            event.subject,
            event.attributes[FIRING],
            self._lane(request),
            len(request.body),
            sum(len(name) + len(text) + _SIGNS for name, text in request.headers),
            len(self._parts),
            request.references,
            request.hops,
        )

    def _lane(self, request: ExpectedRequest) -> str | None:
        order = self._sink.order
        if order == "partition" and self._asked.partitions is None:
            return None
        return request.firing.lane(order)

    def _partition(self, key: str | None) -> int:
        partitions = self._asked.partitions
        if partitions is None:
            return 0
        return partition_of("durable", self._sink.subscription, key or "", partitions)

    def _numbers(self, event: Event, key: str | None) -> tuple[int, ...]:
        """The matchers that accept the event for this key."""
        for hit in self._index.lookup(event):
            if hit.key == (key or ""):
                return hit.matchers
        return ()

    def _event_behind(self, dataref: str) -> Event:
        found = self._large.get(dataref)
        if found is not None:
            return found
        for part in self._parts:  # data that an engine's state holds, and the firing has no room for
            if part.match.event.data is not None and _dataref(part) == dataref:
                return part.match.event
        return Event({}, _BEYOND)


_BEYOND: Final = bytes(MOST_RESOLVED_BYTES + 1)  # for data that do not fit after those before


def _dataref(part: Part) -> str:
    match = part.match
    return f"kafka:{match.topic}/{match.partition}/{match.offset}"
