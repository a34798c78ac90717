"""Matchers for completion events: of DAG runs, task instances and Spark applications.

Each is built with event() and can be used like any matcher; docs/use/events.md describes the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, overload
from urllib.parse import quote

from ...events import taxonomy
from ...events.attributes import CORE, shown
from ...events.completions import DAY, MEMBERS, airflow_source
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from ..nodes.combinations import AnyOf
from ..nodes.condition import Condition
from ..nodes.matcher import Matcher
from ..nodes.paths import with_offset
from ..nodes.zoned import zoned
from .arguments import (
    By,
    Offset,
    State,
    as_timedelta,
    check_path,
    checked_id,
    checked_name,
    matcher,
    refuse_wildcard,
    types_of,
)
from .dates import Dates, by_distance, check_zoned, in_filters, in_where

# Short names for `by`, and their paths in the event's data.
_RUN_KEYS: Final = {
    "logical_date": "data.logical_date",
    "ds": "data.ds",
    "partition_key": "data.partition_key",
    "run_id": "data.run_id",
}
_DATED: Final = ("logical_date", "ds")
# The events have these attributes and no others. The data of Spark's events are those of the job.
_ATTRIBUTES: Final = frozenset({*CORE, DAY})
# Arguments of ExternalTaskSensor and of event(), and what to write instead.
_INSTEAD: Final = {
    "key": "by=",
    "execution_delta": "offset=",
    "execution_date_fn": "dates=, or offset= where the distance is the same",
    "external_dag_id": "it as the first argument",
    "external_task_id": "task_instance(dag_id, task_id)",
    "external_task_ids": "one task_instance(dag_id, task_id) for each, joined with &",
    "allowed_states": "state=",
    "failed_states": "fail_on= of the sensor",
}
_KNOWN: Final = ("state", "by", "offset", "dates", "deployment", "label")


@overload
def dag_run(
    dag_id: str,
    *,
    state: State = ...,
    by: By | None = ...,
    offset: Offset | None = ...,
    dates: None = ...,
    deployment: str | None = ...,
    label: str | None = ...,
) -> Matcher: ...
@overload
def dag_run(
    dag_id: str,
    *,
    state: State = ...,
    by: By | None = ...,
    dates: Dates,
    deployment: str | None = ...,
    label: str | None = ...,
) -> Condition: ...
@takes_plain_text
def dag_run(
    dag_id: str,
    *,
    state: State = "success",
    by: By | None = None,
    offset: Offset | None = None,
    dates: Dates | None = None,
    deployment: str | None = None,
    label: str | None = None,
    **others: object,
) -> Condition:
    """A matcher for the completion events of a DAG's runs, from the listener, reconcile, or marking by hand.

    state: "success", "failed", or a list of both.
    by: the key: "logical_date", "ds" (its day), "partition_key", "run_id", or a path such as "data.run_type";
        several make a composite key. Without it any run counts.
    offset: how far the awaited run lies before the key, like ExternalTaskSensor's execution_delta:
        timedelta(days=1) or "1d" is yesterday's run; a negative timedelta is a later one. `by` must be
        "logical_date" (with an offset, the default), "ds", or a day, hour or week:
        day("logical_date", tz=...).
    dates: {day of the key: day or days of the awaited run}, days as "2026-11-20" or dates, at most 1,000. Of
        several days any one is enough; a key whose day is not listed is never met. `by` is "ds", for days in
        UTC, or day("logical_date", tz=...).
    deployment: only runs of this Airflow deployment (`[interlock] deployment`). Without it, a DAG of this
        name in any deployment on the bus counts.
    label: the name of its events in firings; with `dates` at several distances also "label#2", ...

    Returns a matcher, or an `|` of matchers for `dates` at several distances. Raises ConditionError for
    invalid arguments.
    """
    who = "dag_run"
    _refuse(who, others)
    dag, types = checked_id(who, "dag_id", dag_id), types_of(who, taxonomy.DAG_RUN, state)
    refuse_wildcard(who, "dag_id", dag, types)
    return _RunKey(f"{who}({shown(dag_id)})", by, offset, dates, MEMBERS[who]).condition(
        types, dag, _source(who, deployment, dag), label
    )


@overload
def task_instance(
    dag_id: str,
    task_id: str,
    *,
    state: State = ...,
    by: By | None = ...,
    offset: Offset | None = ...,
    dates: None = ...,
    deployment: str | None = ...,
    label: str | None = ...,
) -> Matcher: ...
@overload
def task_instance(
    dag_id: str,
    task_id: str,
    *,
    state: State = ...,
    by: By | None = ...,
    dates: Dates,
    deployment: str | None = ...,
    label: str | None = ...,
) -> Condition: ...
@takes_plain_text
def task_instance(
    dag_id: str,
    task_id: str,
    *,
    state: State = "success",
    by: By | None = None,
    offset: Offset | None = None,
    dates: Dates | None = None,
    deployment: str | None = None,
    label: str | None = None,
    **others: object,
) -> Condition:
    """A matcher for the completion events of task instances; arguments as for `dag_run`.

    state: also "skipped". Each instance of a mapped task counts: `by=["logical_date", "data.map_index"]`
    gives each its own key, and `count()` waits for several, each of which it counts once.
    """
    who = "task_instance"
    _refuse(who, others)
    dag, task = checked_id(who, "dag_id", dag_id), checked_id(who, "task_id", task_id)
    types = types_of(who, taxonomy.TASK_INSTANCE, state)
    refuse_wildcard(who, "dag_id and task_id", f"{dag}/{task}", types)
    return _RunKey(f"{who}({shown(dag_id)})", by, offset, dates, MEMBERS[who]).condition(
        types, f"{dag}/{task}", _source(who, deployment, dag, task), label
    )


@takes_plain_text
def spark_application(
    name: str,
    *,
    state: State = "succeeded",
    by: By | None = None,
    offset: Offset | None = None,
    application: str | None = None,
    label: str | None = None,
) -> Matcher:
    """A matcher for completion events that Spark applications emit with `completion_event(spark, name)`.

    state: "succeeded", "failed", or a list of both. by: a path into the data that the job gave, such as
    "data.date". offset: as for `dag_run`; the value at `by` must be a date or time. application: only Spark
    applications of this name.
    """
    who = "spark_application"
    types, subject = types_of(who, taxonomy.SPARK_APPLICATION, state), checked_name(who, "name", name)
    if name.startswith("*") or name.endswith("*"):
        refuse_wildcard(who, "name", name, types)
    if offset is not None and not isinstance(by, str):
        raise ConditionError(f"{who}({name!r}): offset needs one path in by=, to a date or time")
    for path in by if isinstance(by, (list, tuple)) else (by,):
        check_path(f"{who}({name!r})", path, _ATTRIBUTES - {DAY}, None)
    key = by if offset is None or not isinstance(by, str) else with_offset(by, as_timedelta(who, offset))
    source = None
    if application is not None:
        source = "/spark/" + quote(checked_name(who, "application", application), safe="")
    return matcher(types, subject, source, key, label)


class _RunKey:
    """How the matcher reads its key: the paths, the offset, and the days of `dates`."""

    def __init__(
        self, who: str, by: By | None, offset: Offset | None, dates: Dates | None, members: frozenset[str]
    ) -> None:
        self._who, self._dates, self._members = who, None, members
        if offset is not None and dates is not None:
            raise ConditionError(f"{self._who}: give offset= or dates=, not both")
        if dates is not None:
            self._by: By | None = self._path_of_days(by)
            self._dates = by_distance(who, dates)
        elif offset is not None:
            by = by or "logical_date"
            if not isinstance(by, str) or (by not in _DATED and zoned(by) is None):
                raise ConditionError(
                    f'{self._who}: offset= needs by="logical_date", by="ds" or by=day("logical_date", tz=...)'
                )
            self._by = with_offset(self._path(by), as_timedelta(self._who, offset))
        elif isinstance(by, (list, tuple)):
            self._by = [self._path(each) if isinstance(each, str) else each for each in by]
        else:
            self._by = self._path(by) if isinstance(by, str) else by

    def _path_of_days(self, by: By | None) -> str:
        if by in (None, "ds", "data.ds"):
            return "data.ds"
        path = self._path(by) if isinstance(by, str) else ""
        found = zoned(path)
        if found is None:
            raise ConditionError(
                f'{self._who}: dates= needs by=day("logical_date", tz=...), or by="ds" for days in UTC'
            )
        check_zoned(self._who, found)
        return path

    def _path(self, by: str) -> str:
        """The path of a short name, also of one in day(), hour(), week() or month()."""
        found = zoned(by)
        if found is None:
            path = _RUN_KEYS.get(by, by)
            check_path(self._who, path, _ATTRIBUTES, self._members)
            return path
        if found.of in ("ds", "data.ds"):
            raise ConditionError(
                f'{self._who}: by={by}: ds is a day in UTC; write {found.name}("logical_date", tz=...)'
            )
        path = found._replace(of=_RUN_KEYS.get(found.of, found.of)).text
        check_path(self._who, path, _ATTRIBUTES, self._members)
        return path

    def condition(
        self, types: tuple[str, ...], subject: str, source: str | None, label: str | None
    ) -> Condition:
        if self._dates is None:
            return matcher(types, subject, source, self._by, label)
        matchers: list[Matcher] = []
        path = str(self._by)
        of_zone = zoned(path)
        for distance, days in self._dates:
            key = with_offset(path, distance)
            chosen: list[tuple[tuple[str, ...], str | None]] = [(each, None) for each in in_filters(days)]
            if of_zone is not None:
                chosen = [((), each) for each in in_where(of_zone, days)]
            for values, where in chosen:
                numbered = _numbered(label, len(matchers) + 1)
                matchers.append(matcher(types, subject, source, key, numbered, values, where))
        return matchers[0] if len(matchers) == 1 else AnyOf(*matchers)


def _numbered(label: str | None, number: int) -> str | None:
    """The label, numbered from 2 on like default labels: labels are unique in a condition."""
    return label if label is None or number == 1 else f"{label}#{number}"


def _refuse(who: str, others: Mapping[str, object]) -> None:
    """Raises ConditionError for an unknown argument, with what to write instead."""
    for name in others:
        close = get_close_matches(name[:40], _KNOWN, n=1)
        meant = _INSTEAD.get(name) or "".join(f"{each}=" for each in close)
        raise ConditionError(f"{who}({name[:40]}=...): write {meant or 'one of ' + ', '.join(_KNOWN)}")


def _source(who: str, deployment: object, *parts: str) -> str | None:
    return None if deployment is None else airflow_source(checked_name(who, "deployment", deployment), *parts)
