"""The near misses of one matcher: which events are near, why they do not count, which are the closest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ...events.event import Event
from ..evaluate.seen import remembers
from ..evaluate.state import Match
from ..filters.dialects import Comparison, Exact, FilterGroup, Not
from ..filters.filter import Filter, FilterDecision
from ..nodes.matcher import Matcher
from ..nodes.paths import key_at, parse_path
from .details import MAX_TERM_CHARS, MAX_VALUE_CHARS, detailed
from .keys import distance, raw_key
from .likeness import look_of
from .near_miss import NearMiss, NearMisses
from .records import Record, WasRead, position, reference
from .refutation import Refutations
from .slips import is_other_end, is_slip
from .wording import clean

# One term in CEL or CESQL costs as much as this many others.
EXPRESSION_TERMS: Final = 100
# The most near misses of other keys, and of events that counted before, that are shown for each matcher: they
# must not displace others.
MAX_OTHER_KEYS: Final = 2
MAX_COUNTED: Final = 2
# The most that are shown with one reason while there are near misses with other reasons.
MAX_SAME: Final = 3
_MAX_KEY_CHARS: Final = 512
_NO_KEY: Final = ("no key", "no value")
_QUOTED_OR_NUMBER = re.compile(r"""[\"'].*[\"']|\b[0-9]+\b""", re.DOTALL)

Identity = tuple[str, str]  # (source, id)
Refusal = tuple[Filter, FilterDecision]


class Holder(NamedTuple):
    """An event that a matcher holds, and the label of that matcher."""

    label: str
    match: Match


class StateFacts(NamedTuple):
    """What is known of the state: its key and `since`, and the events seen, waiting and held.

    fired: {(source, id): the firing in which the event took part}, of firings that the state has forgotten.
    was_read: as for `explain`.
    """

    key: str | None = None
    since_ms: int | None = None
    seen: bytes = b""
    last_ms: int | None = None
    waiting: Mapping[Identity, Match] = {}
    held: Mapping[Identity, Holder] = {}
    fired: Mapping[Identity, str] = {}
    was_read: WasRead | None = None


class MissingMatcher(NamedTuple):
    """A missing matcher, and the events that it holds.

    distinct: the paths of count(distinct=). An event without a value there does not count.
    refutations: what may have refuted its events.
    """

    label: str
    matcher: Matcher
    held: Mapping[Identity, Match] = {}
    distinct: str | tuple[str, ...] | None = None
    refutations: Refutations = Refutations((), {}, ())


class _Order(NamedTuple):
    """The order of near misses, compared field by field: the smallest is the closest."""

    has_another_type: bool
    # what another DAG or job did today says less than what the named one did on other days
    has_another_subject: bool
    # for a daily key, a refused event of today says more than accepted events of other days
    has_another_key: bool
    has_counted: bool
    has_another_source: bool
    refusing_terms: int
    has_another_value: bool  # events of the right source, tenant and so on come first
    key_distance: float  # the next days first
    minus_time_ms: int  # so that later events come first
    number: int


class _Found(NamedTuple):
    order: _Order
    miss: NearMiss
    record: Record
    refused: Sequence[Refusal]
    is_slip: bool  # shown only if there is nothing closer


