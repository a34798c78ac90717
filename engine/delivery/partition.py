"""One partition of the action topic, as its owner reads it: its open firings, and the offset to commit.

Memory holds a window of the open firings. What does not fit is **left out**: the scope to which it belongs,
a sink or one of its lanes, has an offset from which on nothing is held. When the scope has room again, a
scan reads the partition from there to its end, because an acknowledgement may be anywhere behind the
firing. It also notes the open firings for which there is no room, so that the next scans read only as far
as there is room (`NotedFirings`). The offset to commit is never above the lowest of the scopes' offsets,
nor above the lowest open firing. If another version wrote a record of a sink, the sink is left out from that
record on, until a process that reads that version takes the partition over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ..bus import End, Record, TopicPartition
from ..errors import RecordError, UnknownVersion
from ..log import at, log
from .context import DelivererContext
from .firings import OpenFiring, open_firing, subscription_in
from .open_offsets import OpenOffsets
from .scan import Scan
from .window import Scope, WindowUse

MOST_CHARS: Final = 1000  # of a problem, which is committed with the offset
# Header of an acknowledgement: the transactional id of the deliverer that wrote it.
DELIVERER_HEADER: Final = "interlock_deliverer"


class ActionPartition:
    """The open firings of one partition, found by reading it: pass each of its items to `follow`.

    start: where reading begins, the committed offset. end: the partition's end at that time, with records
    of open transactions. Others may have acknowledged firings below it, so nothing is delivered until the
    partition `is_recovered`. other_owner: the transactional id of another deliverer that has acknowledged
    firings at or after `end`, "" if there is none: with one, this deliverer no longer owns the partition.
    """

    def __init__(self, context: DelivererContext, tp: TopicPartition, start: int, end: int) -> None:
        self.tp, self.position = tp, start
        self._end, self._prefix, self._window = end, context.prefix, WindowUse(context.limits.window)
        self._parts, self._most_noted = context.parts, context.limits.window.noted
        self._noted = self._parts.noted_firings()
        self._is_one_lane = context.sinks.is_one_lane
        self._held: dict[bytes, OpenFiring] = {}
        self.open_offsets = OpenOffsets()
        self._left_out: dict[Scope, int] = {}
        self._scan: Scan | None = None
        # {record key: its newest record, of a version that is not read}
        self._unknown: dict[bytes, _Unknown] = {}
        self._dropped: list[OpenFiring] = []
        self._own_id, self.other_owner = context.bus.transactional_id.encode(), ""
        self._own_header = DELIVERER_HEADER, self._own_id  # of the acknowledgements that this deliverer wrote
        self._unread: set[bytes] = set()  # acknowledged here, and the record is not read yet

    @property
    def is_recovered(self) -> bool:
        """Whether the partition is read up to `end`."""
        return self.position >= self._end

    @property
    def offset_to_commit(self) -> int:
        """Every firing below it is acknowledged."""
        lowest = self.open_offsets.lowest()
        found = self.position if lowest is None else min(lowest, self.position)
        return min(found, *self._left_out.values()) if self._left_out else found

    def offset_to_commit_without(self, firings: Iterable[OpenFiring]) -> int:
        """The offset to commit once these firings are acknowledged."""
        offsets = [firing.record.offset for firing in firings if firing.key in self._held]
        for offset in offsets:
            self.open_offsets.remove(offset)
        found = self.offset_to_commit
        for offset in offsets:
            self.open_offsets.add(offset)
        return found

    @property
    def held(self) -> list[OpenFiring]:
        """The open firings in memory, in the order of the partition, without those of a scan in progress."""
        staged = self._scan.staged if self._scan is not None else {}
        found = [firing for key, firing in self._held.items() if key not in staged]
        return sorted(found, key=lambda firing: firing.record.offset)

    @property
    def left_out(self) -> Mapping[Scope, int]:
        """{scope: offset from which on nothing of it is held}."""
        return self._left_out

    @property
    def problem(self) -> str:
        """Why firings are not delivered until this process is upgraded; "" if all are."""
        if not self._unknown:
            return ""
        first, *others = self._unknown.values()
        more = f" So do firings after {len(others)} other such records." if others else ""
        return f"{first.text[:MOST_CHARS]} Until then the firings of {first.subscription} wait.{more}"

    def get(self, key: bytes) -> OpenFiring | None:
        """The open firing with this record key, if it is held and not part of a scan."""
        if self._scan is not None and key in self._scan.staged:
            return None
        return self._held.get(key)

    # -- reading

    def follow(self, item: Record | End) -> tuple[OpenFiring | None, OpenFiring | None]:
        """Process the next item. Returns (a firing that is open now, one that is acknowledged now)."""
        if isinstance(item, End):
            self.position = max(self.position, item.offset)
            return None, None
        self.position = item.offset + 1
        if self._unknown:
            self._unknown.pop(item.key or b"", None)
        try:
            firing, closes = self._read(item)
        except UnknownVersion as e:
            self._note_writer(item)
            self._hold_back(item, str(e))
            return None, None
        if closes:
            self._note_writer(item)
            self._unread.discard(item.key or b"")
            self._noted.remove(item.key or b"")
            return None, self._close(item.key or b"")
        if firing is None or firing.key in self._held or firing.key in self._unread:
            return None, None
        refused = self.refusal(firing)
        if refused is None:
            self.hold(firing)
            return firing, None
        self._left_out.setdefault(refused, item.offset)
        return None, None

    def acknowledged(self, key: bytes) -> None:
        """Called when this owner has acknowledged a firing: the record will be read later."""
        if self._close(key) is not None:
            self._unread.add(key)

    def take_dropped(self) -> list[OpenFiring]:
        """The firings that were dropped from memory since the last call.

        A record of another version, which may acknowledge them or precede them, was read (see `_hold_back`).
        """
        dropped, self._dropped = self._dropped, []
        return dropped

    def _hold_back(self, record: Record, text: str) -> None:
        """Leave a sink out from this record on, because another version wrote it. text: why it is not read.

        The record may be a firing, which no later one may overtake. Or it may acknowledge a firing that is
        held: then the sink is left out from that firing on. A scan in progress begins again.
        """
        self._abandon_scan()
        key, subscription = record.key or b"", subscription_in(record) or ""
        earlier = self._held.get(key)
        offset = record.offset if earlier is None else earlier.record.offset
        self._unknown[key] = _Unknown(subscription, offset, text)
        sink = subscription, None
        self._left_out[sink] = min(offset, self._left_out.get(sink, offset))
        self._noted.forget(subscription)
        with at(*record.source, record.offset):
            log.error("%s Until then the firings of %s wait.", text, subscription)
        for firing in [*self._held.values()]:
            if firing.subscription == subscription and firing.record.offset >= offset:
                self._close(firing.key)
                self._dropped.append(firing)

    def _begins_unreadable(self, scope: Scope) -> bool:
        """Whether a scan of the scope would be useless: it would begin at or beyond an unreadable record."""
        offset = self._left_out[scope]
        return any(each.subscription == scope[0] and each.offset <= offset for each in self._unknown.values())

    def _close(self, key: bytes) -> OpenFiring | None:
        firing = self._held.pop(key, None)
        if firing is None:
            return None
        self.open_offsets.remove(firing.record.offset)
        self._window.count(firing, -1)
        if self._scan is not None and self._scan.staged.pop(key, None) is not None:
            return None
        return firing

    def leave_out(self, subscription: str) -> list[OpenFiring]:
        """Called when the lanes of a sink change.

        If some of its firings are left out, or a new lane would hold more than its window, leave out all of
        them. A scan then reads them again for the new lanes: a partition that is one lane must have no gap,
        and with a lane for each key no key may fill the window. Returns the firings that are no longer held.
        """
        self._abandon_scan()
        offsets = [at for scope, at in self._left_out.items() if scope[0] == subscription]
        is_over = not self._is_one_lane(subscription) and self._window.has_overfull_lane(subscription)
        if not offsets and not is_over:
            return []
        self._left_out = {s: at for s, at in self._left_out.items() if s[0] != subscription}
        gone = [firing for firing in self._held.values() if firing.subscription == subscription]
        self._left_out[subscription, None] = min(offsets + [firing.record.offset for firing in gone])
        self._noted.forget(subscription)
        for firing in gone:
            self._close(firing.key)
        return gone

    def _read(self, record: Record) -> tuple[OpenFiring | None, bool]:
        """Returns (the record's firing, whether it acknowledges one instead).

        (None, False) for a record that is of no sink, or damaged. Raises UnknownVersion.
        """
        if record.headers and self._own_header in record.headers:
            return None, True  # half of all records are such; nothing of them needs decoding
        subscription = subscription_in(record)
        if record.fault or subscription is None or not subscription.startswith(self._prefix):
            return None, False
        try:
            firing = open_firing(record, subscription)
        except UnknownVersion:
            raise
        except RecordError as e:
            with at(*record.source, record.offset):
                log.error("This firing is not delivered: %s", e)
            return None, False
        return firing, firing is None

    def _note_writer(self, record: Record) -> None:
        writer = dict(record.headers or ()).get(DELIVERER_HEADER)
        if writer is not None and writer != self._own_id and record.offset >= self._end:
            self.other_owner = writer.decode("utf-8", "replace")

    # -- the window

    def refusal(self, firing: OpenFiring) -> Scope | None:
        """The scope that has no room for a firing, or is left out already; None if it can be held."""
        sink, lane = self._scopes(firing)
        for scope in (sink, lane):
            if scope in self._left_out:
                return scope
        return self._window.full(firing, sink, lane)

    def full(self, firing: OpenFiring) -> Scope | None:
        return self._window.full(firing, *self._scopes(firing))

    def _scopes(self, firing: OpenFiring) -> tuple[Scope, Scope]:
        sink = firing.subscription, None
        return sink, sink if self._is_one_lane(firing.subscription) else (firing.subscription, firing.by_key)

    def hold(self, firing: OpenFiring) -> None:
        self._held[firing.key] = firing
        self.open_offsets.add(firing.record.offset)
        self._window.count(firing, 1)

    # -- scans

    def begin_scan(self) -> int | None:
        """Begin to scan the scopes that were left out and have room now.

        Returns the offset to read from, or None if there is no such scope. Pass each record from there to
        `scan`, until `end_scan` returns the firings.
        """
        if not self._left_out or self._scan is not None or not self.is_recovered:
            return None
        scopes = {scope: at for scope, at in self._left_out.items() if self._may_scan(scope)}
        if not scopes:
            return None
        until = {s: covered for s, at in scopes.items() if (covered := self._noted.covered(s)) > at}
        if until:
            self._scan = self._parts.scan({scope: scopes[scope] for scope in until}, until)
        else:
            if len(self._noted) > self._most_noted:  # of other scopes: they are scanned to the end again
                self._noted = self._parts.noted_firings()
            self._scan = self._parts.scan(scopes, most_noted=self._most_noted)
        return min(self._scan.scopes.values())

    def _may_scan(self, scope: Scope) -> bool:
        is_unreadable = bool(self._unknown) and self._begins_unreadable(scope)
        return self._window.has_room(scope, self._left_out) and not is_unreadable

    @property
    def is_scanning(self) -> bool:
        """Whether a scan is in progress: it was neither ended nor abandoned (see `leave_out`)."""
        return self._scan is not None

    @property
    def reads_what_is_noted(self) -> bool:
        """Whether the scan in progress need not read up to the partition's position."""
        return self._scan is not None and self._scan.until is not None

    def scan(self, record: Record) -> None:
        """Process a record of the scan."""
        scan = self._scan
        if scan is None or record.offset >= self.position:
            return
        if scan.until is not None and not self._noted.has(record.key or b"", record.offset):
            return  # not open, or held already: `follow` has read each acknowledgement
        try:
            firing, closes = self._read(record)
        except UnknownVersion:
            unknown = self._unknown.get(record.key or b"")
            if unknown is not None:  # else a later record of its key can be read
                scan.refuse_unreadable(unknown.subscription, unknown.offset)
            return
        if closes:
            scan.noted.pop(record.key or b"", None)
            if (record.key or b"") in scan.staged:
                self._close(record.key or b"")
            return
        if firing is None or firing.key in self._held or firing.key in self._unread:
            return
        unknown = self._unknown.get(firing.key)
        if unknown is not None:  # a later record may say that it is acknowledged
            self._unknown[firing.key] = unknown._replace(offset=min(record.offset, unknown.offset))
            scan.refuse_unreadable(firing.subscription, record.offset)
            return
        scopes = dict.fromkeys(self._scopes(firing))
        if any(scope in scan.refused for scope in scopes):
            scan.note(firing)
            return
        left_out = [scope for scope in scopes if record.offset >= self._left_out.get(scope, self.position)]
        if not left_out or not all(scan.reads(scope, record.offset) for scope in left_out):
            return  # it was held before, or stays left out
        full = self.full(firing)
        if full is not None:
            scan.refuse(full, record.offset)
            scan.note(firing)
            return
        self.hold(firing)
        scan.staged[firing.key] = firing
        if self._noted.remove(firing.key):
            scan.taken.add(firing.key)

    def end_scan(self, position: int) -> list[OpenFiring] | None:
        """Returns the firings that the scan found, in order; None while it must read on.

        position: up to which it has read.
        """
        scan = self._scan
        if scan is None or not scan.is_over(position, self.position):
            return None
        self._scan = None
        for scope in scan.scopes:
            until = self.position if scan.until is None else scan.until[scope]
            if until < self.position:  # what came since is not noted
                self._left_out[scope] = until
            else:
                del self._left_out[scope]
        for scope, offset in scan.refused.items():
            self._left_out[scope] = min(offset, self._left_out.get(scope, offset))
        if scan.until is None:
            self._cover(scan)
        self._noted.uncover_all_but(self._left_out)
        return [*scan.staged.values()]

    def _cover(self, scan: Scan) -> None:
        self._noted.add(scan.noted)
        self._noted.uncover(scan.scopes)
        unreadable = scan.unreadable.union(unknown.subscription for unknown in self._unknown.values())
        readable = [scope for scope in scan.refused if scope[0] not in unreadable]
        self._noted.cover(readable, self.position if scan.noted_to is None else scan.noted_to)

    def _abandon_scan(self) -> None:
        scan, self._scan = self._scan, None
        if scan is None:
            return
        for key, firing in scan.staged.items():
            self._close(key)
            if key in scan.taken:
                self._noted.add({key: firing.record.offset})


class _Unknown(NamedTuple):
    """A record that another version wrote. offset: where its sink is left out from. text: for `problem`."""

    subscription: str
    offset: int
    text: str
