"""A producer for asyncio: awaits until all in-sync replicas have the records of a request."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal

from ...events.event import Event
from ...events.kafka import encode
from ...events.sizes import MAX_EVENT_BYTES, is_small, record_bytes
from ...events.tracing import process_tracing
from ..config import BusConfig
from ..errors import ConfigError, NoRoom, NotSent, UnreachableError
from .clients import FORBIDDEN, ClientErrors, connect, error_text

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

POLL_S: Final = 0.2  # how soon a client's thread notices that it should end; acknowledgements wake it
CLOSE_S: Final = 10.0
FEW: Final = 1
LINGER_MS: Final = 2
_SLICE: Final = 300  # after so many record headers (about a ms) a write lets other tasks run

_TOO_LARGE: Final = frozenset({10, 18})  # MSG_SIZE_TOO_LARGE, RECORD_LIST_TOO_LARGE
_MISSING: Final = frozenset({3, -188})  # UNKNOWN_TOPIC_OR_PART, _UNKNOWN_TOPIC
_FATAL: Final = -150
_TIMED_OUT: Final = -192  # _MSG_TIMED_OUT
_PURGED: Final = frozenset({-151, -152})  # _PURGE_INFLIGHT, _PURGE_QUEUE: the client failed

# Defaults of `produce`.
_ANY_PARTITION: Final = -1
_NOW: Final = 0

# Any is bytes; `produce` takes a list of more types, and lists are invariant.
_Record = tuple[bytes | None, bytes | None, list[tuple[str, Any]]]
_Way = Literal["at once", "together", "alone"]
# How the records of a write are sent. alone: each in a batch of its own.
_WAYS: Final[dict[_Way, dict[str, object]]] = {
    "at once": {"linger_ms": 0},
    "together": {"linger_ms": LINGER_MS},
    "alone": {"linger_ms": 0, "batch_num_messages": 1},
}


class _Client:
    """A Kafka client, and a thread that takes its acknowledgements.

    failure: the error after which no more records are given to this client.
    """

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.failure: KafkaError | None = None
        self._ended = threading.Event()
        self.thread = threading.Thread(target=self._poll, name="interlock-acknowledgements", daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Ends the thread when no record is left; does not wait for that."""
        self._ended.set()

    def _poll(self) -> None:
        from confluent_kafka import KafkaException

        while not self._ended.is_set() or len(self.producer):
            try:
                self.producer.poll(POLL_S)
            except KafkaException as error:  # a fatal error is raised here; reports of the records follow
                self.failure = error.args[0]


