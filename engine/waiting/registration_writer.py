"""What the waits of a process write to the registry: registrations, and the leases that keep them there."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ..bus import Output, Writer
from ..config import BusConfig
from ..errors import EngineError, NoRoom, NotSent
from ..log import log
from ..records import LeaseRecord, Registration, RegistrationKey, encode_json

MOST_NAMED: Final = 5000  # of one record: 180 kB, and the client refuses 1 MB
LEASE_S = 300.0  # beside a day, after which a registration that no lease names is removed; see also upkeep
FLUSH_S = 1.0
_NEVER = -LEASE_S


def nonce() -> str:
    """A name that no other process has made."""
    return uuid.uuid4().hex[:12]


class Registering:
    """Writes registry records. One thread.

    process: under this name the leases of this process stand. monotonic: seconds.
    """

    def __init__(
        self,
        config: BusConfig,
        writer: Writer,
        process: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        nonce: Callable[[], str] = nonce,
    ) -> None:
        self._config, self._writer = config, writer
        self._topic = config.topic("subscription")
        self._process = process
        self._monotonic, self._nonce = monotonic, nonce
        self._leases = 0  # records of this process that stand
        self._leased_at = _NEVER  # when all waits of this process were named
        self._named: set[str] = set()  # then and since

    def register(self, registration: Registration, version: int, failed: Callable[[str], None]) -> str | None:
        """The key of the record that is on its way; None where it could not be sent.

        failed: called with the reason in both cases, now or by a later `serve`. UnreachableError when the
        writer is of no use any more.
        """

        def told(reason: str | None) -> None:
            if reason is not None:
                failed(reason)

        key = RegistrationKey(registration.incarnation, self._nonce()).encode()
        value = encode_json(msgspec.structs.replace(registration, v=version))
        while True:
            try:
                self._writer.write(Output(self._topic, 0, key, value), told)
            except NoRoom:
                self._writer.serve(0.1)
            except NotSent as e:
                failed(str(e))
                return None
            else:
                return key.decode()

    def remove(self, key: str) -> None:
        """Null a registration. One that is not removed is, a day later, as nothing leases it any more."""
        self._produce(key.encode(), None)

    def serve(self) -> None:
        """Tell what became of registrations that were sent."""
        self._writer.serve()

    def outage(self) -> str | None:
        """Ask the cluster for anything: why it does not answer, or None when it does."""
        return self._writer.outage()

    # -- leases

    def lease(self, incarnations: Iterable[str], version: int) -> None:
        """Say what is waited for here; else it would be taken for forgotten after a day.

        New ones in the next call, in a record of their own; all of them anew every LEASE_S. A wait that comes
        back after its pool was away for longer than a day has no other sign of life.
        """
        now = self._monotonic()
        anew = now - self._leased_at >= LEASE_S
        waited = set(incarnations)
        named = sorted(waited if anew else waited - self._named)
        parts = [named[at : at + MOST_NAMED] for at in range(0, len(named), MOST_NAMED)]
        first = 0 if anew else self._leases
        for number, part in enumerate(parts, first):
            lease = LeaseRecord(
                v=version,
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
        self._writer.flush(FLUSH_S)

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
        try:
            self._writer.write(Output(self._topic, 0, key, value))
        except EngineError as e:
            log.warning("%s could not be written to the registry: %s", key.decode(), e)
            return False
        return True
