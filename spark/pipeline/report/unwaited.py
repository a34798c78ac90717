"""Event types nobody waits for: no registered condition has a matcher that could accept one.

Decided only by what a matcher requires of the attribute `type`. Filters on other attributes, on data and in
CloudEvents SQL may accept some event of any type, so they exclude none. A CEL predicate excludes types if it
requires the type to equal a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ....conditions import filters as f_
from ....conditions.filters.dialects import Comparison
from ....conditions.nodes.matcher import Matcher
from .registrations import read_condition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ....conditions.filters import Filter

_TYPE: Final = "type"
_REQUIRED: Final = "exact STRING, filters STRING"  # one of them is null


def could_accept(filters: Iterable[Filter], type_: str) -> bool:
    """False if no event of this type can pass all of these filters."""
    return all(verdict(each, type_) is not False for each in filters)


def verdict(term: Filter, type_: str) -> bool | None:
    """The filter's result for every event of a type; None if it depends on the event."""
    if isinstance(term, Comparison):
        agrees = [type(term).agrees(type_, value) if name == _TYPE else None for name, value in term.pairs]
        return _all(agrees)
    if isinstance(term, f_.All):
        return _all(verdict(each, type_) for each in term.filters)
    if isinstance(term, f_.Any):
        return _not(_all(_not(verdict(each, type_)) for each in term.filters))
    if isinstance(term, f_.Not):
        return _not(verdict(term.filter, type_))
    return None


def unwaited(types: DataFrame, conditions: DataFrame) -> DataFrame:
    """The rows of `types` whose type no condition could accept.

    Exact types, which nearly all matchers have, are removed by an anti join; the remaining types are checked
    against the other distinct filters, which are few.
    """
    from pyspark.sql import functions as f

    required = conditions.select("form").mapInArrow(_required, _REQUIRED).distinct()
    exact = required.where("exact IS NOT NULL").select(f.col("exact").alias(_TYPE))
    left = types.join(exact, _TYPE, "left_anti")
    others = required.where("filters IS NOT NULL").select("filters")
    accepted = (
        left.select(_TYPE).crossJoin(f.broadcast(others)).mapInArrow(_accepted, "type STRING").distinct()
    )
    return left.join(accepted, _TYPE, "left_anti")


def required_types(form: str) -> Iterator[tuple[str | None, str | None]]:
    """What a condition's matchers require of the type: (exact type, None), or (None, filters as JSON)."""
    condition = read_condition(form)
    for matcher in () if condition is None else condition.matchers:
        exact = dict(matcher.exact).get(_TYPE) or _needed(matcher)
        if exact is not None:
            yield exact, None  # other filters do not matter: they can only refuse this type too
        else:
            filters = [each.to_json() for each in matcher.filters if _reads_type(each)]
            yield None, json.dumps(filters, sort_keys=True)


def _needed(matcher: Matcher) -> str | None:
    """The type that the CEL predicate requires."""
    needed = None if matcher.where is None else matcher.where.equalities.get(("event", _TYPE))
    return needed if isinstance(needed, str) else None


def _reads_type(term: Filter) -> bool:
    if isinstance(term, Comparison):
        return any(name == _TYPE for name, _ in term.pairs)
    if isinstance(term, (f_.All, f_.Any)):
        return any(map(_reads_type, term.filters))
    return isinstance(term, f_.Not) and _reads_type(term.filter)


@lru_cache(4096)
def _read(filters: str) -> tuple[Filter, ...]:
    return tuple(f_.filter_from_json(each) for each in json.loads(filters))


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    found = set(verdicts)
    return False if False in found else None if None in found else True


def _not(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _required(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = {each for form in batch.column("form").to_pylist() for each in required_types(form)}
        yield _batch({"exact": [exact for exact, _ in found], "filters": [text for _, text in found]})


def _accepted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        pairs = zip(batch.column(_TYPE).to_pylist(), batch.column("filters").to_pylist(), strict=True)
        yield _batch({_TYPE: list({kind for kind, text in pairs if could_accept(_read(text), kind)})})


def _batch(columns: dict[str, list[Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({name: pa.array(rows, pa.string()) for name, rows in columns.items()})
