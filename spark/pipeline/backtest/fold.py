"""The fold: applies `step` to the matches of each key in their order, with one key in memory at a time.

Input: rows sorted by key, then in the order of docs/use/pipeline.md. `least_ms` of a row is the least
timestamp among this and the key's later rows: a tick may go up to it (docs/use/conditions.md W2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ....conditions import EMPTY, Firing, Match, State, Tick, closes_at, step
from ....conditions.evaluate.firing import Part, decided_ms
from ....conditions.evaluate.half_met import half_met
from ....conditions.evaluate.step import next_due
from ....events.event import Event
from .question import Question
from .tables import MATCHED_ARROW, RESULT, PartRow, Results, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS: Final = (*MATCHED_ARROW.names, "least_ms")
_BATCH: Final = 1000


def results_of(question: Question, end_ms: int, ordered: DataFrame) -> DataFrame:
    """Rows of RESULT for ordered rows (order.py)."""

    def fold(batches: Iterable[Any]) -> Iterator[Any]:
        folding = Folding(question, end_ms)
        for row in rows_in(batches, _COLUMNS):
            folding.take(row)
            if len(folding.results) >= _BATCH:
                yield folding.results.pop_batch()
        folding.end()
        yield folding.results.pop_batch()

    return ordered.select(*_COLUMNS).mapInArrow(fold, RESULT)


class Folding:
    """Folds the rows of one task. The caller empties `results` from time to time."""

    def __init__(self, question: Question, end_ms: int) -> None:
        self.results = Results()
        self._question, self._end_ms = question, end_ms
        self._condition = question.condition
        self._first = question.first_state()
        self._needs_ticks = self._condition.needs_ticks
        self._ttl_ms = question.ttl_ms
        self._one_shot = question.once
        self._key: str | None = None
        self._state, self._ticked_ms, self._over = self._first, -1, False

    def take(self, row: tuple[Any, ...]) -> None:
        """Handles the next row; a row of another key ends the previous key."""
        key, stamp, topic, partition, offset, numbers, source, id_, type_, time, counted, note, least = row
        if key is None:
            if note is not None:
                place = ("", source, id_, type_, topic, partition, offset, stamp)
                self.results.miss(stamp, note, None if id_ is None else place)
            return
        if key != self._key:
            self.end()
            self._key, self._state, self._ticked_ms, self._over = key, self._first, -1, False
        if self._over or numbers is None:  # a row without numbers only says that the key exists
            return
        if self._needs_ticks and least > self._ticked_ms and self._state is not EMPTY:
            due = next_due(self._condition, self._state)
            if due is not None and due <= least and self._tick(least):
                return
        state = self._state
        last = state.last_ms
        if self._ttl_ms is not None and last is not None and stamp - last >= self._ttl_ms:
            state = self._kept(stamp)
        attributes = {"source": source, "id": id_, "type": type_}
        if time is not None:
            attributes["time"] = time
        values = None if counted is None else {int(n): value for n, value in json.loads(counted).items()}
        match = Match(Event(attributes), _numbers(numbers), topic, partition, offset, stamp, values)
        self._state, firings = step(self._condition, state, match)
        if firings:
            self._fire(firings, lambda _: stamp)

    def end(self) -> None:
        """Ends a key: ticks it up to the end, and records it as pending if it is half met."""
        if self._key is None or self._over:
            return
        condition, state = self._condition, self._state
        # Even without timers, a tick drops matches that can no longer take part. With masks there are none.
        due = self._needs_ticks or (bool(state.matches) and not condition.plan.masks)
        if due and self._tick(self._end_ms):
            return
        found = half_met(condition, self._kept(self._end_ms))
        if found is not None:
            self.results.pending(self._key or None, found, _parts(found.parts))

    def _tick(self, time_ms: int) -> bool:
        """Ticks up to `time_ms`. Returns whether that ended the wait."""
        self._ticked_ms = time_ms
        self._state, firings = step(self._condition, self._state, Tick(time_ms))
        if firings:
            self._fire(firings, lambda firing: decided_ms(firing, time_ms))
        return self._over

    def _kept(self, time_ms: int) -> State:
        """The state, or an empty one if the bus no longer keeps the key (Z1)."""
        state = self._state
        if self._ttl_ms is None or state.last_ms is None or time_ms - state.last_ms < self._ttl_ms:
            return state
        closes_ms = closes_at(self._condition, state, self._ttl_ms)
        return state if closes_ms is not None and closes_ms > time_ms else EMPTY

    def _fire(self, firings: Iterable[Firing], fired_ms: Callable[[Firing], int]) -> None:
        for firing in firings:
            if self._over:
                return
            self.results.firing(
                self._key or None,
                firing.outcome,
                fired_ms(firing),
                firing.timer_ms,
                firing.missing,
                _parts(firing.taking_part),
            )
            self._over = self._one_shot


def _parts(parts: Iterable[Part]) -> list[PartRow]:
    found: list[PartRow] = []
    for part in parts:
        match = part.match
        attributes = match.event.attributes
        found.append(
            (
                part.label,
                attributes["source"],
                attributes["id"],
                attributes["type"],
                match.topic,
                match.partition,
                match.offset,
                match.timestamp_ms,
            )
        )
    return found


@lru_cache(1000)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))
