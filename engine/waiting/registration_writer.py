"""Writes registrations of a process's waits to the registry, and the leases that keep them there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..bus import Output, Writer
from ..config import BusConfig
from ..errors import EngineError, NoRoom, NotSent
from ..log import log
from ..records import Registration, RegistrationKey, encode_json, sink_key
from ..registry.registry import Registry
from .environment import WaitEnvironment
from .lease_writer import LeaseWriter, ProcessLeases

FLUSH_S = 1.0


class RegistrationWriter:
    """Writes registry records. Not thread-safe.

    leases: those of this process, by this writer and earlier ones.
    """

    def __init__(
        self,
        config: BusConfig,
        writer: Writer,
        leases: ProcessLeases,
        environment: WaitEnvironment = WaitEnvironment(),  # noqa: B008  # immutable
    ) -> None:
        self._config, self._writer = config, writer
        self._topic = config.topic("subscription")
        self._leases = leases
        leases.newest = self
        self._nonce = environment.nonce
        self._lease_writer = LeaseWriter(config.deployment, self._produce, leases, environment.monotonic)

    @property
    def is_replaced(self) -> bool:
        """Whether the process has made another writer since, because the thread of this one hung."""
        return self._leases.newest is not self

    def register(self, registration: Registration, version: int, failed: Callable[[str], None]) -> str | None:
        """Send a registration. Returns the record's key, or None if the client refuses the record.

        failed: called with the reason if the record is refused now, or not delivered (by a later `serve`).
        Raises UnreachableError if the writer is unusable, and EngineError if it is replaced.
        """
        key = RegistrationKey(registration.incarnation, self._nonce()).encode()
        value = encode_json(msgspec.structs.replace(registration, v=version))
        return key.decode() if self._send(key, value, failed) else None

    def write_sink(self, subscription: str, value: bytes, failed: Callable[[str], None]) -> None:
        """Send the sink record of a subscription. failed, and what it raises: as for `register`."""
        self._send(sink_key(subscription), value, failed)

    def _send(self, key: bytes, value: bytes, failed: Callable[[str], None]) -> bool:
        """Returns False if the client refuses the record."""

        def on_delivery(reason: str | None) -> None:
            if reason is not None:
                failed(reason)

        while True:
            if self.is_replaced:
                raise EngineError("Another thread of this process writes registrations now.")
            try:
                self._writer.write(Output(self._topic, 0, key, value), on_delivery)
            except NoRoom:
                self._writer.serve(0.1)
            except NotSent as e:
                failed(str(e))
                return False
            else:
                return True

    def remove(self, key: str) -> None:
        """Remove a registration. If the write fails, an engine removes it a day later: no lease names it."""
        self._produce(key.encode(), None)

    def serve(self) -> None:
        """Call the delivery callbacks that are due."""
        self._writer.serve()

    def outage(self) -> str | None:
        """See `bus.Writer.outage`."""
        return self._writer.outage()

    def lease(self, waited: set[str], registry: Registry) -> None:
        """Name what this process waits for in leases, and renew them when it is time.

        registry: read to its end, but for the last seconds.
        """
        self._lease_writer.lease(waited, registry)

    def close(self, registry: Registry | None) -> None:
        """End the leases, and wait at most FLUSH_S until the brokers have all records.

        registry: None if it was not read to its end. Then the leases end by their age.
        """
        if registry is not None:
            self._lease_writer.end(registry)
        self._writer.flush(FLUSH_S)

    def _produce(self, key: bytes, value: bytes | None) -> bool:
        """Write a record that may be lost: a later call writes it again. Returns False if it was refused."""
        if self.is_replaced:
            return False
        try:
            self._writer.write(Output(self._topic, 0, key, value))
        except EngineError as e:
            log.warning("%s could not be written to the registry: %s", key.decode(), e)
            return False
        return True
