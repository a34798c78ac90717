"""Random logs of a bus with several partitions, and the firings of a plain loop of `step` over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from interlock.conditions import Condition, ConditionError, Firing, Match, Matcher, Tick, step
from interlock.conditions.evaluate.firing import decided_ms
from interlock.conditions.nodes.paths import counting_matchers
from interlock.conditions.nodes.retention import replaced
from interlock.events import Event
from interlock.spark.pipeline.backtest.columns import ReadColumns
from interlock.spark.pipeline.backtest.fold import Folding
from interlock.spark.pipeline.backtest.matching import matched
from interlock.spark.pipeline.backtest.question import Question

from tests.unit.conditions.property.generators import BASES_MS, UNIT_MS, conditions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYS = ("k1", "k2", "k3")


@dataclass(frozen=True)
class Entry:
    """A record of a topic."""

    event: Event
    topic: str
    partition: int
    offset: int
    stamp_ms: int


@dataclass(frozen=True)
class Case:
    """A question and the log to answer it from. ascending: whether brokers set all timestamps."""

    question: Question
    entries: tuple[Entry, ...]
    ascending: bool
    end_ms: int


@dataclass(frozen=True)
class Fired:
    """A firing as tests compare it. parts: (label, source, id, type, topic, partition, offset, stamp)."""

    key: str | None
    outcome: str
    fired_ms: int
    timer_ms: int | None
    missing: tuple[str, ...]
    parts: tuple[tuple[Any, ...], ...]


def keyed(condition: Condition) -> Condition:
    """The condition with its matchers reading a key from the subject."""
    return replaced(
        condition,
        {
            matcher: Matcher(
                matcher.exact,
                by="subject",
                label=matcher.label,
                filters=matcher.filters,
                where=matcher.where,
                keeps=matcher.keeps,
                limit=matcher.limit,
            )
            for matcher in condition.matchers
        },
    )


_op = st.tuples(
    st.sampled_from((0, 0, 0, 1, 1, 2, 3, 6, 30)),  # gap before it, in units
    st.integers(0, 3),  # topic and partition
    st.integers(0, 7),  # which matcher's event
    st.sampled_from((0, 0, 0, 0, 1, 1, 2, None)),  # key
    st.integers(0, 12),  # id: few, so that some are repeats
    st.sampled_from((None, None, 0, -1, -3, -13, 1)),  # time against the stamp
    st.sampled_from((0, 0, 0, -1, -3, -7, 2)),  # offset of a producer's stamp
)


@st.composite
def cases(draw: Any) -> Case:
    """A condition with or without keys, as a wait or not, with timestamps of brokers or producers."""
    base = draw(st.sampled_from(BASES_MS))
    condition = draw(conditions(base))
    key: str | None = None
    if draw(st.integers(0, 3)):
        condition = keyed(condition)
        key = draw(st.sampled_from((None, None, "k1")))
    since = draw(st.sampled_from((None, base, base + 2 * UNIT_MS)))
    try:
        question = Question.of(condition, key, since_ms=since, ttl_ms=None)
    except ConditionError:
        try:
            question = Question.of(condition, "k1" if condition.keyed else None, since_ms=base, ttl_ms=None)
        except ConditionError:
            question = Question.of(draw(st.sampled_from(condition.matchers)), ttl_ms=None)
    ascending = draw(st.booleans())
    # three lists, because hypothesis makes most of them short
    ops = [op for _ in range(3) for op in draw(st.lists(_op, max_size=10))]
    entries = tuple(_entries(condition, base, ops, ascending))
    if question.since_ms is not None:
        entries = tuple(entry for entry in entries if entry.stamp_ms >= question.since_ms)
    last = max((entry.stamp_ms for entry in entries), default=base)
    end = max(last, question.since_ms or 0) + draw(st.sampled_from((1, UNIT_MS, 200 * UNIT_MS)))
    return Case(question, entries, ascending, end)


def _entries(condition: Condition, base: int, ops: Iterable[Any], ascending: bool) -> Iterator[Entry]:
    now, offsets = base, dict[tuple[str, int], int]()
    for gap, place, which, key, id_, lag, late in ops:
        now += gap * UNIT_MS
        stamp = now if ascending else now + late * UNIT_MS
        topic, partition = f"t{place // 2}", place % 2
        offset = offsets.get((topic, partition), 0)
        offsets[topic, partition] = offset + 1
        wanted = dict(condition.matchers[which % len(condition.matchers)].exact)
        time = None if lag is None else EPOCH + timedelta(milliseconds=stamp + lag * UNIT_MS)
        event = Event.of(
            wanted.get("type", "abx"[which % 3]),
            wanted.get("source", "/s" if which < 4 else "/t"),
            id=str(id_),
            subject=None if key is None else KEYS[key],
            time=time,
        )
        yield Entry(event, topic, partition, offset, stamp)


def read(question: Question, entries: Iterable[Entry]) -> list[tuple[Any, ...]]:
    """The output of matching for a log, in no order."""
    reads, listed = ReadColumns.of(question.condition), list(entries)
    columns: dict[str, list[Any]] = {
        "topic": [each.topic for each in listed],
        "partition": [each.partition for each in listed],
        "offset": [each.offset for each in listed],
        "appended_ms": [each.stamp_ms for each in listed],
        "id": [each.event.id for each in listed],
        "source": [each.event.source for each in listed],
        "type": [each.event.type for each in listed],
    }
    if reads.attributes is None:
        pairs = [list(each.event.attributes.items()) for each in listed]
        columns["attributes"] = pa.array(pairs, pa.map_(pa.string(), pa.string()))
    else:
        for name in reads.attributes:
            columns[f"a_{name}"] = pa.array([each.event.attributes.get(name) for each in listed], pa.string())
    if reads.data:
        columns["data"] = pa.array([each.event.data for each in listed], pa.binary())
    batch = pa.RecordBatch.from_pydict(columns)
    rows = [tuple(row.values()) for found in matched(question, reads, [batch]) for row in found.to_pylist()]
    if question.runs_from_the_start:  # added by Backtest
        rows.append((question.known_key, question.since_ms, *(None,) * 10))
    return rows


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of `read` in the order of order.py: by key, each with the least timestamp of its key from there
    on."""
    keys: dict[str | None, list[tuple[Any, ...]]] = {}
    for row in rows:
        keys.setdefault(row[0], []).append(row)
    result = []
    for key in sorted(keys, key=lambda each: (each is not None, each or "")):
        highest: dict[tuple[str, int], int] = {}
        placed = []
        for row in sorted(keys[key], key=_place):
            place = _place(row)
            highest[place[:2]] = max(highest.get(place[:2], row[1]), row[1])
            placed.append((highest[place[:2]], *place, row))
        ordered = [entry[-1] for entry in sorted(placed, key=lambda entry: entry[:4])]
        for number, row in enumerate(ordered):
            result.append((*row, min(other[1] for other in ordered[number:])))
    return result


