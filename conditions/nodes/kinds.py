"""Which kinds of completion events a matcher accepts, and what count() therefore counts by default (Q5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ...events.taxonomy import DAG_RUN, SPARK_APPLICATION, TASK_INSTANCE
from ..filters.cel.where import Where
from ..filters.dialects import All, Any, Exact, Prefix, Sql
from ..filters.filter import Filter
from ..filters.outcome import outcome
from .param import ParamExact

if TYPE_CHECKING:
    from .matcher import Matcher

_RUN: Final = "data.run_id"
_INSTANCE: Final = (_RUN, "data.map_index")
_OF_AIRFLOW: Final = "interlock.airflow."  # no other types begin with this
_COMPLETIONS: Final = (*DAG_RUN.values(), *TASK_INSTANCE.values())
# Types of other events, some with the same endings. If a predicate refuses them all, it counts as one that
# accepts only Airflow's completion events.
_OTHERS: Final = ("x", *SPARK_APPLICATION.values(), *(f"x{each}" for each in _COMPLETIONS))
_TEXTS: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {"dag_run": (_RUN,), "task_instance": _INSTANCE}


def default_paths(matcher: Matcher) -> str | tuple[str, ...] | None:
    """The run for completion events of DAG runs, run and map index for those of task instances.

    A run, or an instance, that is cleared ends again with another event. Runs of different DAGs can have the
    same id, so `subject` is added unless the matcher names one DAG. None for events of other kinds, and if
    the matcher accepts both.
    """
    kinds = kinds_of(matcher)
    if kinds is None or len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind not in _PATHS:
        return None
    paths = _PATHS[kind]
    names = {name for name, _ in matcher.exact}
    names |= {each.attribute for each in matcher.filters if isinstance(each, ParamExact)}
    if not names & {"subject", "source"}:
        paths = ("subject", *paths)
    return paths[0] if len(paths) == 1 else paths


def kinds_of(matcher: Matcher) -> frozenset[str] | None:
    """Which it accepts of "dag_run", "task_instance" and "other" events; None if it may accept any type."""
    exact = dict(matcher.exact)
    if "type" in exact:
        return _kinds_of_types([exact["type"]])
    for kinds in map(_kinds, matcher.filters):
        if kinds is not None:
            return kinds
    if matcher.where is None:
        return None
    wanted = matcher.where.equalities.get(("event", "type"))
    return _kinds_of_types([wanted]) if isinstance(wanted, str) else _tried(matcher.where)


def _kinds(each: Filter) -> frozenset[str] | None:
    """The kinds of event that the filter accepts; None if it accepts any."""
    if isinstance(each, (Exact, Prefix)):
        values = dict(each.pairs)
        if "type" not in values:
            return None
        return _kinds_of_types([values["type"]] if isinstance(each, Exact) else _started(values["type"]))
    if isinstance(each, Sql):
        return _tried(each) if "type" in each.expression.casefold() else None
    if isinstance(each, All):
        return next((kinds for kinds in map(_kinds, each.filters) if kinds is not None), None)
    if isinstance(each, Any):
        found: set[str] = set()
        for kinds in map(_kinds, each.filters):
            if kinds is None:
                return None
            found |= kinds
        return frozenset(found)
    return None


@lru_cache(1000)
def _tried(predicate: Sql | Where) -> frozenset[str] | None:
    """The kinds of event that an expression accepts; None unless it accepts only Airflow's, by their type."""
    source = predicate.source if isinstance(predicate, Where) else predicate.expression
    if "type" not in (predicate.attributes or ()) or "matches" in source:  # a pattern may accept any text
        return None
    written = sorted({one or other for one, other in _TEXTS.findall(source)} - {""})
    others = (*_OTHERS, *(each for each in written if not each.startswith(_OF_AIRFLOW)))
    if any(outcome(predicate, {"type": each}) is not False for each in others):
        return None
    return _kinds_of_types(each for each in _COMPLETIONS if outcome(predicate, {"type": each}) is not False)


def _started(prefix: str) -> Iterator[str]:
    """The completion types of Airflow with this prefix; and the prefix, for the other types that have it."""
    known = [each for each in _COMPLETIONS if each.startswith(prefix)]
    return iter(known if prefix.startswith(_OF_AIRFLOW) else [*known, prefix])


def _kinds_of_types(types: Iterable[str]) -> frozenset[str]:
    runs, instances = set(DAG_RUN.values()), set(TASK_INSTANCE.values())
    return frozenset(
        "dag_run" if each in runs else "task_instance" if each in instances else "other" for each in types
    )
