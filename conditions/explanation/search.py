"""The search for near misses: recent events that nearly met a matcher, with the reason why they did not.

It runs on demand over the given events. Its work is limited by the number of events, of terms evaluated and
of bytes of data read.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from ...events.event import Event
from ..evaluate.seen import SEEN_MS, digest, is_seen
from ..filters.dialects import Comparison, Exact, Group, Not
from ..filters.filter import Filter, Verdict
from ..nodes.matcher import Matcher
from ..nodes.paths import DATA, key_at
from .keys import raw_key, unread_data
from .near_miss import NearMiss, NearMisses, Why
from .node import EventRef
from .wording import clean

MAX_EVENTS: Final = 10_000
# Terms evaluated for all events and matchers together; one in CEL or CESQL counts as EXPRESSION_TERMS.
MAX_TERMS: Final = 200_000
EXPRESSION_TERMS: Final = 100
# For each matcher, so that they do not displace near misses of the key that is waited for.
MAX_OTHER_KEYS: Final = 2
MAX_DATA_BYTES: Final = 32 * 1024 * 1024
_MAX_VALUE_CHARS: Final = 80
_MAX_TERM_CHARS: Final = 512
_MAX_ID_CHARS: Final = 1024
_MAX_KEY_CHARS: Final = 512
_NO_KEY: Final = ("no key", "no data", "no value")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_QUOTED_OR_NUMBER = re.compile(r"""[\"'].*[\"']|\b[0-9]+\b""", re.DOTALL)


class Record(Protocol):
    """An event and the position of its record; a Match is one."""

    @property
    def event(self) -> Event: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def timestamp_ms(self) -> int | None: ...


class Seen(NamedTuple):
    """An event and, if known, the position and stamp of its record; for `explain`."""

    event: Event
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class StateFacts(NamedTuple):
    """What the state says about an event: its key, its `since`, and the events seen or waiting."""

    key: str | None = None
    since_ms: int | None = None
    seen: bytes = b""
    last_ms: int | None = None
    waiting: Collection[tuple[str, str]] = frozenset()


class MissingMatcher(NamedTuple):
    """A missing matcher, and the identities of the events that it holds.

    distinct: the paths of count(distinct=), without a value at which an event does not count.
    """

    label: str
    matcher: Matcher
    held: Collection[tuple[str, str]] = frozenset()
    distinct: str | tuple[str, ...] | None = None


class Searched(NamedTuple):
    """The result of a search; complete: False if a limit ended it."""

    near_misses: tuple[NearMisses, ...]
    looked_at: int
    complete: bool
    unreadable: int


def search(
    wanted: Sequence[MissingMatcher], events: Iterable[Event | Record], facts: StateFacts, most: int
) -> Searched:
    """The `most` closest near misses of each matcher wanted, among the first MAX_EVENTS events."""
    searches = [_Search(each, facts) for each in wanted]
    looked_at = terms = data_bytes = unreadable = 0
    complete = True
    for number, each in enumerate(events):
        if number >= MAX_EVENTS or terms >= MAX_TERMS or data_bytes >= MAX_DATA_BYTES:
            complete = False
            break
        record = readable(each)
        if record is None:
            unreadable += 1
            continue
        looked_at += 1
        for one in searches:
            cost, reads_data = one.look_at(record)
            terms += cost
            data_bytes += len(record.event.data or b"") if reads_data else 0
    return Searched(tuple(one.result(most) for one in searches), looked_at, complete, unreadable)


def readable(value: object) -> Record | None:
    """The value as a record with a well-formed event; None if it is not one."""
    event = value if isinstance(value, Event) else getattr(value, "event", None)
    if not isinstance(event, Event):
        return None
    attributes: Any = event.attributes
    data: Any = event.data
    if not isinstance(attributes, Mapping) or not isinstance(data, (bytes, type(None))):
        return None
    if not all(isinstance(text, str) for item in attributes.items() for text in item):
        return None
    if "id" not in attributes or "source" not in attributes:
        return None
    topic = getattr(value, "topic", None)
    numbers = (getattr(value, name, None) for name in ("partition", "offset", "timestamp_ms"))
    return Seen(
        event,
        topic if isinstance(topic, str) else None,
        *(number if isinstance(number, int) else None for number in numbers),
    )


