"""Near misses: events that a matcher nearly accepted. Keeps the first of each reason and counts all."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ....conditions import Matcher, Seen
from ....conditions.explanation.likeness import look_of
from ....conditions.explanation.search import MissingMatcher, StateFacts, search
from ....conditions.nodes.paths import key_at
from ....events.event import Event
from .question import Question

_ATTRIBUTES: Final = ("type", "source", "subject")
_MAX_TYPES: Final = 10_000

Place = tuple[int, str, int, int]  # stamp, topic, partition, offset


class Reason(NamedTuple):
    """Why a matcher refused an event: `why` as in NearMiss, and the refusing term."""

    number: int
    why: str
    term: str | None


class KeptMiss(NamedTuple):
    """A near miss of the result. note: its description as JSON."""

    place: Place
    event: Event | None
    note: str


@dataclass
class _Found:
    count: int = 0
    first: list[tuple[Place, Event, str | None]] = field(default_factory=list)


class Misses:
    """Collects the near misses of one task.

    An event is near to a matcher if one of its attributes looks like the value that the matcher requires:
    its type; if the matcher requires no type, its source; if it requires neither, its subject, and so on with
    the other attributes. A matcher that requires no attribute has no near misses. Keeps the earliest ones, so
    the result does not depend on how events are spread over tasks.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        condition = question.condition
        self._matchers, self._labels = condition.matchers, condition.labels
        self._distinct = condition.distinct_paths
        wanted = [_near_by(matcher) for matcher in self._matchers]
        self._near_by = [(number, *each) for number, each in enumerate(wanted) if each is not None]
        self._by_type: dict[str, tuple[int, ...]] | None = {}
        if any(name != "type" for _, name, _ in self._near_by):
            self._by_type = None
        self._found: dict[Reason, _Found] = {}

    def near(self, event: Event) -> tuple[int, ...]:
        """The numbers of the matchers that accept this event or nearly do."""
        known, attributes = self._by_type, event.attributes
        if known is None:
            return self._near(event)
        type_ = attributes["type"]
        near = known.get(type_)
        if near is None:
            if len(known) >= _MAX_TYPES:
                known.clear()
            near = known[type_] = self._near(event)
        return near

    def _near(self, event: Event) -> tuple[int, ...]:
        attributes = event.attributes
        return tuple(
            number for number, name, value in self._near_by if look_of(attributes.get(name, "")) == value
        )

    def add(self, number: int, event: Event, place: Place) -> None:
        """Counts an event that is near to a matcher but not accepted for the question's key."""
        matcher = self._matchers[number]
        verdict = matcher.verdict(event)
        why = "term" if verdict.error is None else "error"
        if verdict.accepted:  # then the key was wrong
            key, distinct = matcher.key_of(event), self._distinct.get(number)
            if key is None and matcher.by is not None:
                why = "no key"
            elif distinct is not None and key_at(distinct, event) is None:
                why = "no value"
            else:
                why = "key"
        self._keep(Reason(number, why, verdict.term), event, place)

    def failed(self, event: Event, error: Exception, place: Place) -> None:
        """Counts an event whose matching raised an error; the engine sends it to the dead-letter topic.

        The reason is the error's class, since the message may differ for each event.
        """
        name = type(error).__name__
        self._keep(Reason(-1, "error", name), event, place, f"{name}: {error}"[:200])

    def _keep(self, reason: Reason, event: Event, place: Place, text: str | None = None) -> None:
        found = self._found.setdefault(reason, _Found())
        found.count += 1
        first, most = found.first, self._question.near_misses
        if len(first) < most or (first and place < first[-1][0]):
            bisect.insort(first, (place, event, text), key=_place)
            del first[most:]

    def kept(self) -> Iterator[KeptMiss]:
        """The kept near misses; the first of each reason has the total count, the others 0."""
        for reason, found in self._found.items():
            for number, (place, event, text) in enumerate(found.first):
                yield KeptMiss(
                    place, event, self._note(reason, event, place, text, 0 if number else found.count)
                )

    def _note(self, reason: Reason, event: Event, place: Place, text: str | None, count: int) -> str:
        known: dict[str, object] = {
            "label": None if reason.number < 0 else self._labels[reason.number],
            "why": reason.why,
            "term": reason.term,
            "count": count,
            "attribute": None,
            "value": None,
            "text": text or reason.term or reason.why,
        }
        if reason.number >= 0:
            wanted = MissingMatcher(
                self._labels[reason.number],
                self._matchers[reason.number],
                distinct=self._distinct.get(reason.number),
            )
            stamp, topic, partition, offset = place
            seen = Seen(event, topic, partition, offset, stamp)
            for miss in search([wanted], [seen], StateFacts(self._question.key), 1).near_misses[0].misses:
                known |= {"attribute": miss.attribute, "value": miss.value}
                known["text"] = str(miss).removeprefix(f"{miss.event}: ")
        return json.dumps(known)


def _place(kept: tuple[Place, Event, str | None]) -> Place:
    return kept[0]


def _near_by(matcher: Matcher) -> tuple[str, str] | None:
    """(attribute, value) that makes an event near to a matcher; None if it requires none."""
    exact = dict(matcher.exact)
    name = next((each for each in (*_ATTRIBUTES, *exact) if each in exact), None)
    return None if name is None else (name, look_of(exact[name]))
