"""A registry for questions: it builds conditions when they are asked for, and keeps few bytes of each.

Building the conditions of 100,000 registrations takes half a minute if each is another one, and their objects
take 600 MB. A question needs a page of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final, NoReturn

import msgspec

from ..bus import End, Record, TopicPartition
from ..errors import RecordError, UnknownVersion
from ..log import at, log
from ..records import encode_json
from ..records.codec import UNREADABLE, require_known_version
from ..records.versions import is_read
from .leases import LeaseHolder, is_lease
from .registry import Change, Registered, Registry

# Registrations whose conditions are kept: those that the page's views look at, which would else be built anew
# for each view, half a millisecond for each.
MOST_BUILT: Final = 3000
FEW: Final = 20  # registrations that are searched in the bytes of leases, instead of reading these
MOST_SHARED: Final = 10_000  # JSON forms of conditions that are compared with those of new registrations


class _Head(msgspec.Struct, gc=False):
    """What is read of a registration at first."""

    v: int
    subscription: str
    incarnation: str
    kind: str = "one-shot"


class _HeadAndCondition(_Head, gc=False):
    condition: msgspec.Raw = msgspec.Raw()


# Hundreds of thousands are alive: the garbage collector must not look at each.
class Listed(msgspec.Struct, gc=False):
    """A registration in force, whose condition nobody may have looked at yet. `offset` as in `Registered`.

    `key`, `form`: of its record, and `more`: (key, offset, timestamp) of further records of the same
    registration. `key` is None if the registry has built it.
    """

    subscription: str
    incarnation: str
    one_shot: bool
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    form: tuple[bytes, bytes, bytes] | bytes = b""
    more: tuple[tuple[bytes, int, int], ...] = ()

    @property
    def value(self) -> bytes:
        """The record's value."""
        return self.form if isinstance(self.form, bytes) else b"".join(self.form)


def _ignore(_: Listed) -> None:
    pass


_head: Final = msgspec.json.Decoder(_Head).decode
_head_and_condition: Final = msgspec.json.Decoder(_HeadAndCondition).decode
_by_offset: Final = attrgetter("offset")
_UNCHANGED: Final = Change()