class MatcherSearch:
    """Collects the near misses of one matcher, event by event."""

    def __init__(self, wanted: MissingMatcher, facts: StateFacts) -> None:
        self._wanted, self._facts = wanted, facts
        matcher = wanted.matcher
        self._exact = dict(matcher.exact)
        self._looks = {name: look_of(value) for name, value in matcher.exact}
        self._terms = (*(Exact({name: value}) for name, value in matcher.exact), *matcher.filters)
        self._count = len(self._terms) + (matcher.where is not None)
        self._cost = sum(map(_cost, self._terms))
        self._paths = _paths(matcher.by)
        keyed_by = (*self._paths, *_paths(wanted.distinct))
        self._keyed_by_data = any(parse_path(path).members is not None for path in keyed_by)
        self._key_looks = None if facts.key is None else look_of(facts.key)
        self._found: dict[Identity, _Found] = {}
        self._errors = 0

    def look_at(self, record: Record) -> tuple[int, bool]:
        """Evaluate one event. Returns its cost in terms, and whether its data was read."""
        event = record.event
        held = self._wanted.held.get(event.identity)
        if held is not None and not _is_another_record(record, held):
            return 1, False
        refused, failed, cost, reads_data = self._evaluated(event)
        self._errors += failed
        if not refused:
            self._add(record, self._why_not(record, held), ())
            return cost, reads_data or self._keyed_by_data
        other_end = self._is_other_end(event, refused)
        reads_data = reads_data or (other_end and self._keyed_by_data)
        near = held is None and (self._is_near(event, refused) or (other_end and self._has_wanted_key(event)))
        if near or (held is None and self._is_slip(event, refused)):
            self._add(record, self._refused_miss(record, refused), refused, is_slip_alone=not near)
            reads_data = reads_data or self._keyed_by_data
        return cost, reads_data

    def result(self, most: int) -> NearMisses:
        """The `most` closest near misses, with their details."""
        found = sorted(self._found.values(), key=lambda each: each.order)
        if any(not each.is_slip for each in found):  # names that are slightly different may be so on purpose
            found = [each for each in found if not each.is_slip]
        others = [each for each in found if each.miss.has_another_key]
        counted = [each for each in found if each.miss.has_counted]
        own = [each for each in found if not each.miss.has_another_key and not each.miss.has_counted]
        shown = sorted([*own, *counted[:MAX_COUNTED], *others[:MAX_OTHER_KEYS]], key=lambda each: each.order)
        distinct = _paths(self._wanted.distinct)
        closest = [
            detailed(each.miss, each.record.event, each.refused, self._paths, distinct)
            for each in _varied(shown, most)
        ]
        return NearMisses(
            self._wanted.label,
            tuple(closest),
            self._errors,
            len(others) - sum(miss.has_another_key for miss in closest),
            len(counted) - sum(miss.has_counted for miss in closest),
        )

    def _evaluated(self, event: Event) -> tuple[list[Refusal], bool, int, bool]:
        """The terms that refuse the event, whether one failed, the cost, and whether data was read."""
        where = self._wanted.matcher.where
        verdicts = [(term, term.verdict(event)) for term in self._terms]
        cost, reads_data = self._cost, False  # of the terms, only a `where` reads data
        if where is not None and all(verdict.accepted for _, verdict in verdicts):
            verdicts.append((where, where.verdict(event)))
            cost, reads_data = cost + EXPRESSION_TERMS, True
        failed = any(verdict.error is not None for _, verdict in verdicts)
        return [pair for pair in verdicts if not pair[1].accepted], failed, cost, reads_data

    def _is_near(self, event: Event, refused: Sequence[Refusal]) -> bool:
        """True if it has the required type, most terms accept it, or its value looks like the wanted one."""
        if "type" in self._exact and event.attributes.get("type") == self._exact["type"]:
            return True
        # a refused type counts as two terms
        passed = self._count - len(refused) - ("type" in self._exact)
        if passed >= len(refused) or (len(refused) == 1 and refused[0][1].error is not None):
            return True
        return len(refused) == 1 and self._looks_right(event, refused[0][1].attribute)

    def _is_other_end(self, event: Event, refused: Sequence[Refusal]) -> bool:
        if len(refused) > 1 or refused[0][1].attribute != "type":
            return False
        return is_other_end(self._exact, event.attributes.get("type", ""))

    def _has_wanted_key(self, event: Event) -> bool:
        return self._facts.key is None or self._wanted.matcher.key_of(event) == self._facts.key

    def _looks_right(self, event: Event, attribute: str | None) -> bool:
        """True if an attribute's value looks like the exact value wanted."""
        return (
            attribute in self._looks
            and look_of(event.attributes.get(attribute, "")) == self._looks[attribute]
        )

    def _is_slip(self, event: Event, refused: Sequence[Refusal]) -> bool:
        """True if only the type, or only the source, refuses it, and is written slightly differently."""
        attribute = refused[0][1].attribute
        if len(refused) > 1 or attribute not in ("type", "source"):
            return False
        return is_slip(event.attributes.get(attribute, ""), self._exact.get(attribute, ""))

    def _add(
        self, record: Record, miss: NearMiss, refused: Sequence[Refusal], *, is_slip_alone: bool = False
    ) -> None:
        """Keep the near miss, unless a closer one with the same id and source is kept."""
        event = record.event
        exact = {verdict.attribute for term, verdict in refused if isinstance(term, Exact)}
        wrong = {name for name in exact if not self._looks_right(event, name)}
        another_subject = "subject" in wrong and not is_slip(
            event.attributes.get("subject", ""), self._exact["subject"]
        )
        where = self._wanted.matcher.where
        not_evaluated = where is not None and any(term is not where for term, _ in refused)
        key_looks_right = miss.key is not None and look_of(miss.key) == self._key_looks
        time = miss.event.time_ms
        order = _Order(
            has_another_type="type" in wrong
            or ("type" not in exact and self._exact.get("type", miss.event.type) != miss.event.type),
            has_another_subject=another_subject,
            has_another_key=miss.has_another_key and not key_looks_right,
            has_counted=miss.has_counted,
            has_another_source="source" in wrong,
            refusing_terms=len(refused) + not_evaluated - len(exact - wrong) + (miss.why in _NO_KEY),
            has_another_value=bool(wrong) or miss.why in _NO_KEY,
            key_distance=distance(miss.key, miss.wanted) if miss.key and miss.wanted else 0.0,
            minus_time_ms=-(0 if time is None else time),
            number=len(self._found),
        )
        known = self._found.get(event.identity)
        if known is None or order < known.order:
            self._found[event.identity] = _Found(order, miss, record, refused, is_slip_alone)

    def _refused_miss(self, record: Record, refused: Sequence[Refusal]) -> NearMiss:
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
                term=clean(text, MAX_TERM_CHARS),
                attribute=verdict.attribute,
                value=None if value is None else clean(value, MAX_VALUE_CHARS),
                error=None if error is None else clean(error, MAX_TERM_CHARS),
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

    def _why_not(self, record: Record, held: Match | None) -> NearMiss:
        """Why an event that all terms accept is not held. held: an event with its identity that is held."""
        event, facts, stamp = record.event, self._facts, record.timestamp_ms
        miss = NearMiss(reference(record), "unknown", 0, self._count)
        if self._paths:
            key = self._wanted.matcher.key_of(event)
            if key is None:  # K20
                return replace(miss, why="no key", attribute=", ".join(self._paths))
            if facts.key is not None and key != facts.key:
                return self._with_key(event, replace(miss, why="key"))
        distinct = self._wanted.distinct
        if distinct is not None and key_at(distinct, event) is None:  # Q5
            return replace(miss, why="no value", attribute=", ".join(_paths(distinct)))
        if stamp is not None and facts.since_ms is not None and stamp < facts.since_ms:  # Y1
            return replace(miss, why="since")
        if held is not None:  # D2
            return replace(miss, why="repeat", held_for=self._wanted.label)
        if (waiting := facts.waiting.get(event.identity)) is not None:
            return replace(miss, why="repeat" if _is_another_record(record, waiting) else "waiting")
        if (holder := facts.held.get(event.identity)) is not None:
            why = "repeat" if _is_another_record(record, holder.match) else "released"
            return replace(miss, why=why, held_for=holder.label)  # type: ignore[arg-type]
        if (firing := facts.fired.get(event.identity)) is not None:
            return replace(miss, why="fired", firing=firing) if firing else replace(miss, why="repeat")
        if (refuted := self._wanted.refutations.of(record)) is not None:
            return replace(miss, why="refuted", refuted_ms=refuted[0], refuted_by=refuted[1])
        if remembers(facts.seen, facts.last_ms, event.identity, stamp):  # D1
            return replace(miss, why="repeat")
        read = None if facts.was_read is None else facts.was_read(record)
        return miss if read is None else replace(miss, why="gone" if read else "unread")


