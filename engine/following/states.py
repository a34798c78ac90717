"""The pending state of subscriptions (open keys and their pending matches), as the state topic has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ...conditions import EMPTY, ConditionError, State, opened
from ..bus import Record
from ..errors import RecordError
from ..protocol.tasks.trigger_task import runs_from_registration, single_key
from ..records import CLOCK_KEY, MetaRecord, StateRecord, decode_msgpack, parse_state_key
from ..registry.registry import Registered

_OVERHEAD: Final = 200  # bytes of memory that a state takes beside its record's value
# How a state without matches begins: with the array of its fields, and an empty one in it.
_ARRAY, _EMPTY_ARRAY = EMPTY.encode()[:1], EMPTY.encode()[1:2]


@dataclass
class Pending:
    """The pending state of one subscription. closed: it is one-shot, has fired and is not acknowledged.

    keys: {key: encoded state} of the open keys. idle: the same for keys without pending matches, which are
    kept to recognise repeated events; the only key of a wait is in `keys`. unreadable: how many of its state
    records cannot be read.
    """

    closed: bool = False
    keys: dict[str, bytes] = field(default_factory=dict)
    idle: dict[str, bytes] = field(default_factory=dict)
    unreadable: int = 0

    def state(self, registered: Registered, key: str) -> State:
        """The state of a key; its initial state if none is stored. Raises ConditionError if unreadable."""
        data = self.keys.get(key) or self.idle.get(key)
        if data is not None:
            return State.decode(data)
        if single_key(registered) == key and runs_from_registration(registered.condition):
            return opened(registered.condition, registered.timestamp_ms)
        return EMPTY


class States:
    """The states of one partition, not decoded. size: about how many bytes of memory they take.

    is_wanted: whether to keep states of an incarnation and key; the key is None for what concerns all keys.
    own_text: an equal text that is in memory already.
    """

    def __init__(
        self,
        is_wanted: Callable[[str, str | None], bool] | None = None,
        own_text: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.size = 0
        self._is_wanted, self._own_text = is_wanted, own_text
        self._metas: dict[str, bytes] = {}  # by incarnation
        self._keys: dict[str, dict[str, bytes]] = {}  # {incarnation: {key: encoded state}}
        self._unreadable: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._metas) + sum(map(len, self._keys.values()))

    def apply(self, record: Record) -> str | None:
        """Process the next record of the partition. Returns the incarnation whose state it changes."""
        key = record.key or b""
        if key == CLOCK_KEY or record.fault:
            return None
        try:
            incarnation, of = parse_state_key(key)
        except RecordError:
            return None  # not a state record
        if self._is_wanted is not None and not self._is_wanted(incarnation, of):
            return None
        value = record.value
        try:
            if of is None:
                if value is None:
                    self._drop(incarnation)
                else:
                    decode_msgpack(MetaRecord, value, str(record))
                    self._put(self._metas, self._own_text(incarnation), value)
                return incarnation
            state = None if value is None else decode_msgpack(StateRecord, value, str(record)).state
        except RecordError:  # the engine needs another version, or removes it: what was there before stays
            self._unreadable[incarnation] = self._unreadable.get(incarnation, 0) + 1
            return incarnation
        keys = self._keys.get(incarnation)
        if keys is None:
            if state is None:
                return None
            keys = self._keys[self._own_text(incarnation)] = {}
        self._put(keys, of, state)
        if not keys:
            del self._keys[incarnation]
        return incarnation

    def _drop(self, incarnation: str) -> None:
        """Nothing is left of an incarnation whose meta record is removed."""
        self._put(self._metas, incarnation, None)
        keys = self._keys.pop(incarnation, {})
        for key in list(keys):
            self._put(keys, key, None)

    def _put(self, kept: dict[str, bytes], key: str, value: bytes | None) -> None:
        before = kept.pop(key, None) if value is None else kept.get(key)
        if before is not None:
            self.size -= len(before) + _OVERHEAD
        if value is not None:
            self.size += len(value) + _OVERHEAD
            kept[key] = value

    def count(self, incarnation: str) -> int:
        """How many keys of a subscription have a state, without looking at them."""
        meta = self._metas.get(incarnation)
        has_only = meta is not None and decode_msgpack(MetaRecord, meta, "").only is not None
        return len(self._keys.get(incarnation, ())) + has_only

    def add_to(self, pending: Pending, registered: Registered, key: str | None = None) -> None:
        """Add what is kept of a subscription. key: of this key only."""
        incarnation = registered.incarnation
        pending.unreadable += self._unreadable.get(incarnation, 0)
        meta = self._metas.get(incarnation)
        if meta is not None:
            record = decode_msgpack(MetaRecord, meta, "")
            pending.closed = pending.closed or record.closed
            if record.only is not None:
                fired = not registered.one_shot and _is_idle(record.only[1])
                target = pending.idle if fired else pending.keys
                target[single_key(registered) or ""] = record.only[1]
        keys = self._keys.get(incarnation, {})
        wanted: Iterable[tuple[str, bytes]] = keys.items()
        if key is not None:
            wanted = ((each, keys[each]) for each in (key,) if each in keys)
        for each, data in wanted:
            (pending.idle if _is_idle(data) else pending.keys)[each] = data


def _is_idle(data: bytes) -> bool:
    # A state with matches is not idle. Most have some, and need not be decoded for this.
    if data[:1] == _ARRAY and data[1:2] != _EMPTY_ARRAY:
        return False
    try:
        return State.decode(data).is_idle
    except ConditionError:
        return False