class LazyRegistry(Registry):
    """Answers as a `Registry`, but reads the rest of a registration when somebody asks for it.

    Until then it holds the record of a subscription that has one incarnation. As soon as more happens to the
    subscription than a removal, its records are applied as a `Registry` applies them: subscriptions do not
    affect each other. A held record that turns out to be damaged is ignored and logged then; `len` and
    `listed` count it before. (Three differences: damaged records that were removed or replaced are not
    logged; it does not know which registrations are orphans, which engines alone ask; and of two
    subscriptions whose records claim one incarnation, a hash of the name, it may know another one.)

    listed: {offset: registration in force}; in the order of the offsets but for few. on_added, on_removed:
    called for each change of it. leases: who holds what, as of the last end of the topic. newest_ms: the
    greatest timestamp of the records.
    """

    def __init__(
        self,
        on_added: Callable[[Listed], None] = _ignore,
        on_removed: Callable[[Listed], None] = _ignore,
        *,
        share: bool = False,
        once: bool = False,
    ) -> None:
        """share: keep equal texts once, which takes a microsecond per registration.

        once: the topic is read to its end once, so leases that name nothing that is listed then are not kept.
        """
        super().__init__()
        self.listed: dict[int, Listed] = {}
        self.newest_ms = 0
        self._on_added, self._on_removed = on_added, on_removed
        self._held: dict[str, Listed] = {}  # by incarnation
        self._held_names: dict[str, Listed] = {}  # by subscription
        self._built: dict[int, Registered] = {}  # by offset; the one that was asked for last is the last one
        self._source = TopicPartition("", 0)  # of the records
        self._shared: dict[bytes, bytes] | None = {} if share else None
        self._once = once
        self._new_leases: dict[bytes, Record] = {}

    # -- questions

    def __len__(self) -> int:
        return len(self.listed)

    def get(self, incarnation: str) -> Registered | None:
        held = self._held.get(incarnation)
        return super().get(incarnation) if held is None else self.registered(held)

    def by_name(self, subscription: str) -> Registered | None:
        held = self._held_names.get(subscription)
        return super().by_name(subscription) if held is None else self.registered(held)

    def between(self, start: int, end: int) -> list[Registered]:
        wanted = [each for offset, each in self.listed.items() if start <= offset < end]
        found = map(self.registered, sorted(wanted, key=_by_offset))
        return [each for each in found if each is not None]

    def successor(self, incarnation: str) -> Registered | None:
        held = self._held.get(incarnation)
        return super().successor(incarnation) if held is None else self.registered(held)

    def keys(self, subscription: str) -> set[bytes]:
        held = self._held_names.get(subscription)
        if held is None or self.registered(held) is None:
            return super().keys(subscription)
        return {record.key or b"" for record in self._records(held)}

    def is_listed(self, subscription: str) -> bool:
        """Whether a subscription of this name is in force, as far as is known without its condition."""
        return subscription in self._held_names or subscription in self._by_subscription

    def copy(self) -> LazyRegistry:
        """What is registered now, for another thread. It has no leases, and `keys` may have later ones."""
        made = LazyRegistry()
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(made, name, dict(value))
        made.position, made.bus, made.newest_ms = self.position, self.bus, self.newest_ms
        made._source = self._source
        return made

    def lease_holders(self) -> list[LeaseHolder]:
        """The processes with leases for what is in force, one for each lease."""
        return self.leases.holders(lambda each: each in self._held or each in self._by_incarnation)

    def registered(self, listed: Listed) -> Registered | None:
        """The registration in full; None if its record is damaged, and then it is not listed any more."""
        if listed.key is None:
            return super().get(listed.incarnation)
        known = self._built.pop(listed.offset, None)
        if known is None:
            for record in self._records(listed):  # all are equal, but each one that is ignored is logged
                read = self._registration_in(listed.incarnation, record, record.value or b"")
            if read is None:
                self._drop(listed)
                return None
            known = Registered(*read, listed.offset, listed.timestamp_ms)
        self._built[listed.offset] = known
        while len(self._built) > MOST_BUILT:
            del self._built[next(iter(self._built))]
        return known

    def parts(self, listed: Listed) -> tuple[bytes, bytes, bytes]:
        """The registration's JSON: what is before its condition, the condition, and the rest."""
        if isinstance(listed.form, tuple):
            return listed.form
        if listed.key is not None:
            return _parted(listed.value, _head_and_condition(listed.value), {})
        registration = self._by_incarnation[listed.incarnation].registration
        before, condition, after = encode_json(registration).partition(bytes(registration.condition))
        return before, condition, after

    def orphans(self, before_ms: int) -> NoReturn:
        raise NotImplementedError("Leases are read at the ends of the topic alone: ask a Registry.")

    # -- records

    def apply(self, item: Record | End) -> Change:
        """See `Registry.apply`. The changes leave out registrations whose conditions are not built."""
        if isinstance(item, Record):
            if item.timestamp_ms > self.newest_ms:
                self.newest_ms = item.timestamp_ms
            if self._hold_first(item):
                return _UNCHANGED
            self._source = item.source
            if is_lease(item.key) and not item.fault:
                self._put_off(item)
                return _UNCHANGED
        else:
            while self.read_lease():
                pass
        return super().apply(item)

    def _hold_first(self, record: Record) -> bool:
        """Hold the first record of a subscription: nearly all are. False for any other record."""
        key, value = record.key, record.value
        if key is None or value is None or record.fault or b"/" in key:
            return False
        of, colon, _ = key.partition(b":")
        if not colon or (head := self._head_of(value)) is None:
            return False
        name, incarnation = head.subscription, head.incarnation
        if name in self._held_names or incarnation in self._held or incarnation.encode() != of:
            return False
        if self._keys and (name in self._keys or incarnation in self._subscription_of):
            return False
        if self.unknown:
            self.unknown.pop(key, None)
        offset, form = record.offset, value if self._shared is None else _parted(value, head, self._shared)
        self.position, self._source = offset + 1, record.source
        listed = Listed(name, incarnation, head.kind == "one-shot", offset, record.timestamp_ms, key, form)
        self._held[incarnation] = self._held_names[name] = self.listed[offset] = listed
        self._on_added(listed)
        return True

    def _head_of(self, value: bytes) -> _Head | None:
        """None for a record that needs a closer look."""
        try:
            head = _head(value) if self._shared is None else _head_and_condition(value)
        except UNREADABLE:
            return None
        return head if is_read(head.v) and head.kind in ("one-shot", "durable") else None

    def _read_registration(self, incarnation: str, record: Record, change: Change) -> None:
        held = self._held.get(incarnation)
        if record.value is None:
            if held is not None and held.key == record.key and not held.more:
                self._drop(held)  # nothing is left of it
                return
            named = None
        else:
            if held is not None and held.value == record.value:
                held.more += ((record.key or b"", record.offset, record.timestamp_ms),)
                return
            head = self._head_of(record.value)
            named = None if head is None else self._held_names.get(head.subscription)
        for each in sorted((each for each in (held, named) if each is not None), key=_by_offset):
            self._settle(each, change)
        super()._read_registration(incarnation, record, change)

    def _records(self, held: Listed) -> Iterator[Record]:
        """The records that were read of it."""
        value = held.value
        for key, offset, timestamp_ms in ((held.key, held.offset, held.timestamp_ms), *held.more):
            yield Record(self._source, offset, timestamp_ms, key, value, None)

    def _settle(self, held: Listed, change: Change) -> None:
        """Apply the records of a held registration."""
        if self._held.get(held.incarnation) is not held:
            return  # settled already: both names were of this one
        self._drop(held)
        for record in self._records(held):
            super()._read_registration(held.incarnation, record, change)

    def _drop(self, held: Listed) -> None:
        del self._held[held.incarnation], self._held_names[held.subscription]
        self._built.pop(held.offset, None)
        self._unlist(held.offset)

    def _add(self, registered: Registered, change: Change) -> None:
        super()._add(registered, change)
        name, offset = registered.registration.subscription, registered.offset
        listed = Listed(name, registered.incarnation, registered.one_shot, offset, registered.timestamp_ms)
        self.listed[offset] = listed
        self._on_added(listed)

    def _take_out(self, registered: Registered, change: Change) -> None:
        super()._take_out(registered, change)
        self._unlist(registered.offset)

    def _unlist(self, offset: int) -> None:
        self._on_removed(self.listed.pop(offset))

    # -- leases

    def _put_off(self, lease: Record) -> None:
        """Keep a lease or renewal until the end: the topic has those of a day, and few are still there."""
        key = lease.key or b""
        self.position = lease.offset + 1
        self.unknown.pop(key, None)
        self._new_leases[key] = lease

    def read_lease(self) -> bool:
        """Read one lease that was put off. Returns False if there is none."""
        if not self._new_leases:
            return False
        _, record = self._new_leases.popitem()
        try:
            if self._once and not self._may_hold(record):
                require_known_version("LeaseRecord", record.value or b"", str(record))
                return True
            self.leases.apply(record, own_text=str if self._shared is None else self.own_text)
        except UnknownVersion as e:
            self._note_unknown(record, e)
        except RecordError as e:
            with at(*record.source, record.offset):
                log.error("Record %s is ignored: %s", record, e)
        return True

    def _may_hold(self, record: Record) -> bool:
        """Whether it is no lease, or one that may name something that is listed."""
        if len(self.listed) > FEW or not (record.key or b"").startswith(b"lease/"):
            return True
        value = record.value or b""
        return any(each.incarnation.encode() in value for each in self.listed.values())

    def own_text(self, incarnation: str) -> str:
        """An equal text that is in memory already, if there is one."""
        held = self._held.get(incarnation)
        return super().own_text(incarnation) if held is None else held.incarnation


def _parted(value: bytes, head: _Head, shared: dict[bytes, bytes]) -> tuple[bytes, bytes, bytes]:
    """The value in three parts. The second is the condition, the same object as for an equal one."""
    condition = bytes(head.condition) if isinstance(head, _HeadAndCondition) else b""
    if len(shared) >= MOST_SHARED:
        shared.clear()
    known = shared.setdefault(condition, condition)
    before, _, after = value.partition(condition)
    return before, known, after
