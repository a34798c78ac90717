"""A random log of firings, read by one partition as its owner reads it: followed, scanned and acknowledged.

Firings of two sinks are written, some of them twice. Some are acknowledged by somebody else. Some have a
record of another version until one that can be read follows. Lanes change, compaction removes old records.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from interlock.engine.bus import End, Record
from interlock.engine.delivery.firings import OpenFiring, subscription_of
from interlock.engine.delivery.noted_firings import NotedFirings
from interlock.engine.delivery.scan import Scan
from interlock.engine.delivery.window import FiringWindow

from tests.unit.engine.delivery.firings import SINK, TP, record
from tests.unit.engine.delivery.test_partition import partition

STEPS: Final = 200  # of writing; then everything is read and delivered
DRAIN_STEPS: Final = 3_000
OTHER_SINK: Final = subscription_of("airflow", "t")
LATER: Final = 99  # a version that is not read
Name = tuple[str, str]  # (subscription, name of a firing)


def name_of(firing: OpenFiring) -> Name:
    return firing.subscription, firing.key.decode().partition("\0")[2]


class RandomLog:
    """Plays one log: `play`, then look at `problems` and `seen`."""

    def __init__(
        self, seed: int, *, noted_firings: type[NotedFirings] = NotedFirings, scan: type[Scan] = Scan
    ) -> None:
        self._rng = rng = Random(seed)
        self._one_lane = dict.fromkeys((SINK, OTHER_SINK), False)
        self._made = partition(
            window=FiringWindow(
                sink=rng.choice((3, 6)), lane=rng.choice((1, 2)), noted=rng.choice((0, 3, 10, 100))
            ),
            one_lane=self._one_lane.__getitem__,
            noted_firings=noted_firings,
            scan=scan,
        )
        self._log: dict[int, Record] = {}  # by offset, without what compaction has removed
        self._end = self._position = 0
        self._scanned: int | None = None
        self._keys: dict[Name, str] = {}
        self._written_at: dict[Name, int] = {}  # the newest record
        self._open: dict[Name, int] = {}  # {firing: offset of its first record}
        self._acked_at: dict[Name, int] = {}
        self._unread: dict[Name, None] = {}  # their newest record is of another version
        self._waiting: list[Name] = []  # delivered, as it were, and not acknowledged yet
        self._given: Counter[Name] = Counter()
        self._compacts = rng.random() < 0.5
        self.problems: list[str] = []
        self.seen: Counter[str] = Counter()

    def play(self) -> RandomLog:
        for step in range(STEPS + DRAIN_STEPS):
            is_written = step < STEPS
            if not is_written and not self._open and self._position == self._end and self._scanned is None:
                break
            if is_written:
                self._write_some()
            self._resolve(always=not is_written)
            self._follow(self._rng.randrange(4) if is_written else 50)
            if is_written and self._rng.random() < 0.02:
                self._change_lanes()
            if self._rng.random() < (0.35 if is_written else 0.9):
                self._acknowledge_one()
            self._scan(self._rng.choice((1, 3, 30)) if is_written else 500)
            self._check_offset()
        if self._open:
            self.problems.append(f"never given, or not acknowledged: {[*self._open][:3]}")
        self.problems += [f"given twice: {name}" for name, count in self._given.items() if count > 1]
        return self

    # -- what others do

    def _write(self, name: Name, **members: object) -> int:
        written = record(self._end, name[1], self._keys[name], subscription=name[0], **members)
        self._log[self._end], self._written_at[name] = written, self._end
        self._end += 1
        return written.offset

    def _write_some(self) -> None:
        rng, open_ = self._rng, self._open
        if rng.random() < 0.5:
            for _ in range(rng.choice((1, 1, 1, 8))):
                name = rng.choice((SINK, SINK, OTHER_SINK)), f"f{len(self._keys)}"
                self._keys[name] = rng.choice("aaabcd")
                open_[name] = self._write(name)
        if open_ and rng.random() < 0.1:
            self._acknowledge(rng.choice([*open_]))
            self.seen["acknowledged by somebody else"] += 1
        # Together with compaction a second record makes the order a matter of opinion.
        if open_ and not self._compacts and rng.random() < 0.05:
            name = rng.choice([*open_])
            if name not in self._unread:
                self._write(name)
                self.seen["written twice"] += 1
        if open_ and rng.random() < 0.03:
            name = rng.choice([*open_])
            self._unread[name] = None
            self._write(name, v=LATER, state=rng.choice(("fired", "acked")))
            self.seen["of another version"] += 1
        if self._compacts and rng.random() < 0.03:
            newest, below = set(self._written_at.values()), rng.randrange(self._end + 1)
            self._log = {at: each for at, each in self._log.items() if at >= below or at in newest}
            self.seen["compacted"] += 1

    def _acknowledge(self, name: Name) -> None:
        self._acked_at[name] = self._write(name, state="acked")
        del self._open[name]
        self._unread.pop(name, None)

    def _resolve(self, *, always: bool) -> None:
        """A record that can be read follows one of another version."""
        if self._unread and (always or self._rng.random() < 0.15):
            self._acknowledge(self._rng.choice([*self._unread]))

    # -- what the owner of the partition does

    def _follow(self, records: int) -> None:
        for _ in range(min(records, self._end - self._position)):
            item = self._log.get(self._position, End(TP, self._position + 1))
            self._position += 1
            opened, closed = self._made.follow(item)
            self._take_back(self._made.take_dropped())
            if closed is not None and name_of(closed) in self._waiting:
                self._waiting.remove(name_of(closed))
            self._give([] if opened is None else [opened])

    def _change_lanes(self) -> None:
        sink = self._rng.choice((SINK, OTHER_SINK))
        self._one_lane[sink] = not self._one_lane[sink]
        self._take_back(self._made.leave_out(sink))
        self.seen["lanes changed"] += 1

    def _take_back(self, firings: list[OpenFiring]) -> None:
        """They are no longer held, and will be given again."""
        for name in map(name_of, firings):
            self._given[name] -= 1
            if name in self._waiting:
                self._waiting.remove(name)

    def _acknowledge_one(self) -> None:
        """The owner acknowledges what it was given first, if it has read that firing's newest record."""
        if not self._waiting:
            return
        name = self._waiting.pop(0)
        if name not in self._open:
            return
        if self._written_at[name] >= self._position:
            self._waiting.append(name)
            return
        key = "\0".join(name).encode()
        if self._made.get(key) is None:
            self.problems.append(f"given and not held: {name}")
        self._acknowledge(name)
        self._made.acknowledged(key)

    def _scan(self, records: int) -> None:
        if self._scanned is None or not self._made.is_scanning:
            self._scanned = self._made.begin_scan()
            if self._scanned is not None:
                self.seen["short scan" if self._made.reads_what_is_noted else "full scan"] += 1
        elif self._scanned is not None:
            for _ in range(min(records, self._end - self._scanned)):
                if self._scanned in self._log:
                    self._made.scan(self._log[self._scanned])
                self._scanned += 1
        if self._scanned is not None and self._made.is_scanning:
            found = self._made.end_scan(self._scanned)
            if found is not None:
                self._scanned = None
                self._give(found)

    # -- what must hold

    def _give(self, firings: list[OpenFiring]) -> None:
        for firing in firings:
            name = name_of(firing)
            if self._acked_at.get(name, self._end) < self._position:
                self.problems.append(f"given although it was acknowledged: {name}")
            self._given[name] += 1
            self._waiting.append(name)
            self.problems += [
                f"{name} is given before {earlier}"
                for earlier, offset in self._open.items()
                if offset < min(self._open.get(name, 0), self._position)
                and earlier[0] == name[0]
                and (self._one_lane[name[0]] or self._keys[earlier] == self._keys[name])
                and earlier not in self._waiting
                and earlier not in self._unread
            ]

    def _check_offset(self) -> None:
        lowest = min((self._written_at[name] for name in self._open), default=self._end)
        if self._made.offset_to_commit > lowest:
            self.problems.append(f"offset {self._made.offset_to_commit} is above the open firing {lowest}")
