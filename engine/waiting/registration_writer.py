"""Writes registrations of a process's waits to the registry, and the leases that keep them in force."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from ..bus import Output, Writer
from ..config import BusConfig
from ..errors import EngineError, NoRoom, NotSent
from ..log import log
from ..records import LeaseRecord, Registration, RegistrationKey, encode_json, sink_key
from .environment import WaitEnvironment

MOST_NAMED: Final = 5000  # incarnations in one lease record: 180 kB; the client refuses 1 MB
LEASE_S = 300.0  # renewal interval; a registration that no lease names is removed after 24 h
FLUSH_S = 1.0
_NEVER = -LEASE_S


@dataclass
class ProcessLeases:
    """The lease records of a process, which every writer of the process renews or removes.

    process: the name in their keys. count: how many the registry has; their numbers begin at 0. newest: the
    writer that was made last.
    """

    process: str
    count: int = 0
    newest: RegistrationWriter | None = None

    def key(self, number: int) -> bytes:
        """The key of a lease record."""
        return f"lease/{self.process}/{number}".encode()


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
        self._monotonic, self._nonce = environment.monotonic, environment.nonce
        self._leased_at = _NEVER  # when the leases last named all waits of this process
        self._named: set[str] = set()  # the incarnations that leases have named since then

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

    # -- leases

    def lease(self, incarnations: Iterable[str], version: int) -> None:
        """Write leases for what this process waits for; registrations without a lease end after a day.

        A call writes leases for new waits only; the first one, and one every LEASE_S, for all. After an
        outage of more than a day nothing else shows that the waits still exist.
        """
        now = self._monotonic()
        renew_all = now - self._leased_at >= LEASE_S
        waited = set(incarnations)
        named = sorted(waited if renew_all else waited - self._named)
        parts = [named[at : at + MOST_NAMED] for at in range(0, len(named), MOST_NAMED)]
        first = 0 if renew_all else self._leases.count
        for number, part in enumerate(parts, first):
            lease = LeaseRecord(
                v=version,
                deployment=self._config.deployment,
                incarnations=part,
                host=socket.gethostname(),
            )
            if not self._produce(self._leases.key(number), encode_json(lease)):
                return
            self._leases.count = max(self._leases.count, number + 1)
            self._named.update(part)
        if renew_all and self._end_leases(len(parts)):
            self._leased_at, self._named = now, waited

    def close(self) -> None:
        """End the leases, and wait at most FLUSH_S until the brokers have all records."""
        self._end_leases(0)
        self._writer.flush(FLUSH_S)

    def _end_leases(self, first: int) -> bool:
        """Remove the lease records from number `first` on. Returns False if it must be retried."""
        while self._leases.count > first:
            if not self._produce(self._leases.key(self._leases.count - 1), None):
                return False
            self._leases.count -= 1
        return True

    def _produce(self, key: bytes, value: bytes | None) -> bool:
        """Write a record that may be lost: a later call writes it again. Returns False if it was refused."""
        try:
            self._writer.write(Output(self._topic, 0, key, value))
        except EngineError as e:
            log.warning("%s could not be written to the registry: %s", key.decode(), e)
            return False
        return True
