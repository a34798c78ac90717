"""Event types nobody waits for: no registered condition has a matcher that could accept one.

Decided by what a matcher requires of the attributes `type` and `source`: attributes, filters, CESQL and CEL.
Filters on other attributes and on data may accept some event of any type, so they exclude none. A matcher
that requires neither could accept an event of any type. Such matchers do not count, since this table would
always be empty; the report says how many conditions have one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ....conditions import filters as f_
from ....conditions.filters.dialects import attributes_of
from ....conditions.filters.outcome import outcome
from ....conditions.nodes.matcher import Matcher
from ....events.plain import TYPE as PLAIN
from .registrations import read_condition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ....conditions.filters import Filter

_TYPE: Final = "type"
_READ: Final = frozenset({"type", "source"})
_REQUIRED: Final = "exact STRING, filters STRING"  # one of them is null


def could_accept(filters: Iterable[Filter], type_: str, source: str | None = None) -> bool:
    """False if no event of this type, from this source if it is given, can pass all of these filters."""
    known = {_TYPE: type_} if source is None else {_TYPE: type_, "source": source}
    return all(outcome(each, known) is not False for each in filters)


def unwaited(types: DataFrame, sources: DataFrame, conditions: DataFrame) -> DataFrame:
    """The rows of `types` whose type, and topic if it is of plain records, no condition could accept.

    sources: the distinct (type, source) of the events. Exact types, which nearly all matchers have, are
    removed by an anti join; the remaining ones are checked against the other distinct filters, which are few.
    """
    from pyspark.sql import functions as f

    required = conditions.select("form").mapInArrow(_required, _REQUIRED).distinct()
    exact = required.where("exact IS NOT NULL").select(f.col("exact").alias(_TYPE))
    left = types.join(exact, _TYPE, "left_anti")
    others = required.where("filters IS NOT NULL").select("filters")
    pairs = sources.join(exact, _TYPE, "left_anti").crossJoin(f.broadcast(others))
    accepted = pairs.mapInArrow(_accepted, "type STRING, topic STRING").distinct()
    same = (left["type"] == accepted["type"]) & left["topic"].eqNullSafe(accepted["topic"])
    return left.join(accepted, same, "left_anti")


def without_type(conditions: DataFrame) -> DataFrame:
    """The conditions that have a matcher without a type and a source."""
    return conditions.mapInArrow(_without_type, conditions.schema)


def required_types(form: str) -> Iterator[tuple[str | None, str | None]]:
    """What a condition's matchers require of the type: (exact type, None), or (None, filters as JSON).

    Yields nothing for a matcher that requires neither type nor source.
    """
    condition = read_condition(form)
    for matcher in () if condition is None else condition.matchers:
        exact = dict(matcher.exact).get(_TYPE) or _needed(matcher)
        if exact is not None and exact != PLAIN:
            yield exact, None  # other filters do not matter: they can only refuse this type too
        elif filters := _filters(matcher):
            yield None, json.dumps(filters, sort_keys=True)


def names_no_type(form: str) -> bool:
    """Whether a matcher of the condition requires nothing of type and source."""
    condition = read_condition(form)
    matchers = () if condition is None else condition.matchers
    return any(dict(each.exact).get(_TYPE) is None and not _filters(each) for each in matchers)


def _filters(matcher: Matcher) -> list[dict[str, object]]:
    """The filters that read type or source, in their JSON forms."""
    exact = {name: value for name, value in matcher.exact if name in _READ}
    found: list[dict[str, object]] = [{"exact": exact}] if exact else []
    found += [each.to_json() for each in matcher.filters if _reads(each)]
    where = matcher.where
    if where is not None and where.attributes is not None and where.attributes & _READ:
        found.append(where.to_json())
    return found


def _needed(matcher: Matcher) -> str | None:
    """The type that the CEL predicate requires."""
    needed = None if matcher.where is None else matcher.where.equalities.get(("event", _TYPE))
    return needed if isinstance(needed, str) else None


def _reads(term: Filter) -> bool:
    return not _READ.isdisjoint(attributes_of(term))


@lru_cache(4096)
def read_filters(filters: str) -> tuple[Filter, ...]:
    """The filters that `required_types` gave as JSON."""
    return tuple(
        f_.Where.stored(each["where"]) if "where" in each else f_.filter_from_json(each)
        for each in json.loads(filters)
    )


def _required(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = {each for form in batch.column("form").to_pylist() for each in required_types(form)}
        yield _batch({"exact": [exact for exact, _ in found], "filters": [text for _, text in found]})


def _accepted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in ("type", "source", "filters")), strict=True)
        found = {
            (kind, source if kind == PLAIN else None)
            for kind, source, text in rows
            if could_accept(read_filters(text), kind, source)
        }
        yield _batch({_TYPE: [kind for kind, _ in found], "topic": [topic for _, topic in found]})


def _without_type(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        yield batch.filter(pa.array([names_no_type(form) for form in batch.column("form").to_pylist()]))


def _batch(columns: dict[str, list[Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({name: pa.array(rows, pa.string()) for name, rows in columns.items()})
