"""The Kafka clients of waits, over librdkafka: readers without a group, producers without transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..bus import TOO_LARGE, Output
from ..config import BusConfig
from ..errors import EngineError, NoRoom, NotSent, UnreachableError
from ..records.sizes import MAX_INTERNAL_BYTES
from .clients import FORBIDDEN, ClientErrors, connect, error_text
from .lost_brokers import LostBrokers
from .reader import KafkaReader
from .topics import check

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

PROBE_TIMEOUT_S = 2.0
LINGER_MS = 5


class KafkaWriter:
    """An idempotent producer (see `bus.Writer`)."""

    def __init__(self, config: BusConfig, errors: ClientErrors, **own: object) -> None:
        from confluent_kafka import Producer

        self._config, self._errors = config, errors
        self._producer: Producer = connect(
            Producer,
            config,
            errors,
            enable_idempotence=True,
            acks="all",
            message_max_bytes=MAX_INTERNAL_BYTES,  # the topics' limit
            **own,
        )
        self._lost_brokers = LostBrokers(config, self._producer)

    def write(self, output: Output, on_delivery: Callable[[str | None], None] | None = None) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            self._producer.produce(
                output.topic,
                output.value,
                output.key,
                partition=-1 if output.partition is None else output.partition,
                on_delivery=None if on_delivery is None else _reporting(on_delivery),
            )
        except BufferError as e:
            raise NoRoom(str(e)) from e
        except KafkaException as e:
            # After a fatal error produce raises _FATAL, which is not itself marked as fatal.
            if e.args[0].fatal() or e.args[0].code() == KafkaError._FATAL:
                raise UnreachableError(f"The producer failed: {e.args[0].str()}.") from e
            raise NotSent(e.args[0].str()) from e

    def serve(self, timeout_s: float = 0) -> None:
        with self._fatal_errors():
            self._producer.poll(timeout_s)
        self._lost_brokers.check(silent=True)  # a poll gives nothing

    def flush(self, timeout_s: float) -> int:
        with self._fatal_errors():
            return self._producer.flush(timeout_s)

    @contextmanager
    def _fatal_errors(self) -> Iterator[None]:
        """Raises UnreachableError for an error after which the client writes nothing more."""
        from confluent_kafka import KafkaException

        try:
            yield
        except (KafkaException, SystemError) as e:  # SystemError: see `transactions._cause`
            cause = e.__cause__ or e
            if isinstance(cause, KafkaException) and cause.args[0].code() in FORBIDDEN:
                raise UnreachableError(
                    f"{self._config.describe()} refuses records: {error_text(cause.args[0])}. Allow this"
                    " connection's user to write to the bus's topics, also idempotently."
                ) from e
            raise self._errors.unreachable(self._config, cause) from e

    def partitions(self, topic: str, timeout_s: float) -> int:
        from confluent_kafka import KafkaError, KafkaException

        try:
            found = self._producer.list_topics(topic, timeout=timeout_s).topics.get(topic)
        except KafkaException as e:
            raise self._errors.unreachable(self._config, e.args[0].str()) from e
        if found is None:
            raise self._errors.unreachable(self._config, f"the answer does not name the topic {topic!r}")
        if not found.partitions and found.error and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise self._errors.unreachable(self._config, KafkaException(found.error))
        return len(found.partitions)

    def outage(self) -> str | None:
        from confluent_kafka import KafkaException

        try:
            self._producer.list_topics(self._config.topic("subscription"), timeout=PROBE_TIMEOUT_S)
        except KafkaException as e:
            return str(self._errors.unreachable(self._config, e.args[0].str()))
        self._errors.clear()
        return None


class KafkaClients:
    """The clients of one connection (see `bus.Clients`)."""

    def __init__(self, config: BusConfig) -> None:
        self._config, self._errors = config, ClientErrors()

    @property
    def has_error(self) -> bool:
        return self._errors.last is not None

    def check(self) -> Mapping[str, int]:
        return check(self._config, dead_letters=False)

    def reader(self) -> KafkaReader:
        return KafkaReader(self._config, self._errors)

    def writer(self, delivery_s: float | None = None) -> KafkaWriter:
        if delivery_s is not None:
            return KafkaWriter(self._config, self._errors, delivery_timeout_ms=int(delivery_s * 1000))
        return KafkaWriter(self._config, self._errors, linger_ms=LINGER_MS, compression_type="lz4")

    def unreachable(self, reason: str) -> EngineError:
        return self._errors.unreachable(self._config, reason)


def _reporting(on_delivery: Callable[[str | None], None]) -> Callable[[KafkaError | None, object], None]:
    def report(error: KafkaError | None, _: object) -> None:
        if error is None:
            on_delivery(None)
        else:
            on_delivery(TOO_LARGE if error.code() == error.MSG_SIZE_TOO_LARGE else error.str())

    return report
