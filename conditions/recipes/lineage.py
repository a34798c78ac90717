"""Matchers for OpenLineage events, which the receiver takes; docs/use/openlineage.md describes the events."""

from __future__ import annotations

import re
from typing import Final

from ...events import openlineage
from ...events.attributes import CORE, shown
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from ..filters.filter import quoted
from ..nodes.matcher import Matcher, event
from ..nodes.paths import with_offset
from ..nodes.templates import check_no_template
from ..nodes.zoned import zoned
from .arguments import (
    By,
    Offset,
    State,
    as_timedelta,
    check_path,
    checked_name,
    matcher,
    refuse_wildcard,
    types_of,
)

# Short names for `by`, and their paths in the event's data.
_KEYS: Final = {
    "nominal_time": "data.run.facets.nominalTime.nominalStartTime",
    "run_id": "data.run.runId",
    "parent_run_id": "data.run.facets.parent.run.runId",
}
# The events have these attributes and no others. Their data may have any member.
_ATTRIBUTES: Final = frozenset({*CORE, openlineage.OUTPUTS, openlineage.MEASURED})
_COMPLETE: Final = openlineage.RUN_TYPES["complete"]
_MOST_CHARS: Final = 4000


@takes_plain_text
def openlineage_run(
    job: str,
    namespace: str | None = None,
    state: State = "complete",
    *,
    by: By | None = None,
    offset: Offset | None = None,
    label: str | None = None,
) -> Matcher:
    """A matcher for the run events of an OpenLineage job.

    job: its name, which each integration forms by its own rule; docs/use/openlineage.md has the rules.
    namespace: of the job. Without it a job of this name in any namespace counts.
    state: "complete", "fail", "abort", "start", "running", "other", or a list of them.
    by: the key: "nominal_time" (the start of the interval for which Airflow, say, runs the job), "run_id",
        "parent_run_id", or a path such as "data.job.namespace"; several make a composite key. Without it any
        run counts.
    offset: how far the awaited run lies before the key, as for `dag_run`; needs one `by` of a date or time.
    """
    who = "openlineage_run"
    types, name = types_of(who, openlineage.RUN_TYPES, state), checked_name(who, "job", job)
    refuse_wildcard(who, "job", name, types, _KEYS["nominal_time"])
    return matcher(types, name, _source(who, namespace), _key(f"{who}({shown(job)})", by, offset), label)


@takes_plain_text
def dataset_written(
    namespace: str,
    name: str,
    *,
    measured: bool = False,
    by: By | None = None,
    offset: Offset | None = None,
    label: str | None = None,
) -> Matcher:
    """A matcher for complete runs of any job that name this dataset as an output.

    namespace, name: of the dataset, or those that its facet `symlinks` has: Spark gives a table the path of
        its files as name, and the table's name in this facet.
    measured: only if the event says how much was written (facet `outputStatistics`). Give True for Spark,
        which also sends "complete" for a write that failed, then without this facet.
    by, offset, label: as for `openlineage_run`.
    """
    who = "dataset_written"
    space = checked_name(who, "namespace", namespace, _MOST_CHARS)
    _refuse_wildcards(who, space, checked_name(who, "name", name, _MOST_CHARS))
    if not isinstance(measured, bool):
        raise ConditionError(f"{who}(measured={shown(measured)}): give True or False")
    names = openlineage.MEASURED if measured else openlineage.OUTPUTS
    word = openlineage.dataset_reference(space, name)
    return event(
        _COMPLETE,
        where=f"has(event.{names}) && event.{names}.contains(' {word} ')",
        by=_key(f"{who}({shown(namespace)}, {shown(name)})", by, offset),
        label=label,
    )


def _source(who: str, namespace: object) -> str | None:
    return None if namespace is None else openlineage.source_of(checked_name(who, "namespace", namespace))


def _key(who: str, by: By | None, offset: Offset | None) -> By | None:
    if offset is not None:
        if not isinstance(by, str):
            raise ConditionError(f'{who}: offset needs one path in by=, to a date or time: by="nominal_time"')
        return with_offset(_path(who, by), as_timedelta(who, offset))
    if isinstance(by, (list, tuple)):
        return [_path(who, each) if isinstance(each, str) else each for each in by]
    return _path(who, by) if isinstance(by, str) else by


def _path(who: str, by: str) -> str:
    """The path of a short name, also of one in day(), hour(), week() or month()."""
    check_no_template("event", "by", by)
    found = zoned(by)
    path = _KEYS.get(by, by) if found is None else found._replace(of=_KEYS.get(found.of, found.of)).text
    check_path(who, path, _ATTRIBUTES, None)
    return path


def _refuse_wildcards(who: str, namespace: str, name: str) -> None:
    """Raises ConditionError for a name with a wildcard, with what to write instead."""
    if "*" not in namespace + name:
        return
    word = openlineage.dataset_reference(namespace, name)
    if word.index("*") == len(word) - 1:
        predicate = f"event.outputs.contains(' {word[:-1]}')"
    else:
        pattern = re.sub(r"[^A-Za-z0-9_/:@=%*-]", ".", word).replace("*", "[^ ]*")
        predicate = f"event.outputs.matches(' {pattern} ')"
    raise ConditionError(
        f"{who}({shown(namespace)}, {shown(name)}): * is not a wildcard. For several datasets write"
        f" event({quoted(_COMPLETE)}, where={quoted(predicate)})"
    )
