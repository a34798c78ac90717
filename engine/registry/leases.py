"""The leases of a registry: which process waits for which registrations, and until when it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from ..bus import Record
from ..records import LeaseRecord, RenewalRecord, decode_json

LEASED_MS: Final = 24 * 3600 * 1000  # a registration stays so long after a process leased it last
PREFIXES: Final = (b"lease/", b"renewal/")  # of the records' keys


@dataclass(frozen=True)
class LeaseHolder:
    """A process that holds a lease for a subscription. renewed_ms: when the lease was last renewed."""

    process: str
    deployment: str
    host: str
    renewed_ms: int


class Lease(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A lease record in the registry; without names if it cannot be read. See `LeaseRecord`."""

    key: bytes
    process: str
    offset: int
    written_ms: int
    names: tuple[str, ...] = ()
    released: bool = False
    deployment: str = ""
    host: str = ""


class _Renewal(msgspec.Struct, frozen=True, gc=False):
    """offset: the leases before it are renewed; -1 if it cannot be read and renews none."""

    offset: int
    written_ms: int
    ended: bool = False


def is_lease(key: bytes | None) -> bool:
    """Whether a record with this key is for `Leases.apply`."""
    return (key or b"").startswith(PREFIXES)


def _same(text: str) -> str:
    return text


