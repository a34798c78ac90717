"""One node of an explanation: its events, its notes, and held events that do not count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from .wording import about, given, moment, printed, some, when

# Shown for one node; `have` and `held` count all.
MAX_EVENTS: Final = 20
_INDENT_CHARS: Final = 3
_MAX_TITLE_CHARS: Final = 160
_MAX_TEXT_CHARS: Final = 1200  # 31 days or 24 runs by name


class EventRef(NamedTuple):
    """An event in an explanation, without its data; what is not known is None.

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
    """A fact about a node. `what` names it and decides which other fields are given:

    expires (at_ms) | expiry_not_armed | fires (at_ms): an `absent` | not_armed: an `absent` | not_opened:
    an `absent` armed by the start of the wait, in a state that `opened()` did not make | settles (at_ms):
    a `.quiet()` | slides_out (at_ms, label): events later than this are no longer in one window with that
    event | held_until (at_ms, label): the last tick at which it is held | period (from_ms, at_ms): the
    period shown, without a bound that it does not have | opened (at_ms, label) | over (at_ms): when a
    window with `~` is evaluated | other_windows (number): open and not refuted | refuted_windows
    (number): other refuted ones | no_window | refuted (at_ms): a negated event's time | next_step
    (number): from 1 | recorded_apart (by_ms): stamps too far apart (I6, R4) | same_value (number, text):
    more held events whose values at these paths are already counted | values (number, text): how many
    different values count, and these, sorted, while more are needed | values_missing (number, text): how
    many count, and those still needed, if the period of the key says which there are | value_taken (text):
    its events have only values that others take | full (number, text): how many events it holds, which is
    the most, and whether it drops the earliest or the latest of more (H2, H3) | in_order: matches wait for a
    later tick | unusable (text): the condition cannot be waited on.
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

    def text_at(self, now_ms: int) -> str:
        """The note as text."""
        if self.what in _DUE and self.at_ms is not None and self.at_ms <= now_ms:
            return f"due since {when(self.at_ms, now_ms)}, its tick has not come yet"
        if self.what == "period":
            begins = "" if self.from_ms is None else f" from {moment(self.from_ms)}"
            ends = "" if self.at_ms is None else f" until {when(self.at_ms, now_ms)}"
            return f"period{begins}{ends}"
        return _TEXTS.get(self.what, self.what).format(
            at="" if self.at_ms is None else when(self.at_ms, now_ms),
            by="" if self.by_ms is None else about(self.by_ms),
            label="" if self.label is None else printed(self.label),
            number=self.number,
            text="" if self.text is None else printed(self.text, _MAX_TEXT_CHARS),
        )


_TEXTS: Final = {
    "expires": "at {at}",
    "expiry_not_armed": "its time starts with the first match",
    "fires": "fires at {at} unless an event comes",
    "not_armed": "watches from the next event on",
    "not_opened": "not watched: make the first state of the wait with opened()",
    "settles": "met at {at} unless a match comes",
    "slides_out": "{label} leaves the window at {at}",
    "held_until": "{label} is held until {at}",
    "opened": "opened by {label} at {at}",
    "over": "ends at {at}",
    "other_windows": "{number} more open",
    "refuted_windows": "a negated event came in {number} more",
    "no_window": "no event has opened a window",
    "refuted": "an event came at {at}",
    "next_step": "step {number} is next",
    "recorded_apart": "recorded too far apart, by {by}",
    "same_value": "{number} more with the same {text}",
    "values": "values so far: {text}",
    "values_missing": "values missing: {text}",
    "value_taken": "each {text} of its events counts for another matcher",
    "full": "holds {number} events, the most it can: of more it drops the {text}",
    "in_order": "matches wait for a tick later than their stamp",
    "unusable": "{text}",
}


_DUE: Final = ("expires", "fires", "settles", "over")


class Apart(NamedTuple):
    """An event that a matcher holds, but that does not count in the scope of the matcher.

    why: "window", "period": its time is outside the one shown; "sequence": it is earlier than the previous
    step; "taken": it takes part in another step of the sequence; "recorded": its stamp is too far from the
    others. by_ms: by how much; None if that does not apply.
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
    "taken": "counts for another step",
    "recorded": "is recorded too far from the others",
}


@dataclass(frozen=True)
class Explained:
    """One node of the condition.

    kind: event, count, all, any, at_least, sequence, within, reset, not, absent, quiet, expires, ordered.
    title: what it requires, in one line; labels: of its matchers, if they have no nodes below. met: for
    `not`, no negated event has come so far. needed: False if the node around it is met without it. have,
    need: the number of events, met operands or met steps. events: at most MAX_EVENTS that take part or count;
    held: how many its matchers hold; apart: held ones that do not count here.
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
    details = [*_counted_parts(node), *(note.text_at(now_ms) for note in node.notes)]
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