def reference(record: Record) -> EventRef:
    """The event without its data."""
    event = record.event
    time = event.time
    stamp = record.timestamp_ms
    return EventRef(
        clean(event.id, _MAX_ID_CHARS),
        clean(event.source, _MAX_ID_CHARS),
        clean(event.attributes.get("type", ""), _MAX_ID_CHARS) or None,
        stamp if time is None else (time - _EPOCH) // _MILLISECOND,
        None if record.topic is None else clean(record.topic, _MAX_ID_CHARS),
        record.partition,
        record.offset,
        stamp,
    )


class _Search:
    """Collects the near misses of one matcher, event by event."""

    def __init__(self, wanted: MissingMatcher, facts: StateFacts) -> None:
        self._wanted, self._facts = wanted, facts
        matcher = wanted.matcher
        self._exact = dict(matcher.exact)
        self._terms = (*(Exact({name: value}) for name, value in matcher.exact), *matcher.filters)
        self._count = len(self._terms) + (matcher.where is not None)
        self._cost = sum(map(_cost, self._terms))
        self._filtered_by_data = any("Where(" in str(term) for term in matcher.filters)
        by = matcher.by
        self._paths = () if by is None else (by,) if isinstance(by, str) else by
        self._keyed_by_data = any(path.startswith(DATA) for path in self._paths)
        self._found: dict[tuple[str, str], tuple[tuple[int, ...], NearMiss]] = {}
        self._errors = 0

    def look_at(self, record: Record) -> tuple[int, bool]:
        """Evaluate one event. Returns its cost in terms, and whether its data was read."""
        event = record.event
        if event.identity in self._wanted.held or event.identity in self._found:
            return 1, False
        refused, failed, cost, reads_data = self._refused(event)
        self._errors += failed
        if not refused:
            self._add(record, self._why_not(record), 0)
            return cost, reads_data or self._keyed_by_data
        if self._is_near(event, refused):
            self._add(record, self._refusal(record, refused), len(refused))
            reads_data = reads_data or self._keyed_by_data
        return cost, reads_data

    def result(self, most: int) -> NearMisses:
        found = self._found.values()
        others = [item for item in found if item[1].has_another_key]
        own = [item for item in found if not item[1].has_another_key]
        shown = own + heapq.nsmallest(MAX_OTHER_KEYS, others, key=lambda item: item[0])
        closest = [miss for _, miss in heapq.nsmallest(most, shown, key=lambda item: item[0])]
        left = len(others) - sum(miss.has_another_key for miss in closest)
        return NearMisses(self._wanted.label, tuple(closest), self._errors, left)

    def _refused(self, event: Event) -> tuple[list[tuple[Filter, Verdict]], bool, int, bool]:
        """The terms that refuse the event, whether one failed, the cost, and whether data was read."""
        where = self._wanted.matcher.where
        verdicts = [(term, term.verdict(event)) for term in self._terms]
        cost, reads_data = self._cost, self._filtered_by_data
        if where is not None and all(verdict.accepted for _, verdict in verdicts):
            verdicts.append((where, where.verdict(event)))
            cost, reads_data = cost + EXPRESSION_TERMS, True
        failed = any(verdict.error is not None for _, verdict in verdicts)
        return [pair for pair in verdicts if not pair[1].accepted], failed, cost, reads_data

    def _is_near(self, event: Event, refused: Sequence[tuple[Filter, Verdict]]) -> bool:
        """True if it has the required type, most terms accept it, or only upper and lower case differ."""
        if "type" in self._exact and event.attributes.get("type") == self._exact["type"]:
            return True
        # a refused type counts as two terms
        passed = self._count - len(refused) - ("type" in self._exact)
        if passed >= len(refused) or (len(refused) == 1 and refused[0][1].error is not None):
            return True
        attribute = refused[0][1].attribute
        if len(refused) > 1 or attribute is None or attribute not in self._exact:
            return False
        wanted, value = self._exact[attribute], event.attributes.get(attribute, "")
        return value.strip().casefold() == wanted.strip().casefold()

    def _add(self, record: Record, miss: NearMiss, refused: int) -> None:
        other_type = self._exact.get("type", record.event.attributes.get("type")) != miss.event.type
        time = miss.event.time_ms
        self._found[record.event.identity] = (
            # for a daily key, a refused event of today says more than accepted events of other days
            (
                other_type,
                miss.has_another_key,
                refused + (miss.why in _NO_KEY),
                -(0 if time is None else time),
                len(self._found),
            ),
            miss,
        )

    def _refusal(self, record: Record, refused: Sequence[tuple[Filter, Verdict]]) -> NearMiss:
        term, verdict = refused[0]
        text = verdict.term or str(term)
        error = None if verdict.error is None else _without_data(verdict.error, text)
        value = None if verdict.attribute is None else record.event.attributes.get(verdict.attribute)
        return self._with_key(
            record.event,
            NearMiss(
                reference(record),
                "term" if verdict.error is None else "error",
                len(refused),
                self._count,
                term=clean(text, _MAX_TERM_CHARS),
                attribute=verdict.attribute,
                value=None if value is None else clean(value, _MAX_VALUE_CHARS),
                error=None if error is None else clean(error, _MAX_TERM_CHARS),
            ),
        )

    def _with_key(self, event: Event, miss: NearMiss) -> NearMiss:
        """The near miss with both keys, if the event's key is not the wanted one."""
        wanted = self._facts.key
        key = self._wanted.matcher.key_of(event)
        if key is None or wanted is None or key == wanted:
            return miss
        raw = raw_key(self._paths, event)
        return replace(
            miss,
            key=clean(key, _MAX_KEY_CHARS),
            raw=None if raw in (None, key) else clean(str(raw), _MAX_KEY_CHARS),
            wanted=clean(wanted, _MAX_KEY_CHARS),
        )

    def _why_not(self, record: Record) -> NearMiss:
        """Why an event that all terms accept is not held."""
        event, facts, stamp = record.event, self._facts, record.timestamp_ms
        ref = reference(record)
        if self._paths:
            key = self._wanted.matcher.key_of(event)
            if key is None:  # K20
                paths, error = ", ".join(self._paths), unread_data(self._paths, event)
                why: Why = "no key" if error is None else "no data"
                return NearMiss(
                    ref,
                    why,
                    0,
                    self._count,
                    attribute=paths,
                    error=None if error is None else clean(error, _MAX_TERM_CHARS),
                )
            if facts.key is not None and key != facts.key:
                return self._with_key(event, NearMiss(ref, "key", 0, self._count))
        distinct = self._wanted.distinct
        if distinct is not None and key_at(distinct, event) is None:  # Q5
            names = distinct if isinstance(distinct, str) else ", ".join(distinct)
            return NearMiss(ref, "no value", 0, self._count, attribute=names)
        if stamp is not None and facts.since_ms is not None and stamp < facts.since_ms:  # Y1
            return NearMiss(ref, "since", 0, self._count)
        if event.identity in facts.waiting:
            return NearMiss(ref, "waiting", 0, self._count)
        forgotten = stamp is not None and facts.last_ms is not None and stamp > facts.last_ms + SEEN_MS
        if not forgotten and is_seen(facts.seen, digest(*event.identity)):  # D1
            return NearMiss(ref, "repeat", 0, self._count)
        return NearMiss(ref, "unread", 0, self._count)


def _cost(term: Filter) -> int:
    if isinstance(term, Group):
        return 1 + sum(map(_cost, term.filters))
    if isinstance(term, Not):
        return 1 + _cost(term.filter)
    return term.nodes if isinstance(term, Comparison) else EXPRESSION_TERMS


def _without_data(error: str, term: str) -> str:
    """A CEL error without quoted data: without all quoted texts and numbers that are not in the term."""
    if "Where(" not in term:
        return error  # a CESQL error: CESQL reads attributes only

    def kept(match: re.Match[str]) -> str:
        return match[0] if match[0].strip("\"'") in term else "..."

    return _QUOTED_OR_NUMBER.sub(kept, error)
