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
        self._producer = self._connect()
        self._thread = threading.Thread(target=self._poll, name="interlock-acknowledgements", daemon=True)
        self._thread.start()

    def _connect(self) -> Producer:
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
        )

    async def write(self, events: Sequence[Event]) -> None:
        """Returns when all in-sync replicas have every event.

        Raises NotSent, before anything is written, if an event is too large; NoRoom if the client's queue is
        full; UnreachableError if the client refuses a record, or Kafka has not acknowledged in time. In the
        last two cases some of the events may be written. When it has returned or raised, the client holds no
        record of these events. If the task is cancelled, the client may hold and write them all the same.
        """
        records = [encode(event) for event in events]
        for event, record in zip(events, records, strict=True):
            size = record_bytes(*record)
            if size > MAX_EVENT_BYTES:
                raise NotSent(
                    f"Event {event.id!r} of {event.source!r} has {size} bytes as a record with key and"
                    f" headers; the limit is {MAX_EVENT_BYTES}. Store large data elsewhere, and send a"
                    " reference to it (`dataref`)."
                )
        if not records:
            return
        request = _Request(len(records), self._loop.create_future())
        refused = self._hand_over(records, request)
        if request.reported < request.expected:
            await request.future
        if refused is not None:
            raise refused
        if request.error is not None:
            raise self._unreachable(request.error)

    def _hand_over(
        self, records: Sequence[tuple[bytes | None, bytes | None, Any]], request: _Request
    ) -> NoRoom | UnreachableError | None:
        """Gives the client the records until it refuses one; returns why it did."""
        from confluent_kafka import KafkaException

        report = partial(self._report, request)
        for number, (key, value, headers) in enumerate(records):
            try:
                self._producer.produce(self._topic, value, key, headers=list(headers), on_delivery=report)
            except BufferError:
                request.expected = number
                return NoRoom(f"{self._config.describe()} takes no more records now; send again later.")
            except KafkaException as error:
                request.expected = number
                found = error.args[0]
                if found.fatal():  # this client never writes again
                    self._earlier = [*(each for each in self._earlier if len(each)), self._producer]
                    self._producer = self._connect()
                return self._unreachable(error_text(found))
        return None

    def _unreachable(self, reason: str) -> UnreachableError:
        return UnreachableError(
            f"{self._config.describe()} did not acknowledge: {reason}. Check the brokers and the topic"
            f" {self._topic}; send the same events again: a repeat counts once."
        )

    def close(self) -> None:
        """Ends the thread; blocks up to CLOSE_S for the acknowledgements that are due. Idempotent."""
        self._closed.set()
        self._thread.join()
        for producer in (self._producer, *self._earlier):
            producer.flush(CLOSE_S)

    def _report(self, request: _Request, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            request.error = error_text(error)
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
            for producer in self._earlier:
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
        self.error: str | None = None
