"""One node of an explanation, and what is told of it: events, notes, events that are kept out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from .wording import about, given, moment, printed, some, when

# Of one node; `have` and `held` tell how many there are.
MAX_EVENTS: Final = 20
_INDENT_CHARS: Final = 3
_MAX_TITLE_CHARS: Final = 160
_MAX_TEXT_CHARS: Final = 300


class EventRef(NamedTuple):
    """An event as an explanation names it, without its data; what is not known is None.

    time_ms: its time (T1), timestamp_ms: its stamp (T2), both ms since the epoch.
    """

    id: str
    source: str
    type: str | None = None
    time_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        return given(self._asdict())

    def __str__(self) -> str:
        position = ""
        if self.topic is not None and self.partition is not None and self.offset is not None:
            position = f" ({printed(self.topic)}[{self.partition}]@{self.offset})"
        time = "" if self.time_ms is None else f" at {moment(self.time_ms)}"
        return f"{printed(self.id)} of {printed(self.source)}{time}{position}"


class Note(NamedTuple):
    """One fact about a node beyond met or not; `what` names it, and which of the others are given.

    expires (at_ms) | expiry_not_armed | fires (at_ms): an `absent` | not_armed: an `absent` |
    not_opened: one that is armed by the subscription, in a state that none has begun |
    settles (at_ms) | slides_out (at_ms, label): from then on, by events' times, nothing is together with that
    part | held_until (at_ms, label): the last tick at which it is held | period (from_ms, at_ms): the period
    looked at; a bound that there is none of is left out | opened (at_ms, label) | over (at_ms): when a window
    with `~` is judged | other_windows (number): open and not refuted | refuted_windows (number): others that
    are | no_window | refuted (at_ms): a negated event's time | next_step (number): from 1 |
    recorded_apart (by_ms): stamps too far apart (I6, R4) | in_order: matches wait for a later tick |
    unusable (text): the condition cannot be waited on.
    """

    what: str
    at_ms: int | None = None
    from_ms: int | None = None
    by_ms: int | None = None
    label: str | None = None
    number: int | None = None
    text: str | None = None

    def to_json(self) -> dict[str, object]:
        return given(self._asdict())

    def said(self, now_ms: int) -> str:
        """The note as text."""
        if self.what in _DUE and self.at_ms is not None and self.at_ms <= now_ms:
            return f"due since {when(self.at_ms, now_ms)}, its tick is still to come"
        if self.what == "period":
            begins = "" if self.from_ms is None else f" from {moment(self.from_ms)}"
            ends = "" if self.at_ms is None else f" until {when(self.at_ms, now_ms)}"
            return f"period{begins}{ends}"
        return _SAID.get(self.what, self.what).format(
            at="" if self.at_ms is None else when(self.at_ms, now_ms),
            by="" if self.by_ms is None else about(self.by_ms),
            label="" if self.label is None else printed(self.label),
            number=self.number,
            text="" if self.text is None else printed(self.text, _MAX_TEXT_CHARS),
        )


_SAID: Final = {
    "expires": "at {at}",
    "expiry_not_armed": "its time runs from the first match on",
    "fires": "fires at {at} unless one comes",
    "not_armed": "watches from the next event on",
    "not_opened": "not watched: this state was never opened, opened() begins one with the wait",
    "settles": "settles at {at} unless something comes",
    "slides_out": "{label} slides out at {at}",
    "held_until": "{label} is held until {at}",
    "opened": "opened by {label} at {at}",
    "over": "is over at {at}",
    "other_windows": "{number} more open",
    "refuted_windows": "{number} refuted",
    "no_window": "no event has opened one",
    "refuted": "one came at {at}",
    "next_step": "step {number} is next",
    "recorded_apart": "recorded too far apart, by {by}",
    "in_order": "matches wait for a tick later than their stamp",
    "unusable": "{text}",
}


_DUE: Final = ("expires", "fires", "settles", "over")


class Apart(NamedTuple):
    """An event that its matcher holds and that does not count where the matcher stands.

    why: "window": its time is outside the window looked at; "period": likewise; "sequence": it is earlier
    than the step before; "taken": it has another place of the sequence; "recorded": its stamp is too far from
    the others'. by_ms: by how much; None where that says nothing.
    """

    event: EventRef
    why: str
    by_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        return {"event": self.event.to_json(), "why": self.why, **given({"by_ms": self.by_ms})}

    def __str__(self) -> str:
        by = "" if self.by_ms is None else f" by {about(self.by_ms)}"
        return f"{self.event} {_APART.get(self.why, self.why)}{by}"


_APART: Final = {
    "window": "is outside the window",
    "period": "is outside the period",
    "sequence": "is too early",
    "taken": "has another place",
    "recorded": "is recorded too far from the others",
}


@dataclass(frozen=True)
class Explained:
    """One node of the condition.

    kind: event, count, all, any, at_least, sequence, within, reset, not, absent, quiet, expires, ordered.
    title: what it asks for, one line; labels: of the matchers that it names itself, which have no nodes
    below. met: for `not`: nothing refutes so far. needed: False where what is around it is met without.
    have, need: events of a matcher, operands that are met, steps that are placed. events: those that meet it,
    or count towards it, at most MAX_EVENTS; held: how many its matchers hold. apart: held ones that do not
    count here.
    """

    kind: str
    title: str
    met: bool
    needed: bool = True
    labels: tuple[str, ...] = ()
    have: int | None = None
    need: int | None = None
    events: tuple[EventRef, ...] = ()
    held: int | None = None
    apart: tuple[Apart, ...] = ()
    notes: tuple[Note, ...] = ()
    of: tuple[Explained, ...] = ()

    def to_json(self) -> dict[str, object]:
        result: dict[str, object] = {"kind": self.kind, "title": self.title, "met": self.met}
        result["needed"] = self.needed
        result |= given({"have": self.have, "need": self.need, "held": self.held})
        lists: dict[str, list[object]] = {
            "labels": list(self.labels),
            "events": [event.to_json() for event in self.events],
            "apart": [apart.to_json() for apart in self.apart],
            "notes": [note.to_json() for note in self.notes],
            "of": [node.to_json() for node in self.of],
        }
        return result | {name: values for name, values in lists.items() if values}

    def missing(self) -> Iterator[str]:
        """The labels of the matchers below that are needed and not met."""
        if self.met or not self.needed:
            return
        if self.kind in ("event", "count"):
            yield from self.labels
        for node in self.of:
            yield from node.missing()


def lines_of(node: Explained, now_ms: int, first: str = "", rest: str = "") -> Iterator[str]:
    """The text of a node and those below it, one line each."""
    details = [*_counted_parts(node), *(note.said(now_ms) for note in node.notes)]
    mark = "[x]" if node.met else "[ ]" if node.needed else "[-]"
    title = printed(node.title, _MAX_TITLE_CHARS)
    yield f"{first}{mark} {title}{': ' if details else ''}{'; '.join(details)}"
    for number, below in enumerate(node.of):
        last = number == len(node.of) - 1
        rail = rest + (" " if last else "|").ljust(_INDENT_CHARS)
        yield from lines_of(below, now_ms, rest + ("`- " if last else "|- "), rail)


def _counted_parts(node: Explained) -> Iterator[str]:
    if node.need is not None and node.need > 1:
        yield f"{node.have} of {node.need}"
    if node.events:
        yield some(node.events, len(node.events) if node.have is None or node.of else node.have)
    elif node.kind == "event" and not node.met and not node.apart:
        yield "nothing" if node.needed else "not needed"
    if node.apart:
        yield f"{some(node.apart, len(node.apart))}"
