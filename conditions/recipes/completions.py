"""Matchers for completion events: of DAG runs, task instances and Spark applications.

Each is built with event() and can be used like any matcher; docs/use/events.md describes the events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Final, TypeAlias, overload
from urllib.parse import quote

from ...events import taxonomy
from ...events.attributes import CORE, shown
from ...events.completions import DAY, airflow_source
from ..errors import ConditionError
from ..filters import Any, Exact, Filter
from ..filters.filter import checked_text, quoted
from ..nodes.combinations import AnyOf
from ..nodes.condition import Condition
from ..nodes.duration import duration_ms
from ..nodes.matcher import Matcher, event
from ..nodes.param import Param
from ..nodes.paths import DATA, parse_path, with_offset
from ..nodes.templates import check_no_template, is_template
from ..nodes.zoned import zoned

# Short names for `by`, and their paths in the event's data.
_RUN_KEYS: Final = {
    "logical_date": "data.logical_date",
    "ds": "data.ds",
    "partition_key": "data.partition_key",
    "run_id": "data.run_id",
}
_DATED: Final = ("logical_date", "ds")
# What the events have: no other path is ever there. The data of Spark's events are those of the job.
_ATTRIBUTES: Final = frozenset({*CORE, DAY})
_OF_RUNS: Final = {
    *("deployment", "dag_id", "run_id", "run_type", "run_after", "logical_date", "ds", "partition_key"),
    *("data_interval_start", "data_interval_end", "state", "started_at", "ended_at"),
}
_DATA: Final = {
    "dag_run": frozenset({*_OF_RUNS, "clear_number"}),
    "task_instance": frozenset({*_OF_RUNS, "task_id", "map_index", "try_number"}),
}
MAX_NAME_CHARS: Final = 1000
MAX_DATES: Final = 1000
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

State: TypeAlias = str | Sequence[str]
By: TypeAlias = str | Sequence[str]
Day: TypeAlias = str | date
Offset: TypeAlias = timedelta | str
Dates: TypeAlias = Mapping[Day, Day | Sequence[Day]]


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
        "logical_date" (the default here) or "ds".
    dates: {day of the key: day or days of the awaited run}, days as "2026-11-20" or dates, at most 1,000. Of
        several days any one is enough; a key whose day is not listed is never met. `by` is "ds".
    deployment: only runs of this Airflow deployment (`[interlock] deployment`). Without it, a DAG of this
        name in any deployment on the bus counts.
    label: the name of its events in firings; with `dates` at several distances also "label#2", ...

    Returns a matcher, or an `|` of matchers for `dates` at several distances. Raises ConditionError for
    invalid arguments.
    """
    who = "dag_run"
    _refuse(who, others)
    dag, types = _name(who, "dag_id", dag_id), _types(who, taxonomy.DAG_RUN, state)
    _no_wildcard(who, "dag_id", dag, types)
    return _RunKey(f"{who}({shown(dag_id)})", by, offset, dates, _DATA[who]).condition(
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
    dag, task = _name(who, "dag_id", dag_id), _name(who, "task_id", task_id)
    types = _types(who, taxonomy.TASK_INSTANCE, state)
    _no_wildcard(who, "dag_id and task_id", f"{dag}/{task}", types)
    return _RunKey(f"{who}({shown(dag_id)})", by, offset, dates, _DATA[who]).condition(
        types, f"{dag}/{task}", _source(who, deployment, dag, task), label
    )


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
    types, subject = _types(who, taxonomy.SPARK_APPLICATION, state), _name(who, "name", name)
    if name.startswith("*") or name.endswith("*"):
        _no_wildcard(who, "name", name, types)
    if offset is not None and not isinstance(by, str):
        raise ConditionError(f"{who}({name!r}): offset needs one path in by=, to a date or time")
    for path in by if isinstance(by, (list, tuple)) else (by,):
        _check_path(f"{who}({name!r})", path, _ATTRIBUTES - {DAY}, None)
    key = by if offset is None or not isinstance(by, str) else with_offset(by, _delta(who, offset))
    return _matcher(
        types,
        subject,
        None if application is None else "/spark/" + quote(_name(who, "application", application), safe=""),
        key,
        label,
    )


class _RunKey:
    """How the matcher reads its key: the paths, the offset, and the days of `dates`."""

    def __init__(
        self, who: str, by: By | None, offset: Offset | None, dates: Dates | None, members: frozenset[str]
    ) -> None:
        self._who, self._dates, self._members = who, None, members
        if offset is not None and dates is not None:
            raise ConditionError(f"{self._who}: give offset= or dates=, not both")
        if dates is not None:
            if by not in (None, "ds"):
                raise ConditionError(f'{self._who}: dates= needs by="ds", or no by=')
            self._dates = self._by_distance(dates)
        elif offset is not None:
            by = by or "logical_date"
            if not isinstance(by, str) or (by not in _DATED and zoned(by) is None):
                raise ConditionError(
                    f'{self._who}: offset= needs by="logical_date", by="ds" or by=day("logical_date", tz=...)'
                )
            self._by: By | None = with_offset(self._path(by), _delta(self._who, offset))
        elif isinstance(by, (list, tuple)):
            self._by = [self._path(each) if isinstance(each, str) else each for each in by]
        else:
            self._by = self._path(by) if isinstance(by, str) else by

    def _path(self, by: str) -> str:
        """The path of a short name, also of one in day(), hour(), week() or month()."""
        found = zoned(by)
        if found is None:
            path = _RUN_KEYS.get(by, by)
            _check_path(self._who, path, _ATTRIBUTES, self._members)
            return path
        if found.of in ("ds", "data.ds"):
            raise ConditionError(
                f'{self._who}: by={by}: ds is a day in UTC; write {found.name}("logical_date", tz=...)'
            )
        path = found._replace(of=_RUN_KEYS.get(found.of, found.of)).text
        _check_path(self._who, path, _ATTRIBUTES, self._members)
        return path

    def condition(
        self, types: tuple[str, ...], subject: str, source: str | None, label: str | None
    ) -> Condition:
        if self._dates is None:
            return _matcher(types, subject, source, self._by, label)
        matchers = [
            _matcher(types, subject, source, with_offset("data.ds", distance), _numbered(label, number), days)
            for number, (distance, days) in enumerate(self._dates, 1)
        ]
        return matchers[0] if len(matchers) == 1 else AnyOf(*matchers)

    def _by_distance(self, dates: Dates) -> list[tuple[timedelta, tuple[str, ...]]]:
        """The days of the awaited runs, grouped by their distance from the key; usually a few groups."""
        if not isinstance(dates, Mapping) or not dates:
            raise ConditionError(f"{self._who}: dates= must be a non-empty mapping {{day: day waited for}}")
        groups: dict[timedelta, dict[str, None]] = {}
        number = 0
        for key, wanted in dates.items():
            if not isinstance(wanted, (str, date, list, tuple, set, frozenset)):
                self._day(wanted)  # raises
            for each in (wanted,) if isinstance(wanted, (str, date)) else wanted:
                number += 1
                day = self._day(each)
                groups.setdefault(self._day(key) - day, {})[day.isoformat()] = None
        if number > MAX_DATES:
            raise ConditionError(f"{self._who}: dates= has {number} days: at most {MAX_DATES:,}")
        parts: list[tuple[timedelta, tuple[str, ...]]] = []
        for distance, days in sorted(groups.items()):
            found = tuple(days)
            parts += [
                (distance, found[at : at + _DAYS_PER_MATCHER])
                for at in range(0, len(found), _DAYS_PER_MATCHER)
            ]
        return parts

    def _day(self, value: object) -> date:
        try:
            if isinstance(value, date) and not isinstance(value, datetime):
                return value
            if isinstance(value, str):
                return date.fromisoformat(value)
        except ValueError:
            pass
        raise ConditionError(f'{self._who}: dates= has {shown(value)}: write days as "2026-11-20", or dates')


_DAYS_PER_MATCHER: Final = 200  # a matcher has at most 256 filters


def _matcher(
    types: tuple[str, ...],
    subject: str,
    source: str | None,
    by: By | None,
    label: str | None,
    days: tuple[str, ...] = (),
) -> Matcher:
    filters = [_one_of("type", types)] if len(types) > 1 else []
    if days:
        filters.append(_one_of("ds", days))
    return event(
        types[0] if len(types) == 1 else None,
        subject=subject,
        source=source,
        by=by,
        label=label,
        filters=filters or None,
    )


def _one_of(name: str, values: tuple[str, ...]) -> Filter:
    exact = [Exact(**{name: value}) for value in values]
    return exact[0] if len(exact) == 1 else Any(*exact)


def _numbered(label: str | None, number: int) -> str | None:
    """The label, numbered from 2 on like default labels: labels are unique in a condition."""
    return label if label is None or number == 1 else f"{label}#{number}"


def _types(who: str, known: Mapping[str, str], state: State) -> tuple[str, ...]:
    states = (state,) if isinstance(state, str) else state
    if not isinstance(states, (list, tuple)) or not states:
        raise ConditionError(
            f"{who}(state={shown(state)}): give one of {', '.join(known)}, or a list of them"
        )
    for each in states:
        if not isinstance(each, str) or each not in known:
            raise ConditionError(f"{who}(state={shown(each)}): give one of {', '.join(known)}")
    return tuple(dict.fromkeys(known[each] for each in states))


def _refuse(who: str, others: Mapping[str, object]) -> None:
    """Raise ConditionError for an unknown argument, with what to write instead."""
    for name in others:
        close = get_close_matches(name[:40], _KNOWN, n=1)
        meant = _INSTEAD.get(name) or "".join(f"{each}=" for each in close)
        raise ConditionError(f"{who}({name[:40]}=...): write {meant or 'one of ' + ', '.join(_KNOWN)}")


def _name(who: str, argument: str, value: object) -> str:
    if isinstance(value, Param):
        raise ConditionError(
            f"{who}({argument}={value!s}): a parameter stands for a whole attribute of an event: write"
            f" event(type=..., subject={value!s})"
        )
    if not isinstance(value, str) or not value:
        raise ConditionError(f"{who}: {argument} is {shown(value)}: give a name")
    if "\0" in value:
        raise ConditionError(f"{who}: {argument} is {shown(value)}: give a name without NUL")
    check_no_template(who, argument, value)
    return checked_text(who, argument, value, MAX_NAME_CHARS)


def _source(who: str, deployment: object, *parts: str) -> str | None:
    return None if deployment is None else airflow_source(_name(who, "deployment", deployment), *parts)


def _no_wildcard(who: str, argument: str, subject: str, types: tuple[str, ...]) -> None:
    """Raise ConditionError for a subject with a wildcard, with what to write instead."""
    if "*" not in subject:
        return
    if subject.index("*") == len(subject) - 1 > 0:
        instead = f"filters=[Prefix(subject={quoted(subject[:-1])})]"
    elif not subject.strip("*/"):
        instead = ""
    else:
        pattern = re.sub(r"[^A-Za-z0-9_*/-]", ".", subject).replace("*", "[^/]*")
        predicate = f"event.subject.matches('^{pattern}$')"
        instead = f"where={quoted(predicate)}"
    written = ", ".join(each for each in (f"type={quoted(types[0])}", instead) if each)
    raise ConditionError(
        f"{who}({argument}={shown(subject)}): * is not a wildcard. For several of them write"
        f' event({written}), with by= as a path such as "data.ds"'
    )


def _check_path(who: str, by: object, attributes: frozenset[str], members: frozenset[str] | None) -> None:
    """Raise ConditionError for a path that no such event has, with what to write instead.

    members: of the data; None if they are not known.
    """
    if not isinstance(by, str) or is_template(by):
        return  # event() says what is wrong
    base = parse_path(by).base
    if not base.startswith(DATA):
        if base not in attributes:
            of_data = members is None or base in members
            hint = f' For the member of its data write by="data.{base[:80]}".' if of_data else ""
            raise ConditionError(
                f"{who}: by={quoted(by[:100])}: its events have no attribute {shown(base)}.{hint}"
                f" They have {', '.join(sorted(attributes))}."
            )
    elif members is not None and (member := base.removeprefix(DATA).split(".")[0]) not in members:
        raise ConditionError(
            f"{who}: by={quoted(by[:100])}: the data of its events have no member {shown(member)}. They have"
            f" {', '.join(sorted(members))}."
        )


def _delta(who: str, offset: object) -> timedelta:
    if isinstance(offset, str):
        return timedelta(milliseconds=duration_ms(f"{who}: offset", offset, zero=True))
    if not isinstance(offset, timedelta):
        raise ConditionError(f"{who}: offset is {shown(offset)}: give a timedelta, or a text such as '1d'")
    return offset
