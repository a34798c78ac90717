"""The first read of a registry: skips registrations that are removed again further on.

Most records of a registry belong to ended waits: brokers compact their removals away only after a day or two.
The other records suffice for what is in force at the end.
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
    """The records of one incarnation. `standing`: the keys without a null so far.

    `alone`: its subscription has no other incarnation, so it replaced nothing and nothing replaced it.
    """

    records: list[Record] = field(default_factory=list)
    standing: set[bytes] = field(default_factory=set)
    subscription: str | None = None
    alone: bool = True


class FirstRead:
    """Processes the records of a registry from its start, instead of `Registry.apply`, until `finish`.

    The registry then equals one that has applied each record, except that unreadable registrations which were
    removed are not logged. Before `finish` it has no registrations, but everything else, and its position.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._histories: dict[str, _History] = {}  # by incarnation
        self._incarnations: dict[str, str] = {}  # by subscription: the first of those that are held
        self._named_ms: dict[str, int] = {}  # when a lease last named an incarnation that is held

    def take(self, item: Record | End) -> None:
        """Process the next record, or the end of the topic."""
        if isinstance(item, End):
            self._registry.apply(item)
            return
        incarnation = incarnation_of(item)
        if incarnation is None:
            for named in self._registry.apply(item).named:
                if named in self._histories:
                    self._named_ms[named] = item.timestamp_ms
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
        for incarnation, at_ms in self._named_ms.items():
            self._registry.name(incarnation, at_ms)

    def _hold(self, incarnation: str, record: Record, value: bytes) -> None:
        history = self._histories.get(incarnation)
        if history is None:
            history = self._histories[incarnation] = _History()
        history.records.append(record)
        history.standing.add(record.key or b"")
        try:
            found = _decoder.decode(value)
        except UNREADABLE:
            return  # it changes nothing; if it is not removed, the registry logs it
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
        # All its keys are nulled and it replaced nothing, so it leaves no trace in the registry.
        del self._histories[incarnation]
        self._named_ms.pop(incarnation, None)
        if history.subscription is not None:
            del self._incarnations[history.subscription]
