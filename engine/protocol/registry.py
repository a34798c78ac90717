"""The registry: which registrations are in force, as the subscription topic tells. Pure, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...conditions import Condition, canonical_key
from ...events.errors import InterlockError
from ..bus import End, Record
from ..errors import RecordError, UnknownVersion
from ..log import log
from ..records import BUS_KEY, BusRecord, Registration, RegistrationKey, decode_json


@dataclass(frozen=True, eq=False)  # a handle: equal to itself only
class Registered:
    """A registration in force. `offset` is that of its incarnation's first record: its place for everyone."""

    registration: Registration
    condition: Condition
    offset: int

    @property
    def incarnation(self) -> str:
        return self.registration.incarnation


@dataclass
class Change:
    """What one registry record did."""

    added: list[Registered] = field(default_factory=list)
    removed: list[Registered] = field(default_factory=list)


class Registry:
    """Folds the subscription topic, record by record, in offset order.

    A known incarnation registered again changes nothing. Another incarnation of a subscription replaces
    the one before. A removal (null) of any of an incarnation's keys removes it: a removal nulls them all.
    A record that cannot be read is left out and logged; it stops nobody else.
    """

    def __init__(self) -> None:
        self.position = 0  # offset of the next registry record
        self.bus: BusRecord | None = None
        self._by_incarnation: dict[str, Registered] = {}
        self._by_subscription: dict[str, Registered] = {}
        self._order: dict[int, Registered] = {}  # by first offset, in insertion = offset order
        # Record keys not yet nulled, by subscription and incarnation, replaced incarnations included.
        self._keys: dict[str, dict[str, set[bytes]]] = {}
        self._subscription_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_incarnation)

    def get(self, incarnation: str) -> Registered | None:
        return self._by_incarnation.get(incarnation)

    def between(self, start: int, end: int) -> list[Registered]:
        """Those in force whose place is in [start, end), in order."""
        if start >= end:
            return []
        found = []
        for offset in reversed(self._order):  # new ones are asked for, and they stand at the end
            if offset < start:
                break
            if offset < end:
                found.append(self._order[offset])
        return found[::-1]

    def keys(self, subscription: str) -> set[bytes]:
        """The record keys to null so that the subscription is gone."""
        return set().union(*self._keys.get(subscription, {}).values())

    def apply(self, item: Record | End) -> Change:
        """Take the next record, or that the end was reached (which moves `position` over gaps)."""
        change = Change()
        if isinstance(item, End):
            self.position = max(self.position, item.offset)
            return change
        self.position = item.offset + 1
        if item.key == BUS_KEY:
            self._read_bus_record(item)
            return change
        key = RegistrationKey.decode(item.key or b"")
        if key is None:
            return change
        if item.value is None:
            self._forget_key(key.incarnation, item.key or b"")
            self._remove(key.incarnation, change)
            return change
        try:
            registration = decode_json(Registration, item.value, str(item))
            condition = registration.build_condition()
            condition.check_key(registration.key is not None)
            if condition.needs_ticks:
                raise RecordError(
                    f"its condition, {condition}, needs timers, which this engine does not have"
                )
            if registration.key is not None:
                canonical_key(registration.key)
        except (RecordError, InterlockError) as e:
            log.error("Registration at %s left out: %s", item, e)
            return change
        incarnation = registration.incarnation
        self._subscription_of[incarnation] = registration.subscription
        keys = self._keys.setdefault(registration.subscription, {})
        keys.setdefault(incarnation, set()).add(item.key or b"")
        if incarnation in self._by_incarnation:
            return change
        earlier = self._by_subscription.get(registration.subscription)
        if earlier is not None:
            self._remove(earlier.incarnation, change)
        registered = Registered(registration, condition, item.offset)
        self._by_incarnation[incarnation] = registered
        self._by_subscription[registration.subscription] = registered
        self._order[item.offset] = registered
        change.added.append(registered)
        return change

    def _read_bus_record(self, record: Record) -> None:
        try:
            self.bus = decode_json(BusRecord, record.value or b"", str(record))
        except UnknownVersion:
            raise  # a bus made by a later version may work by other rules
        except RecordError as e:
            log.error("Bus record left out: %s", e)

    def _forget_key(self, incarnation: str, key: bytes) -> None:
        subscription = self._subscription_of.get(incarnation)
        if subscription is None:
            return
        incarnations = self._keys[subscription]
        incarnations[incarnation].discard(key)
        if not incarnations[incarnation]:
            del incarnations[incarnation], self._subscription_of[incarnation]
            if not incarnations:
                del self._keys[subscription]

    def _remove(self, incarnation: str, change: Change) -> None:
        registered = self._by_incarnation.pop(incarnation, None)
        if registered is None:
            return
        del self._order[registered.offset]
        subscription = registered.registration.subscription
        if self._by_subscription.get(subscription) is registered:
            del self._by_subscription[subscription]
        change.removed.append(registered)
