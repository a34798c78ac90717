"""Timelines: what a condition does with a few events, in one line, as in docs/use/conditions.md.

    (a & b).within("1h"):   a1(0:00)  a2(1:40)  b1(0:30, comes last) ! a1 b1      {a2}

Inputs are two spaces apart, in order of arrival; `docs/use/conditions.md` says what they mean.
An invalid timeline raises NotUnderstood, so that none is skipped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import interlock.conditions
import msgspec
import pytest
from interlock.conditions import (
    EMPTY,
    Cancel,
    Condition,
    Firing,
    Match,
    State,
    Tick,
    event,
    opened,
    step,  # fmt: skip
)
from interlock.conditions.nodes.paths import counting_matchers
from interlock.events import Event

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LABELS = "abcdefgh"
# What the text of a condition may name: all that is public, and a matcher for each letter.
NAMES = {name: getattr(interlock.conditions, name) for name in interlock.conditions.__all__} | {
    letter: event(letter, label=letter) for letter in LABELS
}
SECOND = timedelta(seconds=1)

_CLOCK = re.compile(r"(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{3}))?)?")
_EVENT = re.compile(r"([a-z]\d+)(?: ?\((.*)\))?")
_CALL = re.compile(r"(tick|opened)\((.*)\)")
_FIRING = re.compile(
    r"(?P<expired> expired)?(?P<ids>(?: [a-z]\d+)*)(?: as (?P<labels>[a-z](?: [a-z])*))?"
    r"(?:, missing (?P<missing>[a-z](?: [a-z])*))?(?: at (?P<at>.+))?"
)


class NotUnderstood(Exception):
    """A timeline that does not follow the notation."""


@dataclass(frozen=True)
class Fired:
    """A firing in a timeline; labels and at are None if not given."""

    outcome: str
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    at: datetime | None = None

    def agrees(self, firing: Firing) -> bool:
        return (
            (self.outcome, self.ids, self.missing)
            == (firing.outcome, tuple(part.match.event.id for part in firing.taking_part), firing.missing)
            and (self.labels is None or self.labels == tuple(part.label for part in firing.taking_part))
            and (self.at is None or millis(self.at) == firing.timer_ms)
        )


@dataclass
class Entry:
    """One input and the firings expected after it."""

    text: str
    given: Match | Tick | Cancel | State
    waits: bool = False
    fired: list[Fired] = field(default_factory=list)


@dataclass
class Timeline:
    """A parsed timeline."""

    condition: Condition
    entries: list[Entry]
    pending: tuple[str, ...]

    def check(self) -> State:
        """The state at the end; AssertionError if `step` differs after any input."""
        state = EMPTY
        for entry in self.entries:
            if isinstance(entry.given, State):
                state = entry.given
                continue
            state = State.decode(state.encode())
            state, firings = step(self.condition, state, entry.given)
            fired = [text_of(firing) for firing in firings]
            assert len(firings) == len(entry.fired), (entry.text, fired)
            for wanted, firing in zip(entry.fired, firings, strict=True):
                assert wanted.agrees(firing), (entry.text, fired)
            if isinstance(entry.given, Match):
                assert (entry.given in state.waiting) is entry.waits, (entry.text, "waits")
        assert held(state) == self.pending
        return state


def timeline(text: str) -> State:
    """Run a timeline, without its case id; the state at its end."""
    return parsed(text).check()


def cases(block: str) -> list[Any]:
    """The timelines of a block as test parameters with case ids; an indented line continues the previous."""
    lines: list[str] = []
    for line in textwrap.dedent(block).strip().splitlines():
        if line.startswith("  "):
            lines[-1] += "  " + line.strip()
        else:
            lines.append(line.strip())
    split = [line.partition(" ") for line in lines]
    return [pytest.param(text.strip(), id=f"{case}-{number}") for number, (case, _, text) in enumerate(split)]


def parsed(text: str) -> Timeline:
    """The timeline in a line of text."""
    source, colon, rest = text.partition(":  ")
    if not colon:
        raise NotUnderstood(f"no condition and colon in {text!r}")
    condition = eval(source, dict(NAMES))
    chunks = [chunk for chunk in re.split(r"\s{2,}", rest.strip()) if chunk]
    if not chunks or not re.fullmatch(r"\{([a-z]\d+( [a-z]\d+)*)?\}", chunks[-1]):
        raise NotUnderstood(f"no {{}} with what is pending at the end of {text!r}")
    reader = _Reader(condition)
    for chunk in chunks[:-1]:
        reader.read(chunk)
    return Timeline(condition, reader.entries, tuple(sorted(chunks[-1][1:-1].split())))


def held(state: State) -> tuple[str, ...]:
    """The ids of held and waiting events of a state, sorted."""
    return tuple(sorted({match.event.id for match in (*state.matches, *state.waiting)}))


def text_of(firing: Firing) -> str:
    """The text of a firing in a timeline, with all details."""
    expired = "expired " if firing.outcome == "expired" else ""
    ids = " ".join(part.match.event.id for part in firing.taking_part)
    labels = " ".join(part.label for part in firing.taking_part)
    missing = f", missing {' '.join(firing.missing)}" if firing.missing else ""
    at = ""
    if firing.timer_ms is not None:
        moment = MONDAY + timedelta(milliseconds=firing.timer_ms - millis(MONDAY))
        at = f" at {moment:%a %H:%M:%S.%f}"
    return f"! {expired}{ids} as {labels}{missing}{at}"


def millis(moment: datetime) -> int:
    """Milliseconds since the epoch."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def at(text: str) -> datetime:
    """The moment of "0:30", "1:00:00.001", "Tue 0:10" or "t=5", seconds after Monday's midnight."""
    if seconds := re.fullmatch(r"t=(\d+)", text):
        return MONDAY + int(seconds[1]) * SECOND
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise NotUnderstood(f"the time {text!r}")
    day, hours, minutes, seconds_, thousandths = clock.groups(default="0")
    days = DAYS.index(day) if day in DAYS else 0
    return MONDAY + timedelta(
        days=days,
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds_),
        milliseconds=int(thousandths),
    )


