"""The states of one trigger partition: a meta record for each incarnation, and a state for each open key.

States stay encoded: a million of them fit into memory, and recovery need not decode them. The changes of a
pass can be rolled back until they are committed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias, TypeVar

import msgspec

from ....conditions import ConditionError, State
from ...bus import Record
from ...errors import RecordError
from ...records import CLOCK_KEY, MetaRecord, StateRecord, decode_msgpack, parse_state_key, state_key
from ...records.versions import is_read
from ..outputs import Outputs
from .wakeups import Wakeup, Wakeups

# When the key must next be evaluated or closed (ms since the epoch), and its encoded State.
Entry: TypeAlias = tuple[int | None, bytes]
T = TypeVar("T", MetaRecord, StateRecord)


@dataclass(slots=True)
class KeyStates:
    """The states of the keys of one incarnation.

    `marks`: {source partition: highest evaluated offset}. `closed`: it has fired and ignores further matches.
    `opened`: its timers were started. `single`: the only key of a subscription with one key, whose state is
    `only`; otherwise the states are in `keys`, in the order in which the keys opened. `timed`: ticks can make
    it fire. `resolved`: `single` and `timed` are known. `idle`: keys with nothing pending, longest idle
    first; None until it is needed.
    """

    registry_offset: int
    marks: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    opened: bool = False
    only: Entry | None = None
    keys: dict[str, Entry] = field(default_factory=dict)
    single: str | None = None
    timed: bool = True
    resolved: bool = False
    idle: dict[str, None] | None = None

    def get(self, key: str) -> Entry | None:
        """The state of a key."""
        return self.only if self.single is not None or self.only is not None else self.keys.get(key)

    def copy(self) -> KeyStates:
        """A copy for a rollback. It shares `keys`, whose changes the store remembers one by one."""
        return KeyStates(
            self.registry_offset,
            dict(self.marks),
            self.closed,
            self.opened,
            self.only,
            self.keys,
            self.single,
            self.timed,
            self.resolved,
        )


class Store:
    """The states of one trigger partition.

    `load` and `loaded` recover them. Later changes are part of a pass: `write` adds them to a transaction;
    then `committed` keeps them, or `rollback` undoes them in time proportional to their number.
    """

    def __init__(self) -> None:
        self._incarnations: dict[str, KeyStates] = {}
        # What this pass changed: the earlier values, None if there was none.
        self._metas: dict[str, KeyStates | None] = {}
        self._states: dict[tuple[str, str], Entry | None] = {}
        self._discarded: set[bytes] = set()  # keys of unreadable records, to be nulled
        self._open_before = 0
        self._timers, self._closings = Wakeups(self._wakeup_of), Wakeups(self._wakeup_of)
        self.open_keys = 0
        self.pending_bytes = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._incarnations)

    def __len__(self) -> int:
        return len(self._incarnations)

    @property
    def pending(self) -> int:
        """About how many records this pass must write."""
        return len(self._metas) + len(self._states) + len(self._discarded)

    def get(self, incarnation: str) -> KeyStates | None:
        return self._incarnations.get(incarnation)

    # -- recovery

    def load(self, record: Record) -> None:
        """Load the next record of the state partition. Raises RecordError if it is malformed."""
        if record.key == CLOCK_KEY:
            return
        incarnation, key = parse_state_key(record.key or b"")
        value = record.value
        states = self._incarnations.get(incarnation)
        if value is None:
            if key is None:
                self._incarnations.pop(incarnation, None)
            elif states is not None:
                states.keys.pop(key, None)
            return
        if key is None:
            meta = _read(_meta_decoder, MetaRecord, value, record)
            if states is None:
                states = self._incarnations[incarnation] = KeyStates(meta.registry_offset)
            states.registry_offset, states.closed = meta.registry_offset, meta.closed
            states.opened, states.only = meta.opened, meta.only
            states.marks = {sys.intern(source): offset for source, offset in meta.marks.items()}
            return
        state = _read(_state_decoder, StateRecord, value, record)
        if states is None:
            states = self._incarnations[incarnation] = KeyStates(state.registry_offset)
        states.keys[key] = (state.wakeup_ms, state.state)

    def loaded(self) -> None:
        """End the recovery: order keys by their wakeups. First call `resolve` for what is registered."""
        timers: list[tuple[int, str, str]] = []
        closings: list[tuple[int, str, str]] = []
        self.open_keys = 0
        for incarnation, states in self._incarnations.items():
            single = None if states.only is None else {states.single or "": states.only}
            entries = (single or states.keys).items()
            self.open_keys += len(entries)
            (timers if states.timed else closings).extend(
                (entry[0], incarnation, key) for key, entry in entries if entry[0] is not None
            )
        self._closings.fill(closings)
        self._timers.fill(timers)
        self._open_before = self.open_keys

    @staticmethod
    def resolve(states: KeyStates, single: str | None, timed: bool) -> None:
        """Set what follows from the registration. Call it before `loaded`, or before the first state."""
        states.resolved, states.single, states.timed = True, single, timed

    def discard(self, key: bytes) -> None:
        """Let the next commit remove an unreadable record of the state partition."""
        if key:  # brokers refuse a record without a key
            self._discarded.add(key)

    # -- changes

    def touch(self, incarnation: str) -> None:
        """Remember an incarnation for a rollback. Call it before changing anything but the states of keys."""
        if incarnation not in self._metas:
            states = self._incarnations.get(incarnation)
            self._metas[incarnation] = None if states is None else states.copy()

    def add(self, incarnation: str, states: KeyStates) -> None:
        """Add a new incarnation."""
        self.touch(incarnation)
        self._incarnations[incarnation] = states

    def put(
        self,
        incarnation: str,
        states: KeyStates,
        key: str,
        wakeup_ms: int | None,
        state: bytes,
        *,
        idle: bool = False,
    ) -> None:
        """Set the state of a key. idle: its `State.is_idle`."""
        if states.single is not None:
            old = states.only
            self.touch(incarnation)
            states.only = (wakeup_ms, state)
            before = self._metas[incarnation]
            is_first_change = old is (None if before is None else before.only)
        else:
            old = states.keys.get(key)
            is_first_change = self._states.setdefault((incarnation, key), old) is old
            states.keys[key] = (wakeup_ms, state)
            if states.idle is not None:
                states.idle.pop(key, None)
                if idle:
                    states.idle[key] = None
        self.pending_bytes += len(state) - (0 if is_first_change or old is None else len(old[1]))
        if old is None:
            self.open_keys += 1
        if wakeup_ms is not None and (old is None or old[0] is None or wakeup_ms < old[0]):
            self._push(states, wakeup_ms, incarnation, key)

    def close(self, incarnation: str, states: KeyStates, key: str) -> None:
        """Close a key, if it is open."""
        if states.single is not None:
            if states.only is None:
                return
            self.touch(incarnation)
            states.only = None
        else:
            old = states.keys.pop(key, None)
            if old is None:
                return
            self._states.setdefault((incarnation, key), old)
            if states.idle is not None:
                states.idle.pop(key, None)
        self.open_keys -= 1

    @staticmethod
    def first_idle(states: KeyStates) -> str | None:
        """The key that has been idle for longest; None if every key has something pending."""
        if states.idle is None:
            states.idle = {key: None for key, (_, data) in states.keys.items() if _is_idle(data)}
        return next(iter(states.idle), None)

    def close_all(self, incarnation: str, states: KeyStates) -> int:
        """Close all keys of an incarnation. Returns their number."""
        self.touch(incarnation)
        count = len(states.keys) + (states.only is not None)
        for key, old in states.keys.items():
            self._states.setdefault((incarnation, key), old)
        states.keys, states.only, states.idle = {}, None, None
        self.open_keys -= count
        return count

    def drop(self, incarnation: str) -> int:
        """Remove an incarnation. Returns the number of its open keys."""
        states = self._incarnations.get(incarnation)
        if states is None:
            return 0
        count = self.close_all(incarnation, states)
        del self._incarnations[incarnation]
        return count

    # -- due keys

    @property
    def next_wakeup(self) -> int | None:
        """When the first key is due, in ms since the epoch; None if there is none."""
        first = self.first_due()
        return None if first is None else first.at_ms

    def due(self, until_ms: int) -> Iterator[Wakeup]:
        """The keys that are due by then, earliest first. Before taking the next one, close this one, `put` it
        with a later wakeup, or `postpone` it."""
        while (first := self.first_due()) is not None and first.at_ms <= until_ms:
            yield first

    def timer_due(self, until_ms: int) -> bool:
        """Whether a key that a tick can make fire is due by then."""
        first = self._timers.first()
        return first is not None and first.at_ms <= until_ms

    def postpone(self, due: Wakeup) -> None:
        """Skip the key that `due` yielded; `put_back` makes it due again."""
        # Do not choose by `timed`, which may have been set after the wakeup was put among the timers.
        (self._timers if self._timers.first() == due else self._closings).take_first()

    def put_back(self, states: KeyStates, due: Wakeup) -> None:
        self._push(states, due.at_ms, due.incarnation, due.key)

    def first_due(self) -> Wakeup | None:
        """The key that is due first, for a tick or to be closed."""
        timer, closing = self._timers.first(), self.first_closing()
        if timer is None or closing is None:
            return timer or closing
        return min(timer, closing)

    def first_closing(self) -> Wakeup | None:
        """The key that is due first among those without timers, which only close."""
        return self._closings.first()

    def _wakeup_of(self, incarnation: str, key: str) -> int | None:
        states = self._incarnations.get(incarnation)
        entry = None if states is None else states.get(key)
        return None if entry is None else entry[0]

    def _push(self, states: KeyStates, wakeup_ms: int, incarnation: str, key: str) -> None:
        (self._timers if states.timed else self._closings).push(wakeup_ms, incarnation, key)

    # -- the commit

    def write(self, outputs: Outputs, partition: int) -> None:
        """Add what this pass changed to the transaction."""
        version = outputs.version
        for discarded in self._discarded:
            outputs.write("state", partition, discarded, None)
        for incarnation, before in self._metas.items():
            states = self._incarnations.get(incarnation)
            if before is None and states is None:
                continue
            meta: bytes | None = None
            if states is not None:
                meta = _encode(
                    (version, states.registry_offset, states.marks, states.closed, states.opened, states.only)
                )
            outputs.write("state", partition, state_key(incarnation, None), meta)
        for (incarnation, key), old in self._states.items():
            states = self._incarnations.get(incarnation)
            entry = None if states is None else states.keys.get(key)
            if states is None or entry is None:
                if old is not None:
                    outputs.write("state", partition, state_key(incarnation, key), None)
                continue
            value = _encode((version, states.registry_offset, *entry))
            outputs.write("state", partition, state_key(incarnation, key), value)

    def committed(self) -> None:
        """The pass is committed: keep its changes."""
        self._metas.clear()
        self._states.clear()
        self._discarded.clear()
        self._open_before, self.pending_bytes = self.open_keys, 0

    def rollback(self) -> None:
        """Undo what the pass changed."""
        for incarnation, before in self._metas.items():
            if before is None:
                self._incarnations.pop(incarnation, None)
                continue
            self._incarnations[incarnation] = before
            if before.only is not None and before.only[0] is not None:
                self._push(before, before.only[0], incarnation, before.single or "")
        for (incarnation, key), entry in self._states.items():
            states = self._incarnations.get(incarnation)
            if states is None:
                continue
            states.idle = None
            if entry is None:
                states.keys.pop(key, None)
                continue
            states.keys[key] = entry
            if entry[0] is not None:  # the heap may not have its entry any more
                self._push(states, entry[0], incarnation, key)
        self._metas.clear()
        self._states.clear()
        self.open_keys, self.pending_bytes = self._open_before, 0


_meta_decoder: Final = msgspec.msgpack.Decoder(MetaRecord)
_state_decoder: Final = msgspec.msgpack.Decoder(StateRecord)
_encode: Final = msgspec.msgpack.Encoder().encode


def _is_idle(data: bytes) -> bool:
    """Whether nothing is pending; False for a state that cannot be read: it must not stop other keys."""
    try:
        return State.decode(data).is_idle
    except ConditionError:
        return False


def _read(decoder: msgspec.msgpack.Decoder[T], form: type[T], value: bytes, record: Record) -> T:
    try:
        found = decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _refuse(form, value, record)
    if not is_read(found.v):
        _refuse(form, value, record)
    return found


def _refuse(form: type[T], value: bytes, record: Record) -> NoReturn:
    decode_msgpack(form, value, str(record))
    raise RecordError(f"{record} holds no valid {form.__name__}.")
