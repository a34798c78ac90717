"""The leases of a registry: which process waits for which registrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..records import LeaseRecord


@dataclass(frozen=True)
class LeaseHolder:
    """A process that holds a lease for a subscription. renewed_ms: when the lease was last renewed."""

    process: str
    deployment: str
    host: str
    renewed_ms: int


@dataclass(frozen=True)
class _Lease:
    holder: LeaseHolder
    incarnations: frozenset[str]


class Leases:
    """The leases in force, by their record keys, `lease/{process}/{number}`.

    changes: how often another process has held something, or the same process something else.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._leases: dict[bytes, _Lease] = {}

    def put(
        self,
        key: bytes,
        lease: LeaseRecord | None,
        renewed_ms: int,
        own_text: Callable[[str], str] = lambda text: text,
    ) -> None:
        """Replace the lease of a key; None removes it. own_text: an equal text that is in memory already."""
        before = self._leases.pop(key, None)
        if lease is None:
            self.changes += before is not None
            return
        parts = key.decode("utf-8", "replace").split("/")
        holder = LeaseHolder(parts[1] if len(parts) > 1 else "", lease.deployment, lease.host, renewed_ms)
        named = frozenset(map(own_text, lease.incarnations))
        if before is not None and before.incarnations == named:
            named = before.incarnations
        else:
            self.changes += 1
        self._leases[key] = _Lease(holder, named)

    def of(self, incarnation: str) -> list[LeaseHolder]:
        """The holders of a registration, also those whose lease is old."""
        return [lease.holder for lease in self._leases.values() if incarnation in lease.incarnations]

    def holders(self, is_registered: Callable[[str], bool]) -> list[LeaseHolder]:
        """The holders of leases that name a registered incarnation; one for each such lease."""
        return [
            lease.holder for lease in self._leases.values() if any(map(is_registered, lease.incarnations))
        ]