def _place(row: tuple[Any, ...]) -> tuple[str, int, int]:
    return (row[2] or "", row[3] or 0, row[4] or 0)


def folded(case: Case) -> list[dict[str, Any]]:
    """The results of matching and fold in this process."""
    folding = Folding(case.question, case.end_ms)
    for row in in_order(read(case.question, case.entries)):
        folding.take(row)  # type: ignore[arg-type]
    folding.end()
    found: list[dict[str, Any]] = folding.results.pop_batch().to_pylist()
    return found


def fired(results: Iterable[dict[str, Any]]) -> list[Fired]:
    """The firings among results, sorted."""
    return ordered(
        Fired(
            row["key"],
            row["outcome"],
            row["fired_ms"],
            row["timer_ms"],
            tuple(row["missing"]),
            tuple(tuple(part.values()) for part in row["events"]),
        )
        for row in results
        if row["kind"] == "firing"
    )


def ordered(firings: Iterable[Fired]) -> list[Fired]:
    return sorted(firings, key=repr)


def loop(case: Case) -> list[Fired]:
    """The firings of a plain loop of `step`: a tick for all keys before each record of the log.

    Where producers set the stamps each key has an order, and a log, of its own.
    """
    question = case.question
    if case.ascending:
        return ordered(_looped(case, case.entries, None))
    keys = dict.fromkeys([question.known_key] if question.runs_from_the_start else [])
    for entry in case.entries:
        keys |= dict.fromkeys(_reached(question.condition, question.key, entry.event))
    return ordered(
        firing
        for key in keys
        for firing in _looped(
            case,
            [each for each in case.entries if key in _reached(question.condition, question.key, each.event)],
            key,
        )
    )


def _looped(case: Case, entries: Iterable[Entry], only: str | None) -> list[Fired]:
    question = case.question
    condition = question.condition
    log = _legal_order(entries)
    states: dict[str, Any] = {}
    found: list[Fired] = []
    if question.runs_from_the_start:
        states[question.known_key or ""] = question.first_state()
    done: set[str] = set()

    def fire(key: str, firings: tuple[Firing, ...], when: Callable[[Firing], int]) -> None:
        for firing in firings:
            if key in done:
                return
            parts = tuple(
                (
                    part.label,
                    *part.match.identity,
                    part.match.event.type,
                    part.match.topic,
                    part.match.partition,
                    part.match.offset,
                    part.match.timestamp_ms,
                )
                for part in firing.taking_part
            )
            found.append(
                Fired(key or None, firing.outcome, when(firing), firing.timer_ms, firing.missing, parts)
            )
            if question.key is not None:
                done.add(key)

    def tick(time_ms: int) -> None:
        for key in states:
            states[key], firings = step(condition, states[key], Tick(time_ms))
            fire(key, firings, lambda firing: decided_ms(firing, time_ms))

    for number, entry in enumerate(log):
        tick(min(other.stamp_ms for other in log[number:]))
        for key, accepted in _reached(condition, question.key, entry.event).items():
            numbers, values = counting_matchers(condition.distinct_paths, accepted, entry.event)
            if only not in (None, key) or not numbers:
                continue
            place = (entry.topic, entry.partition, entry.offset)
            match = Match(entry.event, numbers, *place, entry.stamp_ms, values)
            states[key], firings = step(condition, states.get(key, question.first_state()), match)
            fire(key, firings, lambda _, stamp=entry.stamp_ms: stamp)  # type: ignore[misc]
    tick(case.end_ms)
    return found


def _legal_order(entries: Iterable[Entry]) -> list[Entry]:
    """A log as docs/use/pipeline.md orders it."""
    highest: dict[tuple[str, int], int] = {}
    placed = []
    for entry in sorted(entries, key=lambda each: (each.topic, each.partition, each.offset)):
        place = (entry.topic, entry.partition)
        highest[place] = max(highest.get(place, entry.stamp_ms), entry.stamp_ms)
        placed.append((highest[place], *place, entry.offset, entry))
    return [each[-1] for each in sorted(placed, key=lambda each: each[:4])]


def _reached(condition: Condition, key: str | None, event: Event) -> dict[str, tuple[int, ...]]:
    reached: dict[str, tuple[int, ...]] = {}
    for number, matcher in enumerate(condition.matchers):
        if matcher.accepts(event):
            own = (key or "") if matcher.by is None else matcher.key_of(event)
            if own is not None and key in (None, own):
                reached[own] = (*reached.get(own, ()), number)
    return reached