class EventProducer:
    """Writes events to the event topic of a bus, for the tasks of one event loop.

    acks=all and idempotent. A write is sent at once while at most FEW others are under way. Otherwise its
    records wait up to LINGER_MS for those of more writes: a request to Kafka with many records takes a
    fraction of the processor time. Each way of sending has a client of its own, which has its own linger.ms.
    `timeout_s`: how long a client tries to write a record. Raises ConfigError if the client refuses a
    property of the connection, UnreachableError if it gets no token. Make it in a thread: a client that needs
    a token blocks for a second or more.
    """

    def __init__(self, config: BusConfig, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        from confluent_kafka import KafkaException

        self._refusal = KafkaException  # not imported anew for each write
        self._config, self._loop = config, loop
        self._topic = config.topic("event")
        self._errors = ClientErrors()
        self._timeout_s = timeout_s
        self._tracing = process_tracing()
        self._writing = 0  # writes whose records a client has, or is to have
        self._done: deque[_Request] = deque()
        self._is_woken = False  # whether the event loop is to call `_answer`
        self._lock = threading.Lock()  # hold it to change one of the next three, or to look at several
        self._clients: dict[_Way, _Client] = {}
        self._ending: list[threading.Thread] = []  # of clients that are replaced
        self._is_closed = False
        self._making: dict[_Way, asyncio.Future[None]] = {}  # the latest call of `_make`, for all writes
        self._make("at once")

    def _usable(self, way: _Way) -> _Client | None:
        client = self._clients.get(way)
        return None if client is None or client.failure is not None else client

    async def _made(self, way: _Way) -> _Client:
        """A client where none is usable. Raises UnreachableError if it cannot be made now."""
        making = self._making.get(way)
        if making is None or making.done():
            making = self._making[way] = self._loop.run_in_executor(None, self._make, way)
        try:
            await asyncio.shield(making)
        except ConfigError as error:  # the connection was good: a certificate's file is missing, say
            raise UnreachableError(str(error)) from error
        return self._clients[way]

    def _make(self, way: _Way) -> None:
        """Makes the client of a way, or the one that replaces it. Blocks if it needs a token."""
        from confluent_kafka import Producer

        producer = connect(
            Producer,
            self._config,
            self._errors,
            acks="all",
            enable_idempotence=True,
            partitioner="murmur2_random",
            delivery_timeout_ms=int(self._timeout_s * 1000),
            topic_metadata_propagation_max_ms=int(self._timeout_s * 500),
            message_max_bytes=MAX_EVENT_BYTES,
            **_WAYS[way],
        )
        with self._lock:
            replaced = self._clients.get(way)
            if replaced is not None:
                replaced.end()
                # Its own thread frees it: that may take a while.
                self._ending = [*(each for each in self._ending if each.is_alive()), replaced.thread]
            client = self._clients[way] = _Client(producer)
            if self._is_closed:  # while this was made, for a write that was cancelled
                client.end()

    async def write(self, events: Sequence[Event]) -> None:
        """Returns when all in-sync replicas have every event.

        Raises NotSent if an event exceeds MAX_EVENT_BYTES (then nothing is written), or a lower limit of the
        topic. Raises NoRoom if the client's queue is full; UnreachableError if the client refuses a record, a
        further client cannot be made, or Kafka has not acknowledged in time. Except in the first case some of
        the events may be written. When it has returned or raised, the client holds no record of these events.
        If the task is cancelled, the client may hold and write them all the same.
        """
        if self._tracing is None:
            await self._write(events)
        else:
            with self._tracing.emits(events, self._topic, MAX_EVENT_BYTES) as traced:
                await self._write(traced)

    async def _write(self, events: Sequence[Event]) -> None:
        records: list[_Record] = []
        left = iter(events)
        while self._encode(left, records):  # noqa: ASYNC110  # it awaits nothing: it only lets others run
            await asyncio.sleep(0)
        if not records:
            return
        way: _Way = "at once" if self._writing <= FEW else "together"
        error = await self._written(way, records)
        if error is not None and error.code() in _TOO_LARGE:
            # The brokers compare a whole batch with the topic's limit, and a batch may hold the records of
            # several writes. Only a record that is refused alone is too large.
            error = await self._written("alone", records)
            if error is not None and error.code() in _TOO_LARGE:
                raise self._too_large(records)
        if error is not None:
            raise self._unreachable(error)

    def _encode(self, events: Iterator[Event], records: list[_Record]) -> bool:
        """Appends the records of the next events. Returns whether to let other tasks run before the rest."""
        headers, proof = 0, self._config.proof
        for event in events:
            record = encode(event if proof is None else proof.signed(event))
            if not is_small(*record) and (size := record_bytes(*record)) > MAX_EVENT_BYTES:
                raise NotSent(
                    f"Event {event.id!r} of {event.source!r} has {size} bytes as a record with key and"
                    f" headers; the limit is {MAX_EVENT_BYTES}. Store large data elsewhere, and send a"
                    " reference to it (`dataref`)."
                )
            records.append(record)
            headers += len(record[2])
            if headers > _SLICE:
                return True
        return False

    async def _written(self, way: _Way, records: Sequence[_Record]) -> KafkaError | None:
        """Sends the records, and returns when the client holds none of them any more.

        Returns the error of one that is not written; None if all are.
        """
        request = _Request(len(records), self._loop.create_future())
        self._writing += 1
        try:
            client = self._usable(way) or await self._made(way)
            handed = self._hand_over(client, records, 0, request)
            while handed < request.expected:
                await asyncio.sleep(0)
                handed = self._hand_over(client, records, handed, request)
            if request.reported < request.expected:
                await request.future
        finally:
            self._writing -= 1
        if request.refusal is not None:
            raise request.refusal
        if request.error is not None and request.error.code() == _TIMED_OUT:
            # It may have lost its brokers for good (`lost_brokers`): the next write makes another client.
            client.failure = client.failure or request.error
        if request.error is not None and request.error.code() in _PURGED:
            return client.failure or request.error
        return request.error

    def _hand_over(self, client: _Client, records: Sequence[_Record], start: int, request: _Request) -> int:
        """Gives the client the records from this one on, until it refuses one or other tasks should run.

        Returns how many it has. A refusal ends the request there.
        """
        produce, report, topic = client.producer.produce, partial(self._report, request), self._topic
        headers_left = _SLICE
        for number in range(start, len(records)):
            key, value, headers = records[number]
            try:
                # Positional, and a list: keyword arguments and a copy take a quarter of the time.
                produce(topic, value, key, _ANY_PARTITION, report, None, _NOW, headers)
            except BufferError:
                request.expected = number
                request.refusal = NoRoom(
                    f"{self._config.describe()} takes no more records now; send again later."
                )
                return number
            except self._refusal as error:
                request.expected = number
                found = error.args[0]
                if found.code() == _FATAL:  # the reason comes from the client's thread
                    found = client.failure = client.failure or found
                is_too_large = found.code() in _TOO_LARGE
                request.refusal = self._too_large(records) if is_too_large else self._unreachable(found)
                return number
            headers_left -= len(headers)
            if headers_left < 0:
                return number + 1
        return len(records)

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
        if error.code() in FORBIDDEN:
            advice = f"Allow this connection's user to write to the topic {self._topic}, also idempotently"
        elif error.code() in _MISSING:
            advice = f"Create the topic {self._topic}: airflow interlock topics create"
        return UnreachableError(
            f"{self._config.describe()} did not acknowledge: {error_text(error)}. {advice}; send the same"
            " events again: a repeat counts once."
        )

    def close(self) -> None:
        """Ends the threads; blocks up to CLOSE_S for the acknowledgements that are due. Idempotent."""
        with self._lock:
            self._is_closed = True
            for client in self._clients.values():
                client.end()
            threads = (*(client.thread for client in self._clients.values()), *self._ending)
        ends = monotonic() + CLOSE_S
        for thread in threads:
            thread.join(max(0.0, ends - monotonic()))

    def _report(self, request: _Request, error: KafkaError | None, _: Message) -> None:
        """Called in the thread of a client."""
        if error is not None:
            request.error = error
        request.reported += 1
        if request.reported == request.expected:
            self._done.append(request)
            if not self._is_woken:
                self._is_woken = True
                with suppress(RuntimeError):  # the loop is closed, and nobody waits
                    self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._is_woken = False  # first: what is done from now on wakes the loop again
        while self._done:
            request = self._done.popleft()
            if not request.future.done():  # its task may be cancelled
                request.future.set_result(None)


class _Request:
    """One call of `write`.

    expected: records that the client has, or is to have; only the event loop's thread sets it. reported:
    records that are acknowledged or failed; only the polling thread counts. Each thread looks at both after
    it has changed its own, so at least one of them sees that they are equal. refusal: why the client did not
    take a record.
    """

    __slots__ = ("error", "expected", "future", "refusal", "reported")

    def __init__(self, expected: int, future: asyncio.Future[Any]) -> None:
        self.expected, self.future = expected, future
        self.reported = 0
        self.error: KafkaError | None = None
        self.refusal: NoRoom | UnreachableError | NotSent | None = None
