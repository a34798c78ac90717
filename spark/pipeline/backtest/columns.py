"""The columns and event types that a condition's matchers read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from ....conditions import Condition, Matcher
from ....conditions.filters.dialects import Comparison, FilterGroup, Not
from ....conditions.filters.filter import Filter
from ....conditions.nodes.paths import parse_path
from ..rows import type_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ALWAYS = ("id", "source", "type")
_PLACE = ("topic", "partition", "offset", "appended_ms")


@dataclass(frozen=True)
class ReadColumns:
    """The parts of rows that matching reads. Spark fetches no other columns from Parquet.

    attributes: beside ALWAYS; None: all. data: whether data is read. types: those that the matchers require;
    None if one requires none.
    """

    attributes: tuple[str, ...] | None
    data: bool
    types: tuple[str, ...] | None

    @staticmethod
    def of(condition: Condition) -> ReadColumns:
        attributes: set[str] | None = {"time"}
        data = False
        for number, matcher in enumerate(condition.matchers):
            names, reads_data = _of_matcher(matcher, condition.distinct_paths.get(number))
            attributes = None if attributes is None or names is None else attributes | names
            data = data or reads_data
        types = [dict(matcher.exact).get("type") for matcher in condition.matchers]
        return ReadColumns(
            None if attributes is None else tuple(sorted(attributes - set(ALWAYS))),
            data,
            None if None in types else tuple(sorted({each for each in types if each is not None})),
        )

    def select(self, rows: DataFrame) -> DataFrame:
        """Selects the columns above, of the rows whose type a matcher may accept or nearly accept.

        Keeps types that differ only in case: they are near misses.
        """
        return self.events_in(rows).select(
            *_PLACE, *ALWAYS, *self._columns(), *(["data"] if self.data else [])
        )

    def events_in(self, rows: DataFrame) -> DataFrame:
        """The rows of events whose type a matcher may accept or nearly accept, with all columns."""
        from pyspark.sql import functions as f

        found = rows.where(f.col("kind") == "event")
        if self.types is None:
            return found
        keys, starts = self.type_keys
        key = f.lower(f.col("type_key"))  # a partition column: Spark reads no other folders
        return found.where(reduce(or_, map(key.startswith, starts), key.isin(keys)))

    @property
    def type_keys(self) -> tuple[list[str], list[str]]:
        """(values, prefixes of values) of `type_key`, in lower case, that `types` can have in any case.

        A value may contain a digest, which differs with the type's case. Of such a value only the prefix
        before the digest is known, and other types may share it.
        """
        keys = {type_key(each).lower() for each in self.types or ()}
        parts = [each.partition("~") for each in keys]  # no other character than the digest's is `~`
        return sorted(keys), sorted({start + mark for start, mark, _ in parts if mark})

    def _columns(self) -> Iterator[Column]:
        from pyspark.sql import functions as f

        if self.attributes is None:
            yield f.col("attributes")
            return
        for name in self.attributes:
            yield f.col("attributes").getItem(name).alias(f"a_{name}")


def _of_matcher(matcher: Matcher, distinct: str | tuple[str, ...] | None) -> tuple[set[str] | None, bool]:
    """(attributes, whether it reads data); None: all attributes. distinct: the paths of count(distinct=)."""
    names: set[str] = {name for name, _ in matcher.exact}
    data = matcher.where is not None
    for path in (*_paths(matcher.by), *_paths(distinct)):
        read = parse_path(path)
        if read.members is None:
            names.add(read.base)
        else:
            names.add("datacontenttype")
            data = True
    if data:
        names.add("datacontenttype")
    for each in matcher.filters:
        compared = _compared(each)
        if compared is None:  # CEL and CESQL may read any attribute
            # Of the two only CEL, `Where(...)`, reads data; it may stand inside other filters.
            return None, data or "Where(" in str(each)
        names |= compared
    return (names if matcher.where is None else None), data


def _paths(written: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if written is None else (written,) if isinstance(written, str) else written


def _compared(term: Filter) -> set[str] | None:
    """The attributes that a filter compares; None if that is not known."""
    if isinstance(term, Comparison):
        return {name for name, _ in term.pairs}
    inner = (
        term.filters if isinstance(term, FilterGroup) else (term.filter,) if isinstance(term, Not) else None
    )
    if inner is None:
        return None
    found: set[str] = set()
    for each in inner:
        names = _compared(each)
        if names is None:
            return None
        found |= names
    return found
