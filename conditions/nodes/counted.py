"""What makes the events of a matcher different in count() if its author does not say: see `default_paths`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ...events.taxonomy import DAG_RUN, TASK_INSTANCE
from ..filters.dialects import All, Any, Exact, Prefix
from ..filters.filter import Filter
from .param import OpenExact

if TYPE_CHECKING:
    from .matcher import Matcher

_RUN: Final = "data.run_id"
_INSTANCE: Final = (_RUN, "data.map_index")
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {"dag_run": (_RUN,), "task_instance": _INSTANCE}


def default_paths(matcher: Matcher) -> str | tuple[str, ...] | None:
    """The run for completion events of DAG runs, run and map index for those of task instances.

    A run, or an instance, that is cleared ends again with another event. Runs of different DAGs can have the
    same id, so `subject` is added unless the matcher names one DAG. None for events of other kinds, and if
    the matcher accepts both.
    """
    kinds = _kinds_of_matcher(matcher)
    if kinds is None or len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind not in _PATHS:
        return None
    paths = _PATHS[kind]
    names = {name for name, _ in matcher.exact}
    names |= {each.attribute for each in matcher.filters if isinstance(each, OpenExact)}
    if not names & {"subject", "source"}:
        paths = ("subject", *paths)
    return paths[0] if len(paths) == 1 else paths


def _kinds_of_matcher(matcher: Matcher) -> frozenset[str] | None:
    exact = dict(matcher.exact)
    if "type" in exact:
        return _kinds_of_types([exact["type"]])
    for kinds in map(_kinds, matcher.filters):
        if kinds is not None:
            return kinds
    wanted = None if matcher.where is None else matcher.where.equalities.get(("event", "type"))
    return _kinds_of_types([wanted]) if isinstance(wanted, str) else None


def _kinds(each: Filter) -> frozenset[str] | None:
    """The kinds of event that the filter accepts; None if it accepts any."""
    if isinstance(each, (Exact, Prefix)):
        values = dict(each.pairs)
        if "type" not in values:
            return None
        return _kinds_of_types([values["type"]] if isinstance(each, Exact) else _started(values["type"]))
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


def _started(prefix: str) -> Iterator[str]:
    """The completion types of Airflow with this prefix; the prefix itself if there are others."""
    known = [each for each in (*DAG_RUN.values(), *TASK_INSTANCE.values()) if each.startswith(prefix)]
    return iter(known if prefix.startswith("interlock.airflow.") else [*known, prefix])


def _kinds_of_types(types: Iterable[str]) -> frozenset[str]:
    runs, instances = set(DAG_RUN.values()), set(TASK_INSTANCE.values())
    return frozenset(
        "dag_run" if each in runs else "task_instance" if each in instances else "other" for each in types
    )