class _Reader:
    """Reads the inputs of a timeline one after the other."""

    def __init__(self, condition: Condition) -> None:
        self.entries: list[Entry] = []
        self._condition = condition
        self._labels = condition.labels
        self._matches: dict[str, Match] = {}
        self._latest = MONDAY
        self._stamps = [MONDAY]

    def read(self, chunk: str) -> None:
        given, *fired = (text.strip() for text in chunk.split("!"))
        if given:
            self.entries.append(self._entry(given))
        for text in fired:
            if not self.entries:
                raise NotUnderstood(f"a firing before any input: {chunk!r}")
            self.entries[-1].fired.append(_fired(text))

    def _entry(self, text: str) -> Entry:
        if text == "cancel":
            return Entry(text, Cancel())
        if call := _CALL.fullmatch(text):
            moment, *more = call[2].split(", ")
            if call[1] == "tick" and not more:
                return Entry(text, Tick(millis(at(moment))))
            if call[1] == "opened" and len(more) <= 1 and all(word.startswith("since ") for word in more):
                since = next((millis(at(word.removeprefix("since "))) for word in more), None)
                return Entry(text, opened(self._condition, millis(at(moment)), since))
            raise NotUnderstood(f"the input {text!r}")
        parts = _EVENT.fullmatch(text)
        if parts is None:
            raise NotUnderstood(f"the input {text!r}")
        name, words = parts[1], [] if parts[2] is None else parts[2].split(", ")
        waits = "waits" in words
        words = [word for word in words if word != "waits"]
        if name not in self._matches:
            self._matches[name] = self._match(name, words)
        elif words:
            self._matches[name] = self._repeat(self._matches[name], words)
        return Entry(text, self._matches[name], waits)

    def _match(self, name: str, words: list[str]) -> Match:
        time, stamp, matchers = self._latest + SECOND, None, None
        subject: str | None = None
        for word in words:
            if word.startswith("accepted by "):
                matchers = self._accepting(word.removeprefix("accepted by "))
            elif (given := self._stamp(word)) is not None:
                stamp = given
            elif word.startswith("of "):
                subject = word.removeprefix("of ")
            else:
                time = at(word)
        stamp = time if stamp is None else stamp
        self._latest = time
        self._stamps.append(stamp)
        sent = Event.of(name[0], "/s", id=name, time=time, subject=subject)
        matchers = matchers or self._accepting(name[0])
        matchers, values = counting_matchers(self._condition.distinct_paths, matchers, sent)
        if not matchers:
            raise NotUnderstood(f"{name!r} does not count: say of what it is, as in {name}(of x)")
        return Match(sent, matchers, "events", 0, len(self._stamps), millis(stamp), values)

    def _repeat(self, match: Match, words: list[str]) -> Match:
        """The same event in a record of its own."""
        stamp = self._stamp(words[0])
        if stamp is None or len(words) > 1:
            raise NotUnderstood(f"{words} of a repeat: it may say when it was recorded, and whether it waits")
        self._stamps.append(stamp)
        return msgspec.structs.replace(match, offset=len(self._stamps), timestamp_ms=millis(stamp))

    def _stamp(self, word: str) -> datetime | None:
        if word == "comes last":
            return max(self._stamps) + SECOND
        return at(word.removeprefix("recorded ")) if word.startswith("recorded ") else None

    def _accepting(self, text: str) -> tuple[int, ...]:
        labels = self._labels if text == "both" and len(self._labels) == 2 else text.split(" and ")
        if not set(labels) <= set(self._labels):
            raise NotUnderstood(f"accepted by {text!r}: the condition has the matchers {self._labels}")
        return tuple(sorted(self._labels.index(label) for label in labels))


def _fired(text: str) -> Fired:
    match = _FIRING.fullmatch(f" {text}")
    if match is None:
        raise NotUnderstood(f"the firing {text!r}")
    return Fired(
        "expired" if match["expired"] else "met",
        tuple(match["ids"].split()),
        None if match["labels"] is None else tuple(match["labels"].split()),
        tuple((match["missing"] or "").split()),
        None if match["at"] is None else at(match["at"]),
    )


def numbered(page: str) -> Iterator[tuple[int, str]]:
    """The lines in the blocks of a page that name no language, with their numbers."""
    language: str | None = None
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language == "" and line.strip():
            yield number, line
