"""The first read of a registry: what ended before its end is not even read as a registration.

Most records of a registry are of waits that are over, since their removals stay for a day or two before the
brokers compact them away. What is in force at the end follows from the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..bus import End, Record
from ..records.codec import UNREADABLE
from .registry import Registry, incarnation_of


class _Named(msgspec.Struct):
    """What a registration is about; the rest of it is passed over."""

    subscription: str
    incarnation: str


_decoder: Final = msgspec.json.Decoder(_Named)


@dataclass(slots=True)
class _History:
    """The records of one incarnation. `standing`: the keys that were not nulled since.

    `alone`: nothing else is known under its subscription, so that nothing came or went with it.
    """

    records: list[Record] = field(default_factory=list)
    standing: set[bytes] = field(default_factory=set)
    subscription: str | None = None
    alone: bool = True


class FirstRead:
    """Takes the records of a registry from its start, in place of `Registry.apply`, until `finish`.

    The registry is then what it would be if it had applied each of them; only that it does not tell what it
    could not read of what was removed. Meanwhile it knows no registrations, but all else, and its position.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._histories: dict[str, _History] = {}  # by incarnation
        self._incarnations: dict[str, str] = {}  # by subscription: the first of those that are held
        self._named_ms: dict[str, int] = {}  # when a lease last named an incarnation that is held

    def take(self, item: Record | End) -> None:
        """Take the next record, or that the end was reached."""
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
        """The end of the first read: the registry applies what matters there, in order."""
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
            return  # it changes nothing, and the registry tells it if it stays
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
        # Nothing is in force or left over of what has none of its keys, and nothing was replaced by it.
        del self._histories[incarnation]
        self._named_ms.pop(incarnation, None)
        if history.subscription is not None:
            del self._incarnations[history.subscription]