class Leases:
    """The leases and renewals of a registry (docs/understand/engine/registry.md "Leases").

    Of the records of one process that name an incarnation, the last one counts. changes: how often another
    process has held something, or the same process something else.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._leases: dict[bytes, Lease] = {}
        self._renewals: dict[str, _Renewal] = {}  # by process
        # {incarnation: the keys of the leases that name it}; a single key is no tuple, which saves memory.
        self._keys: dict[str, bytes | tuple[bytes, ...]] = {}

    def apply(
        self, record: Record, left: dict[str, int] | None = None, own_text: Callable[[str], str] = _same
    ) -> None:
        """Process a lease or a renewal.

        left: gets {incarnation: when it was last leased} of what it ends. own_text: an equal text that is in
        memory already. Raises RecordError for one that cannot be read: then it leases nothing, and becomes
        old.
        """
        key = record.key or b""
        kind, _, rest = key.decode("utf-8", "replace").partition("/")
        if kind == "renewal":
            self._apply_renewal(rest, record, left)
            return
        self._forget(key, left)
        if record.value is None:
            return
        process = rest.rpartition("/")[0] or rest
        lease = Lease(key, process, record.offset, record.timestamp_ms)
        self._leases[key] = lease
        found = decode_json(LeaseRecord, record.value, str(record))
        self._leases[key] = msgspec.structs.replace(
            lease,
            names=tuple(map(own_text, found.incarnations)),
            released=found.released,
            deployment=found.deployment,
            host=found.host,
        )
        self._index(self._leases[key])
        self.changes += 1

    def share(self, own_text: Callable[[str], str]) -> None:
        """Replace the names by equal texts that are in memory already."""
        leases = list(self._leases.values())
        self._keys.clear()
        for lease in leases:
            self._leases[lease.key] = shared = msgspec.structs.replace(
                lease, names=tuple(map(own_text, lease.names))
            )
            self._index(shared)

    # -- questions

    def of(self, incarnation: str) -> list[LeaseHolder]:
        """The holders of a registration, also those whose lease is old."""
        found = []
        for lease in self._last_ones(incarnation):
            if not lease.released and not self._has_ended(lease):
                found.append(self._holder(lease))
        return found

    def holders(self, is_registered: Callable[[str], bool]) -> list[LeaseHolder]:
        """The holders of leases that name a registered incarnation; one for each such lease."""
        return [
            self._holder(lease)
            for lease in self._leases.values()
            if not lease.released and not self._has_ended(lease) and any(map(is_registered, lease.names))
        ]

    def last_ms(self, incarnation: str) -> int:
        """When a process leased it last; 0 if no record says so."""
        return max(map(self._last_ms, self._last_ones(incarnation)), default=0)

    def old(self, before_ms: int) -> list[bytes]:
        """The keys of leases and renewals not renewed since `before_ms`: their processes have died."""
        keys = [lease.key for lease in self._leases.values() if self._renewed_ms(lease) < before_ms]
        for process, renewal in self._renewals.items():
            if renewal.written_ms < before_ms:
                keys.append(renewal_key(process))
        return keys

    def of_process(self, process: str) -> list[Lease]:
        """The leases of a process, in the order in which they were written."""
        found = [lease for lease in self._leases.values() if lease.process == process]
        return sorted(found, key=lambda lease: lease.offset)

    def renewed_ms(self, process: str) -> int | None:
        """When the process renewed its leases last; None if there is no renewal."""
        renewal = self._renewals.get(process)
        return None if renewal is None else renewal.written_ms

    # -- records

    def _apply_renewal(self, process: str, record: Record, left: dict[str, int] | None) -> None:
        before = self._renewals.pop(process, None)
        renewal = None
        try:
            if record.value is not None:
                renewal = _Renewal(-1, record.timestamp_ms)
                found = decode_json(RenewalRecord, record.value, str(record))
                renewal = _Renewal(record.offset, record.timestamp_ms, found.ended)
        finally:
            if left is not None and before is not None and (renewal is None or renewal.offset < 0):
                self._renewals[process] = before
                for lease in self.of_process(process):
                    self._note(lease, left)
                del self._renewals[process]
            if renewal is not None:
                self._renewals[process] = renewal
            ended = [each is not None and each.ended for each in (before, renewal)]
            self.changes += ended[0] != ended[1]

    def _index(self, lease: Lease) -> None:
        for name in lease.names:
            known = self._keys.get(name)
            if known is None:
                self._keys[name] = lease.key
            elif known != lease.key:
                self._keys[name] = (*((known,) if isinstance(known, bytes) else known), lease.key)

    def _forget(self, key: bytes, left: dict[str, int] | None) -> None:
        lease = self._leases.get(key)
        if lease is None:
            return
        if left is not None:
            self._note(lease, left)
        del self._leases[key]
        for name in lease.names:
            known = self._keys.pop(name, key)
            others = () if isinstance(known, bytes) else tuple(each for each in known if each != key)
            if others:
                self._keys[name] = others if len(others) > 1 else others[0]
        self.changes += 1

    def _note(self, lease: Lease, left: dict[str, int]) -> None:
        """Note when the lease's names were last leased by it."""
        last_ms = self._last_ms(lease)
        for name in lease.names:
            if any(last is lease for last in self._last_ones(name)):
                left[name] = max(last_ms, left.get(name, 0))

    # -- times

    def _last_ones(self, incarnation: str) -> Iterator[Lease]:
        """The last record of each process that names it."""
        keys = self._keys.get(incarnation, ())
        if isinstance(keys, bytes):
            yield self._leases[keys]
            return
        last: dict[str, Lease] = {}
        for lease in map(self._leases.__getitem__, keys):
            if lease.process not in last or lease.offset > last[lease.process].offset:
                last[lease.process] = lease
        yield from last.values()

    def _renewal_of(self, lease: Lease) -> _Renewal | None:
        """The renewal behind a lease."""
        renewal = self._renewals.get(lease.process)
        return renewal if renewal is not None and renewal.offset > lease.offset else None

    def _renewed_ms(self, lease: Lease) -> int:
        renewal = self._renewal_of(lease)
        return lease.written_ms if renewal is None else max(lease.written_ms, renewal.written_ms)

    def _last_ms(self, lease: Lease) -> int:
        """When what it names was last leased, as far as it says."""
        return lease.written_ms if lease.released else self._renewed_ms(lease)

    def _has_ended(self, lease: Lease) -> bool:
        renewal = self._renewal_of(lease)
        return renewal is not None and renewal.ended

    def _holder(self, lease: Lease) -> LeaseHolder:
        return LeaseHolder(lease.process, lease.deployment, lease.host, self._last_ms(lease))


def lease_key(process: str, number: int) -> bytes:
    """The key of a lease record."""
    return f"lease/{process}/{number}".encode()


def renewal_key(process: str) -> bytes:
    """The key of a process's renewal record."""
    return f"renewal/{process}".encode()


def number_of(lease: Lease) -> int:
    """The number in a lease's key; -1 if it has none."""
    number = lease.key.rpartition(b"/")[2]
    return int(number) if number.isdigit() and len(number) < 10 else -1
