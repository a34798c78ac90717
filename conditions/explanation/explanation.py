"""The explanation: what a state holds for each node of a condition, as data and as text. Plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .near_miss import NearMisses
from .node import EventRef, Explained, lines_of
from .wording import counted, given, moment, printed, some, when

VERSION: Final = 1


@dataclass(frozen=True)
class Explanation:
    """What a state holds for its condition at a time. `str()` gives a text with a line for each node.

    met: the condition is met; never so for a state that `step` returned (S1). missing: the labels that an
    expiry would name (X8). due_ms: the next time at which a timer fires or expires. waiting: at most
    MAX_EVENTS of waiting_count matches that wait until waiting_until_ms, a due time (W1), or, if that is
    None, for a tick later than their stamp (W5).
    near_misses: for each missing matcher of the tree, among the given events. looked_at: how many events were
    searched; complete: False if a limit ended the search; unreadable: how many were not usable events.
    """

    now_ms: int
    key: str | None
    met: bool
    missing: tuple[str, ...]
    tree: Explained
    due_ms: int | None = None
    waiting: tuple[EventRef, ...] = ()
    waiting_count: int = 0
    waiting_until_ms: int | None = None
    dropped: int = 0
    near_misses: tuple[NearMisses, ...] = ()
    looked_at: int = 0
    complete: bool = True
    unreadable: int = 0

    def to_json(self) -> dict[str, object]:
        """Strict JSON values, without members that are None and without empty lists of nodes.

        {"v": 1, "now_ms", "key"?, "due_ms"?, "met", "missing": [label], "dropped",
        "waiting": {"count", "until_ms"?, "events": [event]}, "tree": node,
        "near_misses": [{"label", "errors", "other_keys", "counted", "misses": [miss]}],
        "looked_at", "complete", "unreadable"}. An event is an EventRef, a node an Explained, a miss a
        NearMiss, by the names there.
        """
        return {
            "v": VERSION,
            "now_ms": self.now_ms,
            **given({"key": self.key, "due_ms": self.due_ms}),
            "met": self.met,
            "missing": list(self.missing),
            "dropped": self.dropped,
            "waiting": {
                "count": self.waiting_count,
                **given({"until_ms": self.waiting_until_ms}),
                "events": [event.to_json() for event in self.waiting],
            },
            "tree": self.tree.to_json(),
            "near_misses": [each.to_json() for each in self.near_misses],
            "looked_at": self.looked_at,
            "complete": self.complete,
            "unreadable": self.unreadable,
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        key = "" if self.key is None else f", key {printed(self.key)}"
        missing = f": {', '.join(map(printed, self.missing))} missing" if self.missing else ""
        yield f"{'met' if self.met else 'not met'}{missing}{key}, at {moment(self.now_ms)}"
        yield from lines_of(self.tree, self.now_ms)
        if self.waiting_count:
            until = self.waiting_until_ms
            end = "a later tick" if until is None else when(until, self.now_ms)
            waiting = "1 match waits" if self.waiting_count == 1 else f"{self.waiting_count} matches wait"
            yield f"{waiting} until {end}: {some(self.waiting, self.waiting_count)}"
        if self.dropped:
            yield f"{counted(self.dropped, 'event', 'events')} dropped at a limit; they do not count"
        for each in self.near_misses if self.looked_at else ():
            errors = f" ({each.errors} could not be evaluated)" if each.errors else ""
            yield f"near misses of {printed(each.label)}{errors}:" + (
                "" if each.misses or each.other_keys or each.counted else " none"
            )
            yield from (f"  - {miss}" for miss in each.misses)
            if each.counted:
                more = " more" if any(miss.has_counted for miss in each.misses) else ""
                yield f"  - {each.counted}{more} that counted before"
            if each.other_keys:
                more = " more" if any(miss.has_another_key for miss in each.misses) else ""
                yield f"  - {each.other_keys}{more} of other keys"
        if self.looked_at or self.unreadable or not self.complete:
            rest = "" if self.complete else ", and there are more"
            bad = f", {self.unreadable} unreadable" if self.unreadable else ""
            yield f"{counted(self.looked_at, 'event', 'events')} searched{bad}{rest}"
