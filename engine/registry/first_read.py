"""The first read of a registry: skips registrations that later records remove.

Most records of a registry belong to ended waits, because brokers compact them only after a day or two. This
read drops them, and applies the rest at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..bus import End, Record
from ..records.codec import UNREADABLE
from .registry import Registry, incarnation_of


class _Named(msgspec.Struct):
    """The members of a registration that the first read decodes."""

    subscription: str
    incarnation: str


_decoder: Final = msgspec.json.Decoder(_Named)


@dataclass(slots=True)
class _History:
    """The records of one incarnation. `standing`: the record keys that no null has removed so far.

    `alone`: its subscription has no other incarnation: it replaced none, and none replaced it.
    """

    records: list[Record] = field(default_factory=list)
    standing: set[bytes] = field(default_factory=set)
    subscription: str | None = None
    alone: bool = True


class FirstRead:
    """Processes the records of a registry from its start, instead of `Registry.apply`, until `finish`.

    After `finish` the registry equals one that has applied each record. (One difference: unreadable
    registrations that were removed are not logged.) Before `finish` it has everything except registrations.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._histories: dict[str, _History] = {}  # by incarnation
        self._incarnations: dict[str, str] = {}  # by subscription: the first one in `_histories`
        # When an incarnation in `_histories` was leased that no lease may name now.
        self._leased_ms: dict[str, int] = {}

    def take(self, item: Record | End) -> None:
        """Process the next record, or the end of the topic."""
        if isinstance(item, End):
            self._registry.apply(item)
            return
        incarnation = incarnation_of(item)
        if incarnation is None:
            for left, leased_ms in self._registry.apply(item).left.items():
                if left in self._histories:
                    self._leased_ms[left] = max(leased_ms, self._leased_ms.get(left, 0))
            return
        self._registry.position = item.offset + 1
        if item.value is None:
            self._remove(incarnation, item)
        else:
            self._hold(incarnation, item, item.value)

    def finish(self) -> None:
        """End the first read: the registry applies the remaining records in order."""
        position = self._registry.position
        held = [record for history in self._histories.values() for record in history.records]
        self._histories.clear()
        for record in sorted(held, key=lambda record: record.offset):
            self._registry.apply(record)
        self._registry.position = position
        for incarnation, at_ms in self._leased_ms.items():
            self._registry.note_lease(incarnation, at_ms)
        self._registry.leases.share(self._registry.own_text)

    def _hold(self, incarnation: str, record: Record, value: bytes) -> None:
        history = self._histories.get(incarnation)
        if history is None:
            history = self._histories[incarnation] = _History()
        history.records.append(record)
        history.standing.add(record.key or b"")
        try:
            found = _decoder.decode(value)
        except UNREADABLE:
            return  # an unreadable registration changes nothing; the registry logs it unless it is removed
        first = self._incarnations.setdefault(found.subscription, incarnation)
        if (
            first != incarnation
            or found.incarnation != incarnation
            or history.subscription not in (None, found.subscription)
        ):
            history.alone = self._histories[first].alone = False
        history.subscription = found.subscription

    def _remove(self, incarnation: str, record: Record) -> None:
        history = self._histories.get(incarnation)
        if history is None:
            return
        history.standing.discard(record.key or b"")
        if history.standing or not history.alone:
            history.records.append(record)
            return
        # All its records are removed and it replaced nothing, so it does not affect the registry.
        del self._histories[incarnation]
        self._leased_ms.pop(incarnation, None)
        if history.subscription is not None:
            del self._incarnations[history.subscription]
