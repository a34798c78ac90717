"""What the waits of a process write to the registry: registrations, and the leases that keep them there."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from .config import BusConfig
from .errors import RecordError, UnreachableError
from .kafka.clients import ClientErrors, connect
from .log import log
from .records import LeaseRecord, Registration, RegistrationKey, encode_json

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Producer

MOST_NAMED: Final = 5000  # of one record: 180 kB, and the client refuses 1 MB
LEASE_S = 300.0  # beside a day, after which a registration that no lease names is removed; see also upkeep
FLUSH_S = 1.0
_NEVER = -LEASE_S


class Registering:
    """A producer of registry records. One thread.

    process: under this name the leases of this process stand.
    """

    def __init__(self, config: BusConfig, errors: ClientErrors, process: str) -> None:
        from confluent_kafka import Producer

        self._config = config
        self._topic = config.topic("subscription")
        self._process = process
        self._leases = 0  # records of this process that stand
        self._leased_at = _NEVER  # when all waits of this process were named
        self._named: set[str] = set()  # then and since
        self._producer: Producer = connect(
            Producer,
            config,
            errors,
            enable_idempotence=True,
            acks="all",
            linger_ms=5,
            compression_type="lz4",
        )

    def register(
        self, registration: Registration, record_format: int, failed: Callable[[str], None]
    ) -> str | None:
        """The key of the record that is on its way; None where it could not be sent.

        failed: called with the reason in both cases, now or by a later `serve`. UnreachableError when the
        producer is of no use any more.
        """
        from confluent_kafka import KafkaException

        def told(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed(error.str())

        key = RegistrationKey(registration.incarnation, uuid.uuid4().hex[:12]).encode()
        try:
            value = encode_json(registration.in_format(record_format))
        except RecordError as e:
            failed(str(e))
            return None
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition=0, on_delivery=told)
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as e:
                if e.args[0].fatal():
                    raise UnreachableError(f"The producer of registrations failed: {e.args[0].str()}.") from e
                failed(e.args[0].str())
                return None
            else:
                return key.decode()

    def remove(self, key: str) -> None:
        """Null a registration. One that is not removed is, a day later, as nothing leases it any more."""
        self._produce(key.encode(), None)

    def serve(self) -> None:
        """Tell what became of registrations that were sent."""
        self._producer.poll(0)

    def trouble(self) -> KafkaException | None:
        """Ask the cluster for anything: why it does not answer, or None when it does."""
        from confluent_kafka import KafkaException

        try:
            self._producer.list_topics(timeout=2.0)
        except KafkaException as e:
            return e
        return None

    # -- leases

    def lease(self, incarnations: Iterable[str], record_format: int) -> None:
        """Say what is waited for here; else it would be taken for forgotten after a day.

        New ones in the next call, in a record of their own; all of them anew every LEASE_S. A wait that comes
        back after its pool was away for longer than a day has no other sign of life.
        """
        now = time.monotonic()
        anew = now - self._leased_at >= LEASE_S
        waited = set(incarnations)
        named = sorted(waited if anew else waited - self._named)
        parts = [named[at : at + MOST_NAMED] for at in range(0, len(named), MOST_NAMED)]
        first = 0 if anew else self._leases
        for number, part in enumerate(parts, first):
            lease = LeaseRecord(
                v=record_format,
                deployment=self._config.deployment,
                incarnations=part,
                host=socket.gethostname(),
            )
            if not self._produce(self._lease_key(number), encode_json(lease)):
                return
            self._leases = max(self._leases, number + 1)
            self._named.update(part)
        if anew and self._end_leases(len(parts)):
            self._leased_at, self._named = now, waited

    def close(self) -> None:
        """End the leases; what is on its way has FLUSH_S to arrive."""
        self._end_leases(0)
        self._producer.flush(FLUSH_S)

    def _end_leases(self, first: int) -> bool:
        """Remove the records from number `first` on; False when that is to be tried again."""
        while self._leases > first:
            if not self._produce(self._lease_key(self._leases - 1), None):
                return False
            self._leases -= 1
        return True

    def _lease_key(self, number: int) -> bytes:
        return f"lease/{self._process}/{number}".encode()

    def _produce(self, key: bytes, value: bytes | None) -> bool:
        """A record whose loss costs nothing: a lease is written again."""
        from confluent_kafka import KafkaException

        try:
            self._producer.produce(self._topic, value, key, partition=0)
        except (BufferError, KafkaException) as e:
            log.warning("%s could not be written to the registry: %s", key.decode(), e)
            return False
        return True
