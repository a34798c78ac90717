"""Matching: which matchers of a condition accept an event, and for which key. Later steps have no event
data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ....conditions import MatcherIndex
from ....events.event import Event
from .columns import ALWAYS, ReadColumns
from .misses import Misses, Place
from .question import Question
from .tables import MATCHED, Matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def matches_of(question: Question, rows: DataFrame) -> DataFrame:
    """Rows of MATCHED: one for each key that an event matches, and the near misses."""
    reads = ReadColumns.of(question.condition)

    def match(batches: Iterable[Any]) -> Iterator[Any]:
        return matched(question, reads, batches)

    return reads.select(rows).mapInArrow(match, MATCHED)


def matched(question: Question, reads: ReadColumns, batches: Iterable[Any]) -> Iterator[Any]:
    """`matches_of` on Arrow batches of one task."""
    matching = Matching(question)
    for batch in batches:
        for event, place in _events(reads, batch):
            matching.take(event, place)
        yield matching.matches.pop_batch()
    matching.end()
    yield matching.matches.pop_batch()


class Matching:
    """Collects the matches and near misses of one task's events."""

    def __init__(self, question: Question) -> None:
        self.matches = Matches()
        # The engine's own index: the same result, and the fastest way even for one condition.
        self._index: MatcherIndex[str] = MatcherIndex()
        self._index.add("", question.condition, question.key)
        self._misses = Misses(question) if question.near_misses else None
        self._texts: dict[tuple[int, ...], str] = {}

    def take(self, event: Event, place: Place) -> None:
        """Matches an event. place: (stamp, topic, partition, offset) of its record."""
        try:
            hits = self._index.lookup(event)
        except Exception as error:  # noqa: BLE001  # the engine sends it to the dead-letter topic
            if self._misses is not None:
                self._misses.failed(event, error, place)
            return
        attributes = event.attributes
        for hit in hits:
            text = self._texts.get(hit.matchers)
            if text is None:
                text = self._texts[hit.matchers] = ",".join(map(str, hit.matchers))
            self.matches.rows.append(
                (
                    hit.key,
                    *place,
                    text,
                    attributes["source"],
                    attributes["id"],
                    attributes["type"],
                    attributes.get("time"),
                    None if hit.values is None else json.dumps(hit.values),
                    None,
                )
            )
        if self._misses is not None:
            near = self._misses.near(event)
            if near and not (len(hits) == 1 and hits[0].matchers == near):
                accepted = {number for hit in hits for number in hit.matchers}
                for number in near:
                    if number not in accepted:
                        self._misses.add(number, event, place)

    def end(self) -> None:
        """After the last event: adds the near misses."""
        for place, event, note in () if self._misses is None else self._misses.kept():
            source, id_, type_ = (None, None, None) if event is None else (event.source, event.id, event.type)
            self.matches.rows.append((None, *place, None, source, id_, type_, None, None, note))


def _events(reads: ReadColumns, batch: Any) -> Iterator[tuple[Event, Place]]:
    """The events of a batch, with the attributes and data that the matchers read."""
    columns = [column.to_pylist() for column in batch.columns]
    topics, partitions, offsets, stamps, ids, sources, types, *rest = columns
    datas = rest.pop() if reads.data else [None] * len(ids)
    places = zip(stamps, topics, partitions, offsets, strict=True)
    if reads.attributes is None:
        for place, pairs, data in zip(places, rest[0], datas, strict=True):
            yield Event(dict(pairs), data), place
        return
    names = reads.attributes
    bases = zip(ids, sources, types, strict=True)
    if len(names) == 1:  # the most frequent case: only `time`
        [name], [values] = names, rest
        for place, (id_, source, type_), value, data in zip(places, bases, values, datas, strict=True):
            attributes = {"id": id_, "source": source, "type": type_}
            if value is not None:
                attributes[name] = value
            yield Event(attributes, data), place
        return
    for place, base, data, *values in zip(places, bases, datas, *rest, strict=True):
        attributes = dict(zip(ALWAYS, base, strict=True))
        attributes |= {name: value for name, value in zip(names, values, strict=True) if value is not None}
        yield Event(attributes, data), place
