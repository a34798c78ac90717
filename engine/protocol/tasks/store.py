"""The states of one trigger partition: a meta record for each incarnation, and a state for each open key.

States stay in their serial form: a million of them fit into memory, and recovery need not decode them. What a
pass changes can be rolled back until it is committed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias, TypeVar

import msgspec

from ....conditions import State
from ...bus import Record
from ...errors import RecordError
from ...records import CLOCK_KEY, MetaRecord, StateRecord, decode_msgpack, parse_state_key, state_key
from ...records.versions import is_read
from ..outputs import Outputs
from .wakeups import Wakeup, Wakeups

# When the key must be looked at again (ms since the epoch), and the serial form of its State.
Entry: TypeAlias = tuple[int | None, bytes]
T = TypeVar("T", MetaRecord, StateRecord)


@dataclass(slots=True)
class Kept:
    """What is kept for one incarnation.

    `marks`: highest origin judged, by source partition. `opened`: its timers were opened. `single`: the key
    of a subscription that has only one, whose state is `only`; the states of others are in `keys`, in the
    order in which they were opened. `timed`: ticks can make it fire. `resolved`: `single` and `timed` are
    known. `idle`: the keys whose states hold nothing pending, in the order in which they came to that; None
    until it is asked for.
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

    def as_before(self) -> Kept:
        """A copy for a rollback, which shares `keys`: their states are remembered one by one."""
        return Kept(
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

    `load` and `loaded` recover them. After that every change is part of a pass: `write` adds its records to a
    transaction, then `committed` keeps the changes or `rollback` undoes them, in time proportional to them.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        # What this pass changed, with its earlier value; None if there was none.
        self._metas: dict[str, Kept | None] = {}
        self._states: dict[tuple[str, str], Entry | None] = {}
        self._open_before = 0
        self._timers, self._closings = Wakeups(self._wakeup_of), Wakeups(self._wakeup_of)
        self.open_keys = 0
        self.pending_bytes = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def pending(self) -> int:
        """About how many records this pass must write."""
        return len(self._metas) + len(self._states)

    def get(self, incarnation: str) -> Kept | None:
        return self._kept.get(incarnation)

    # -- recovery

    def load(self, record: Record) -> None:
        """Take one record of the state partition, in offset order. Raises RecordError for a malformed one."""
        if record.key == CLOCK_KEY:
            return
        incarnation, key = parse_state_key(record.key or b"")
        value = record.value
        kept = self._kept.get(incarnation)
        if value is None:
            if key is None:
                self._kept.pop(incarnation, None)
            elif kept is not None:
                kept.keys.pop(key, None)
            return
        if key is None:
            meta = _read(_meta_decoder, MetaRecord, value, record)
            if kept is None:
                kept = self._kept[incarnation] = Kept(meta.registry_offset)
            kept.registry_offset, kept.closed, kept.opened = meta.registry_offset, meta.closed, meta.opened
            kept.marks = {sys.intern(source): offset for source, offset in meta.marks.items()}
            kept.only = meta.only
            return
        state = _read(_state_decoder, StateRecord, value, record)
        if kept is None:
            kept = self._kept[incarnation] = Kept(state.registry_offset)
        kept.keys[key] = (state.wakeup_ms, state.state)

    def loaded(self) -> None:
        """End the recovery, after `resolve` for what is registered: order all keys by their wakeups."""
        due: tuple[list[tuple[int, str, str]], ...] = ([], [])
        self.open_keys = 0
        for incarnation, kept in self._kept.items():
            single = None if kept.only is None else {kept.single or "": kept.only}
            entries = (single or kept.keys).items()
            self.open_keys += len(entries)
            due[kept.timed].extend(
                (entry[0], incarnation, key) for key, entry in entries if entry[0] is not None
            )
        self._closings.fill(due[False])
        self._timers.fill(due[True])
        self._open_before = self.open_keys

    @staticmethod
    def resolve(kept: Kept, single: str | None, timed: bool) -> None:
        """Set what only the registration knows. Call it before `loaded`, or before the first state."""
        kept.resolved, kept.single, kept.timed = True, single, timed

    # -- changes

    def touch(self, incarnation: str) -> None:
        """Remember an incarnation for a rollback. Call it before changing anything but the states of keys."""
        if incarnation not in self._metas:
            kept = self._kept.get(incarnation)
            self._metas[incarnation] = None if kept is None else kept.as_before()

    def add(self, incarnation: str, kept: Kept) -> None:
        """Add a new incarnation."""
        self.touch(incarnation)
        self._kept[incarnation] = kept

    def put(
        self,
        incarnation: str,
        kept: Kept,
        key: str,
        wakeup_ms: int | None,
        state: bytes,
        *,
        idle: bool = False,
    ) -> None:
        """Set the state of a key. idle: its `State.is_idle`."""
        if kept.single is not None:
            old = kept.only
            self.touch(incarnation)
            kept.only = (wakeup_ms, state)
            before = self._metas[incarnation]
            first = old is (None if before is None else before.only)
        else:
            old = kept.keys.get(key)
            first = self._states.setdefault((incarnation, key), old) is old
            kept.keys[key] = (wakeup_ms, state)
            if kept.idle is not None:
                kept.idle.pop(key, None)
                if idle:
                    kept.idle[key] = None
        self.pending_bytes += len(state) - (0 if first or old is None else len(old[1]))
        if old is None:
            self.open_keys += 1
        if wakeup_ms is not None and (old is None or old[0] is None or wakeup_ms < old[0]):
            self._push(kept, wakeup_ms, incarnation, key)

    def close(self, incarnation: str, kept: Kept, key: str) -> None:
        """Close a key, if it is open."""
        if kept.single is not None:
            if kept.only is None:
                return
            self.touch(incarnation)
            kept.only = None
        else:
            old = kept.keys.pop(key, None)
            if old is None:
                return
            self._states.setdefault((incarnation, key), old)
            if kept.idle is not None:
                kept.idle.pop(key, None)
        self.open_keys -= 1

    @staticmethod
    def first_idle(kept: Kept) -> str | None:
        """The key that has held nothing pending for longest; None if every key does hold something."""
        if kept.idle is None:
            kept.idle = {key: None for key, (_, data) in kept.keys.items() if State.decode(data).is_idle}
        return next(iter(kept.idle), None)

    def close_all(self, incarnation: str, kept: Kept) -> int:
        """Close all keys of an incarnation. Gives their number."""
        self.touch(incarnation)
        count = len(kept.keys) + (kept.only is not None)
        for key, old in kept.keys.items():
            self._states.setdefault((incarnation, key), old)
        kept.keys, kept.only, kept.idle = {}, None, None
        self.open_keys -= count
        return count

    def drop(self, incarnation: str) -> int:
        """Remove an incarnation. Gives the number of its open keys."""
        kept = self._kept.get(incarnation)
        if kept is None:
            return 0
        count = self.close_all(incarnation, kept)
        del self._kept[incarnation]
        return count

    # -- what is due

    @property
    def next_wakeup(self) -> int | None:
        """When the first key must be looked at, ms since the epoch; None if there is none."""
        first = self.first_due()
        return None if first is None else first.at_ms

    def due(self, until_ms: int) -> Iterator[Wakeup]:
        """The keys that are due by then, earliest first. Close each, `put` it with a later wakeup, or
        `set_back` it, before the next one."""
        while (first := self.first_due()) is not None and first.at_ms <= until_ms:
            yield first

    def timer_due(self, until_ms: int) -> bool:
        """Whether a key is due by then that can fire by a tick."""
        first = self._timers.first()
        return first is not None and first.at_ms <= until_ms

    def set_back(self, kept: Kept) -> None:
        """Skip the key that `due` gave, for now; `put_back` makes it due again."""
        (self._timers if kept.timed else self._closings).take_first()

    def put_back(self, kept: Kept, due: Wakeup) -> None:
        self._push(kept, due.at_ms, due.incarnation, due.key)

    def first_due(self) -> Wakeup | None:
        """The key that must be looked at first, because of a timer or to close it."""
        timer, closing = self._timers.first(), self.first_closing()
        if timer is None or closing is None:
            return timer or closing
        return min(timer, closing)

    def first_closing(self) -> Wakeup | None:
        """The key that must be looked at first among those without timers: it only closes."""
        return self._closings.first()

    def _wakeup_of(self, incarnation: str, key: str) -> int | None:
        kept = self._kept.get(incarnation)
        entry = None if kept is None else kept.get(key)
        return None if entry is None else entry[0]

    def _push(self, kept: Kept, wakeup_ms: int, incarnation: str, key: str) -> None:
        (self._timers if kept.timed else self._closings).push(wakeup_ms, incarnation, key)

    # -- the commit

    def write(self, outputs: Outputs, partition: int) -> None:
        """Add what this pass changed to the transaction, in the version of the outputs."""
        version = outputs.version
        for incarnation, before in self._metas.items():
            kept = self._kept.get(incarnation)
            if before is None and kept is None:
                continue
            meta: bytes | None = None
            if kept is not None:
                meta = _encode(
                    (version, kept.registry_offset, kept.marks, kept.closed, kept.opened, kept.only)
                )
            outputs.write("state", partition, state_key(incarnation, None), meta)
        for (incarnation, key), old in self._states.items():
            kept = self._kept.get(incarnation)
            entry = None if kept is None else kept.keys.get(key)
            if kept is None or entry is None:
                if old is not None:
                    outputs.write("state", partition, state_key(incarnation, key), None)
                continue
            value = _encode((version, kept.registry_offset, *entry))
            outputs.write("state", partition, state_key(incarnation, key), value)

    def committed(self) -> None:
        """The pass is committed: keep its changes."""
        self._metas.clear()
        self._states.clear()
        self._open_before, self.pending_bytes = self.open_keys, 0

    def rollback(self) -> None:
        """Undo what the pass changed."""
        for incarnation, before in self._metas.items():
            if before is None:
                self._kept.pop(incarnation, None)
                continue
            self._kept[incarnation] = before
            if before.only is not None and before.only[0] is not None:
                self._push(before, before.only[0], incarnation, before.single or "")
        for (incarnation, key), entry in self._states.items():
            kept = self._kept.get(incarnation)
            if kept is None:
                continue
            kept.idle = None
            if entry is None:
                kept.keys.pop(key, None)
                continue
            kept.keys[key] = entry
            if entry[0] is not None:  # the heap may not have its entry any more
                self._push(kept, entry[0], incarnation, key)
        self._metas.clear()
        self._states.clear()
        self.open_keys, self.pending_bytes = self._open_before, 0


_meta_decoder: Final = msgspec.msgpack.Decoder(MetaRecord)
_state_decoder: Final = msgspec.msgpack.Decoder(StateRecord)
_encode: Final = msgspec.msgpack.Encoder().encode


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
