"""Sends events to one Kafka topic and returns when the broker has acknowledged them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from .client_log import client_logger
from .emitter_arguments import BOOTSTRAP, check_emitter, check_timeout, checked_events
from .errors import EmitError
from .event import Event
from .kafka import encode
from .plain_text import takes_plain_text
from .proof import Proof, ProofError, without_proof
from .sizes import MAX_EVENT_BYTES, record_bytes
from .tokens import OAUTH_CB, token_callback
from .tracing import process_tracing

if TYPE_CHECKING:
    from confluent_kafka import Producer

log = client_logger("interlock.events.librdkafka")

_MOST_BYTES = "message.max.bytes"
_STORE_ELSEWHERE = "Store large data elsewhere, and emit a reference to it (`dataref`)."
_EMIT_AGAIN = "Check that the broker can be reached and the topic exists, then emit again with the same id."
# Callers cannot change these: all in-sync replicas must have the event, once, on the partition that every
# other Kafka client would choose for its key.
_FIXED: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random"}
_ALIASES_OF_FIXED = frozenset({"request.required.acks", "message.timeout.ms", "delivery.timeout.ms"})
# How long a topic may be unknown before its records fail. With librdkafka's default of 30 s, the timeout
# would come first and hide the reason.
_TOPIC_UNKNOWN_MS = 5_000
# The client reports a timeout itself; if it has not done so this much later, it hangs.
_REPORT_GRACE_S = 5.0
_FATAL = -150  # after it this client never sends again
_TIMED_OUT = -192  # after it this client may have lost its brokers for good (librdkafka issue 5301)
# Shorter values are redacted only if their name suggests a secret: a value such as "1" occurs in any message.
_REDACT_FROM = 4
_SECRET_WORDS = ("password", "secret", "token", "key", "username", "jaas", "oauth", "credential")


class _TooLarge(str):
    """The reason why an event that is too large was not sent."""


class Delivery(NamedTuple):
    """The position of an acknowledged event."""

    topic: str
    partition: int
    offset: int


class Emitter:
    """Emits events to one topic; an event counts as emitted when all in-sync replicas have it.

    client: properties of the Kafka client (`bootstrap.servers`, security, ...). acks=all,
        enable.idempotence, the murmur2_random partitioner and the delivery timeout cannot be overridden.
    logger: gets what the Kafka client logs, such as connection failures.

    The size limit of an event is that of event topics (MAX_EVENT_BYTES), or `message.max.bytes` of `client`
    for a topic with another limit. It applies to the uncompressed record with key and headers.
    With an `interlock.proof.secret` in `client`, events of Interlock's own types get a proof
    (docs/operate/proof.md). If OpenTelemetry is set up in the process, an event without a trace gets one
    (docs/operate/tracing.md).
    It connects at `connect` or the first emit. Threads may share an emitter; forked processes may not.
    Messages and logs contain no values of `client` except bootstrap.servers. A wrong argument, here or of a
    method, raises EmitError before anything connects.
    """

    @takes_plain_text
    def __init__(self, client: Mapping[str, str], topic: str, *, logger: logging.Logger = log) -> None:
        check_emitter(client, topic, logger)
        self._client = dict(client)
        try:
            self._proof = Proof.of(client, topic)
        except ProofError as error:
            raise EmitError(f"cannot emit to topic {topic}: {error}") from None
        self._topic = topic
        most = str(client.get(_MOST_BYTES, ""))
        self._most_bytes = int(most) if most.isdecimal() else MAX_EVENT_BYTES
        self._logger = logger
        self._tracing = process_tracing()
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._producer_timeout_ms = 0
        self._last_error: str | None = None

    def connect(self, timeout_s: float = 30.0) -> None:
        """Connects in the background, so that the first emit with the same timeout is fast.

        Without it the first acknowledgement takes half a second longer, since the client requests its
        producer id twice. Raises EmitError if the client refuses its properties.
        """
        check_timeout("Emitter.connect()", timeout_s)
        with self._lock:
            self._ready_producer(max(1, int(timeout_s * 1000)))

    def emit(self, event: Event, timeout_s: float = 30.0) -> Delivery:
        """Sends one event and waits for its acknowledgement. Raises EmitError within `timeout_s` + 5 s."""
        return self._emitted("Emitter.emit()", (event,), timeout_s)[0]

    def emit_all(self, events: Iterable[Event], timeout_s: float = 30.0) -> list[Delivery]:
        """Sends events in order and waits for all acknowledgements; returns deliveries in the same order.

        Raises EmitError; its `undelivered` lists the events without an acknowledgement. The others are in the
        topic; an empty `undelivered` means that nothing was sent.
        """
        return self._emitted("Emitter.emit_all()", events, timeout_s)

    def _emitted(self, call: str, events: Iterable[Event], timeout_s: float) -> list[Delivery]:
        check_timeout(call, timeout_s)
        batch = checked_events(call, events)
        if self._tracing is None:
            return self._sent(batch, timeout_s)
        with self._tracing.emits(batch, self._topic, self._most_bytes) as traced:
            return self._sent(traced, timeout_s)

    def _sent(self, batch: list[Event], timeout_s: float) -> list[Delivery]:
        with self._lock:
            producer = self._ready_producer(max(1, int(timeout_s * 1000)))
            outcomes: list[Delivery | str | None] = [None] * len(batch)
            deadline = time.monotonic() + timeout_s + _REPORT_GRACE_S
            for number, event in enumerate(batch):
                self._send(producer, event, number, outcomes, deadline)
            while any(outcome is None for outcome in outcomes) and time.monotonic() < deadline:
                # Unlike poll(), flush() sends records at once instead of waiting to batch them.
                if not self._served(producer.flush):
                    break  # the client has no records left, so no more delivery reports will come
            delivered = [outcome for outcome in outcomes if isinstance(outcome, Delivery)]
            if len(delivered) == len(batch):
                return delivered
            if any(outcome is None for outcome in outcomes):
                self._producer = None  # it hangs; its pending records must not be sent by the next emit
            raise self._failure(batch, outcomes, timeout_s)

    def close(self) -> None:
        """Drops the client; all emitted events are acknowledged already. Idempotent."""
        with self._lock:
            self._producer = None

    def __enter__(self) -> Emitter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready_producer(self, timeout_ms: int) -> Producer:
        # The timeout is a property of the whole client, so another timeout needs another client.
        if self._producer is not None and self._producer_timeout_ms == timeout_ms:
            return self._producer
        from confluent_kafka import KafkaException, Producer

        self._last_error = None
        settings: dict[str, Any] = {
            name: value
            for name, value in without_proof(self._client).items()
            if name not in _ALIASES_OF_FIXED
        }
        settings.update(_FIXED)
        settings["delivery.timeout.ms"] = timeout_ms
        settings.setdefault("topic.metadata.propagation.max.ms", min(_TOPIC_UNKNOWN_MS, timeout_ms))
        settings.setdefault(_MOST_BYTES, MAX_EVENT_BYTES)
        # Brokers would create a missing topic with other settings than a bus needs. A producer follows this,
        # although librdkafka lists it as a consumer's property.
        settings.setdefault("allow.auto.create.topics", "false")
        settings["error_cb"] = self._note_error
        settings["logger"] = self._logger
        try:
            if (callback := token_callback(self._client)) is not None:
                settings[OAUTH_CB] = callback
            self._producer = Producer(settings)
        except (KafkaException, ValueError, TypeError) as error:
            raise EmitError(
                f"cannot emit to topic {self._topic} at {self._client[BOOTSTRAP]}: the client refuses its"
                f" properties ({self._redacted(_text_of(error))}); correct the connection"
            ) from None  # the cause may contain a secret
        self._producer_timeout_ms = timeout_ms
        return self._producer

    def _send(
        self,
        producer: Producer,
        event: Event,
        number: int,
        outcomes: list[Delivery | str | None],
        deadline: float,
    ) -> None:
        from confluent_kafka import KafkaException

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                outcomes[number] = error.str()
                if error.code() == _TIMED_OUT:
                    self._producer = None
            else:
                outcomes[number] = Delivery(message.topic(), message.partition(), message.offset())

        key, value, headers = encode(event if self._proof is None else self._proof.signed(event))
        size = record_bytes(key, value, headers)
        if size > self._most_bytes:
            outcomes[number] = _TooLarge(
                f"it is too large: {size} bytes as a record with key and headers, and the limit is"
                f" {self._most_bytes}"
            )
            return
        while True:
            try:
                producer.produce(self._topic, value, key, headers=list(headers), on_delivery=on_delivery)
                return
            except BufferError:  # the client's queue is full; acknowledgements free space
                if time.monotonic() >= deadline:
                    outcomes[number] = "the client's send queue stayed full"
                    return
                self._served(producer.poll)
            except KafkaException as error:
                outcomes[number] = _text_of(error)
                if error.args[0].code() == _FATAL:
                    self._producer = None
                return

    def _served(self, serve: Callable[[float], int]) -> int:
        """Takes delivery reports for 0.1 s; returns 0 if none will follow. A fatal error drops the client."""
        from confluent_kafka import KafkaException

        try:
            return serve(0.1)
        except (KafkaException, SystemError) as error:  # SystemError: a report came with the fatal error
            self._producer = None
            cause = error.__cause__ or error
            self._last_error = _text_of(cause) if isinstance(cause, Exception) else None
            return 1

    def _note_error(self, error: Any) -> None:
        self._last_error = error.str()

    def _failure(
        self, batch: list[Event], outcomes: list[Delivery | str | None], timeout_s: float
    ) -> EmitError:
        pairs = list(zip(batch, outcomes, strict=True))
        lost = [event.identity for event, outcome in pairs if not isinstance(outcome, Delivery)]
        too_large = [event.identity for event, outcome in pairs if isinstance(outcome, _TooLarge)]
        reasons = [(event.identity, outcome) for event, outcome in pairs if isinstance(outcome, str)]
        (source, id_), cause = reasons[0] if reasons else (lost[0], "the client gave no answer")
        by = f"by topic {self._topic} at {self._client[BOOTSTRAP]} within {timeout_s:g} s"
        if len(batch) == 1:
            text = f"the event {id_!r} of {source!r} was not acknowledged {by}: {self._redacted(cause)}."
        else:
            text = (
                f"{len(lost)} of {len(batch)} events were not acknowledged {by}."
                f" One of them, {id_!r} of {source!r}: {self._redacted(cause)}."
            )
        if self._last_error and self._last_error != cause:
            text += f" Last error of the client: {self._redacted(self._last_error)}."
        if too_large:
            text += f" {_STORE_ELSEWHERE}"
        if len(lost) > len(too_large):
            text += f" {_EMIT_AGAIN}"
        return EmitError(text, lost, too_large)

    def _redacted(self, text: str) -> str:
        for name, value in self._client.items():
            secret = str(value)
            if name in (BOOTSTRAP, _MOST_BYTES) or not secret:
                continue
            if len(secret) >= _REDACT_FROM or any(word in name for word in _SECRET_WORDS):
                text = text.replace(secret, "***")
        return text


def _text_of(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)