def _paths(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else given


def _is_another_record(record: Record, match: Match) -> bool:
    """True if it is known that the record is not that of the match, but one with the same id and source."""
    here = position(record)
    return here is not None and here != position(match)


def _varied(found: Sequence[_Found], most: int) -> list[_Found]:
    """The first `most`, with at most MAX_SAME of each reason as long as there are others."""
    count: Counter[tuple[object, ...]] = Counter()
    first: list[_Found] = []
    rest: list[_Found] = []
    for each in found:
        reason = (each.miss.why, each.miss.term, each.miss.has_another_key)
        count[reason] += 1
        (first if count[reason] <= MAX_SAME else rest).append(each)
    chosen = [*first, *rest][:most]
    return sorted(chosen, key=lambda each: each.order)


def _cost(term: Filter) -> int:
    if isinstance(term, FilterGroup):
        return 1 + sum(map(_cost, term.filters))
    if isinstance(term, Not):
        return 1 + _cost(term.filter)
    return term.terms if isinstance(term, Comparison) else EXPRESSION_TERMS


def _without_data(error: str, term: str) -> str:
    """A CEL error without quoted data: without all quoted texts and numbers that are not in the term."""
    if "Where(" not in term:
        return error  # a CESQL error: CESQL reads attributes only

    def kept(match: re.Match[str]) -> str:
        return match[0] if match[0].strip("\"'") in term else "..."

    return _QUOTED_OR_NUMBER.sub(kept, error)
