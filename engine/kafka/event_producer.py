"""A producer for asyncio: awaits until all in-sync replicas have the records of a request."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...events.event import Event
from ...events.kafka import encode
from ...events.sizes import MAX_EVENT_BYTES, record_bytes
from ..config import BusConfig
from ..errors import NoRoom, NotSent, UnreachableError
from .clients import ClientErrors, connect, error_text

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

POLL_S: Final = 0.2  # how soon the thread notices `close`; acknowledgements wake it
CLOSE_S: Final = 10.0
_SLICE: Final = 300  # after so many record headers (about a ms) a write lets other tasks run

_TOO_LARGE: Final = frozenset({10, 18})  # MSG_SIZE_TOO_LARGE, RECORD_LIST_TOO_LARGE
_FORBIDDEN: Final = frozenset({29, 31})  # TOPIC_ and CLUSTER_AUTHORIZATION_FAILED
_MISSING: Final = frozenset({3, -188})  # UNKNOWN_TOPIC_OR_PART, _UNKNOWN_TOPIC

_Record = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


class EventProducer:
    """Writes events to the event topic of a bus, for the tasks of one event loop.

    acks=all and idempotent. One thread takes the acknowledgements, and wakes the loop once for all that came
    together. `timeout_s`: how long the client tries to write a record.
    Raises ConfigError if the client refuses a property of the connection.
    """

    def __init__(self, config: BusConfig, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._config, self._loop = config, loop
        self._topic = config.topic("event")
        self._errors = ClientErrors()
        self._done: deque[_Request] = deque()
        self._closed = threading.Event()
        self._timeout_s = timeout_s
        self._earlier: list[Producer] = []  # unusable, but the failure of some records is not reported yet
        self._lone: Producer | None = None  # sends each record in a batch of its own
        self._producer = self._connect()
        self._thread = threading.Thread(target=self._poll, name="interlock-acknowledgements", daemon=True)
        self._thread.start()

    def _connect(self, **more: object) -> Producer:
        from confluent_kafka import Producer

        return connect(
            Producer,
            self._config,
            self._errors,
            acks="all",
            enable_idempotence=True,
            partitioner="murmur2_random",
            linger_ms=0,
            delivery_timeout_ms=int(self._timeout_s * 1000),
            topic_metadata_propagation_max_ms=int(self._timeout_s * 500),
            message_max_bytes=MAX_EVENT_BYTES,
            **more,
        )

    def _lone_producer(self) -> Producer:
        if self._lone is None:
            self._lone = self._connect(batch_num_messages=1)
        return self._lone

    def _replace(self, producer: Producer) -> None:
        others = (each for each in self._earlier if len(each) and each is not producer)
        self._earlier = [*others, producer]
        if producer is self._producer:
            self._producer = self._connect()
        elif producer is self._lone:
            self._lone = None

    async def write(self, events: Sequence[Event]) -> None:
        """Returns when all in-sync replicas have every event.

        Raises NotSent if an event exceeds the limit of every event topic (then nothing is written), or the
        lower limit of this one. Raises NoRoom if the client's queue is full; UnreachableError if the client
        refuses a record, or Kafka has not acknowledged in time. Except in the first case some of the
        events may be written. When it has returned or raised, the client holds no record of these events. If
        the task is cancelled, the client may hold and write them all the same.
        """
        records = await self._encoded(events)
        if not records:
            return
        error = await self._written(self._producer, records)
        if error is not None and error.code() in _TOO_LARGE:
            # The brokers compare a whole batch with the topic's limit, and a batch may hold the records of
            # several writes. Only a record that is refused alone is too large.
            error = await self._written(self._lone_producer(), records)
            if error is not None and error.code() in _TOO_LARGE:
                raise self._too_large(records)
        if error is not None:
            raise self._unreachable(error)

    async def _encoded(self, events: Sequence[Event]) -> list[_Record]:
        records: list[_Record] = []
        headers = 0
        for event in events:
            record = encode(event)
            size = record_bytes(*record)
            if size > MAX_EVENT_BYTES:
                raise NotSent(
                    f"Event {event.id!r} of {event.source!r} has {size} bytes as a record with key and"
                    f" headers; the limit is {MAX_EVENT_BYTES}. Store large data elsewhere, and send a"
                    " reference to it (`dataref`)."
                )
            records.append(record)
            headers += len(record[2])
            if headers > _SLICE:
                headers = 0
                await asyncio.sleep(0)
        return records

    async def _written(self, producer: Producer, records: Sequence[_Record]) -> KafkaError | None:
        """Returns the error of a record that is not written, when the client holds none of them."""
        request = _Request(len(records), self._loop.create_future())
        refused = await self._hand_over(producer, records, request)
        if request.reported < request.expected:
            await request.future
        if refused is not None:
            raise refused
        return request.error

    async def _hand_over(
        self, producer: Producer, records: Sequence[_Record], request: _Request
    ) -> NoRoom | UnreachableError | NotSent | None:
        """Gives the client the records until it refuses one; returns why it did."""
        from confluent_kafka import KafkaException

        report = partial(self._report, request)
        handed = 0
        for number, (key, value, headers) in enumerate(records):
            try:
                producer.produce(self._topic, value, key, headers=list(headers), on_delivery=report)
            except BufferError:
                request.expected = number
                return NoRoom(f"{self._config.describe()} takes no more records now; send again later.")
            except KafkaException as error:
                request.expected = number
                found = error.args[0]
                if found.fatal():  # this client never writes again
                    self._replace(producer)
                return self._too_large(records) if found.code() in _TOO_LARGE else self._unreachable(found)
            handed += len(headers)
            if handed > _SLICE:
                handed = 0
                await asyncio.sleep(0)
        return None

    def _too_large(self, records: Sequence[_Record]) -> NotSent:
        largest = max(record_bytes(*record) for record in records)
        return NotSent(
            f"The brokers refuse an event of this request as too large; the largest has {largest} bytes as a"
            f" record with key and headers, and max.message.bytes of the topic {self._topic} is lower. Store"
            " large data elsewhere, and send a reference to it (`dataref`), or have the topic's limit raised"
            f" to {MAX_EVENT_BYTES}. Other events of the request may have been written."
        )

    def _unreachable(self, error: KafkaError) -> UnreachableError:
        advice = f"Check the brokers and the topic {self._topic}"
        if error.code() in _FORBIDDEN:
            advice = f"Allow this connection's user to write to the topic {self._topic}, also idempotently"
        elif error.code() in _MISSING:
            advice = f"Create the topic {self._topic}: airflow interlock topics create"
        return UnreachableError(
            f"{self._config.describe()} did not acknowledge: {error_text(error)}. {advice}; send the same"
            " events again: a repeat counts once."
        )

    def close(self) -> None:
        """Ends the thread; blocks up to CLOSE_S for the acknowledgements that are due. Idempotent."""
        self._closed.set()
        self._thread.join()
        for producer in (self._producer, *self._others()):
            producer.flush(CLOSE_S)

    def _others(self) -> list[Producer]:
        return [*self._earlier, *(() if self._lone is None else (self._lone,))]

    def _report(self, request: _Request, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            request.error = error
        request.reported += 1
        if request.reported == request.expected:
            self._done.append(request)
            if len(self._done) == 1:  # else the loop is already woken
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        while self._done:
            request = self._done[0]
            if not request.future.done():  # its task may be cancelled
                request.future.set_result(None)
            self._done.popleft()

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(POLL_S)
            for producer in self._others():
                producer.poll(0)


class _Request:
    """One call of `write`.

    expected: records that the client has; only the event loop's thread sets it. reported: records that are
    acknowledged or failed; only the polling thread counts. Each thread looks at both after it has changed
    its own, so at least one of them sees that they are equal.
    """

    __slots__ = ("error", "expected", "future", "reported")

    def __init__(self, expected: int, future: asyncio.Future[Any]) -> None:
        self.expected, self.future = expected, future
        self.reported = 0
        self.error: KafkaError | None = None
