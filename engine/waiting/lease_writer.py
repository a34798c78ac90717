"""Writes the leases that keep a process's waits registered (docs/understand/engine/registry.md "Leases")."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ..records import LeaseRecord, RenewalRecord, encode_json
from ..registry.leases import LEASED_MS, Lease, lease_key, number_of, renewal_key
from ..registry.registry import Registry

if TYPE_CHECKING:
    from .registration_writer import RegistrationWriter

MOST_NAMED: Final = 500  # incarnations in one lease record: 18 kB, which a reader takes in half a millisecond
LEASE_S: Final = 300.0  # renewal interval; a registration that nobody leases is removed after 24 h
# Leases that name few waits are merged when there are more. Fewer would be merged, and their names written
# again, each few minutes while one wait begins every five seconds.
MOST_SMALL: Final = 240
_NEVER: Final = -LEASE_S


class ProcessLeases:
    """What all writers of a process share. process: the name in the keys. newest: the last writer.

    leaving: since when names are leased, registered and not waited for, by the monotonic clock.
    """

    def __init__(self, process: str) -> None:
        self.process = process
        self.newest: RegistrationWriter | None = None
        self.leaving: dict[str, float] = {}
        self._next = 0

    def next_key(self, standing: Iterable[Lease]) -> bytes:
        """A key that no lease has had. standing: those of the process in the registry."""
        self._next = max([self._next, *(number_of(lease) + 1 for lease in standing)])
        self._next += 1
        return lease_key(self.process, self._next - 1)


class LeaseWriter:
    """Names the waits of a process in leases, and renews these. Not thread-safe.

    write: writes a record (key, value), which may be lost; returns False if it was refused.
    """

    def __init__(
        self,
        deployment: str,
        write: Callable[[bytes, bytes | None], bool],
        leases: ProcessLeases,
        monotonic: Callable[[], float],
    ) -> None:
        self._deployment, self._write = deployment, write
        self._leases, self._monotonic = leases, monotonic
        self._renewed_at = _NEVER
        self._named: set[str] = set()  # by leases, as of the last renewal, and since
        self._recent: set[str] = set()  # of these, what was written since, and may not be in the registry yet

    def lease(self, waited: set[str], registry: Registry) -> None:
        """Name new waits; every LEASE_S, compare the leases with the waits, and renew them.

        registry: read to its end, but for the last seconds.
        """
        now = self._monotonic()
        if now - self._renewed_at < LEASE_S:
            self._name(waited - self._named, registry)
            return
        process = self._leases.process
        standing = registry.leases.of_process(process)

        def is_needed(name: str) -> bool:
            return name in waited or registry.get(name) is not None

        kept = self._without_superfluous(standing, is_needed, registry)
        if kept is None:
            return
        leased: set[str] = set()
        stays = set(kept)
        for lease in standing:
            (leased.update if lease in stays else leased.difference_update)(lease.names)
        since = self._leases.leaving
        leaving = {name: since.get(name, now) for name in leased - waited if registry.get(name) is not None}
        self._leases.leaving = leaving
        self._named = leased | self._unread(standing)
        released = {name for name, at in leaving.items() if now - at >= LEASE_S}
        for lease in _to_merge(kept, waited):
            self._named.difference_update(lease.names)  # so those that are waited for are named again
            released.update(leaving.keys() & lease.names)
        before, self._recent = self._recent, set()
        is_done = self._name(released, registry, released=True) and self._name(waited - self._named, registry)
        if is_done and (kept or before or self._recent):
            is_done = self._renew(registry)
        elif is_done and registry.leases.renewed_ms(process) is not None:
            is_done = self._write(renewal_key(process), None)
        if is_done:
            self._renewed_at = now
        else:
            self._recent |= before

    def end(self, registry: Registry) -> None:
        """The process waits for nothing any more. What it has leased stays registered for LEASED_MS."""
        standing = registry.leases.of_process(self._leases.process)
        kept = self._without_superfluous(standing, lambda name: registry.get(name) is not None, registry)
        if kept is None or kept or self._unread(standing):
            self._renew(registry, ended=True)
        elif standing:
            self._write(renewal_key(self._leases.process), None)

    def _unread(self, standing: list[Lease]) -> set[str]:
        """What is in leases that the registry does not show yet."""
        return self._recent.difference(*(lease.names for lease in standing))

    def _without_superfluous(
        self, standing: list[Lease], is_needed: Callable[[str], bool], registry: Registry
    ) -> list[Lease] | None:
        """Remove the records of which each name is not needed or in a later one.

        Returns the leases that stay, without released ones; None if a removal was refused.
        """
        last: dict[str, Lease] = {}
        for lease in standing:
            last.update(dict.fromkeys(lease.names, lease))
        leased = set[str]().union(*(lease.names for lease in standing if not lease.released))
        old_ms = (registry.leases.renewed_ms(self._leases.process) or 0) - LEASED_MS
        kept = []
        for lease in standing:
            names: Iterable[str] = lease.names
            if lease.released and lease.written_ms < old_ms:
                names = leased.intersection(names)  # an earlier lease would count again
            needed = any(last[name] is lease and is_needed(name) for name in names)
            if not needed and not self._write(lease.key, None):
                return None
            if needed and not lease.released:
                kept.append(lease)
        return kept

    def _name(self, names: Iterable[str], registry: Registry, *, released: bool = False) -> bool:
        """Write records that name these. Returns False if one was refused."""
        wanted = sorted(names)
        standing = registry.leases.of_process(self._leases.process) if wanted else ()
        for at in range(0, len(wanted), MOST_NAMED):
            part = wanted[at : at + MOST_NAMED]
            record = LeaseRecord(
                v=registry.version,
                deployment=self._deployment,
                incarnations=part,
                host=socket.gethostname(),
                released=released,
            )
            if not self._write(self._leases.next_key(standing), encode_json(record)):
                return False
            if released:
                self._named.difference_update(part)
            else:
                self._named.update(part)
                self._recent.update(part)
        return True

    def _renew(self, registry: Registry, *, ended: bool = False) -> bool:
        record = RenewalRecord(v=registry.version, ended=ended)
        return self._write(renewal_key(self._leases.process), encode_json(record))


def _to_merge(leases: list[Lease], waited: set[str]) -> list[Lease]:
    """The leases that name few waits, if they are many or name more that has ended than waits."""
    small, waits, ended = [], 0, 0
    for lease in leases:
        count = len(waited.intersection(lease.names))
        if count < MOST_NAMED // 2:
            small.append(lease)
            waits, ended = waits + count, ended + len(lease.names) - count
    return small if len(small) > MOST_SMALL or ended > waits + MOST_NAMED else []
