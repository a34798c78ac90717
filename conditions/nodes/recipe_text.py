"""How a DAG writes the matcher of a completion event: with a recipe, not with event()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...events.taxonomy import (
    DAG_RUN,
    DAG_RUN_SUCCEEDED,
    SPARK_APPLICATION,
    SPARK_APPLICATION_SUCCEEDED,
    TASK_INSTANCE,
    TASK_INSTANCE_SUCCEEDED,
)
from ..filters.filter import quoted

if TYPE_CHECKING:
    from .matcher import Matcher

_DEFAULTS: Final = (DAG_RUN_SUCCEEDED, TASK_INSTANCE_SUCCEEDED, SPARK_APPLICATION_SUCCEEDED)


def keyed_recipe(matcher: Matcher) -> str | None:
    """The recipe of the matcher with the commonest key, `dag_run("x", by="logical_date")`, for a message.

    None for a matcher of other events, of several types, or without a subject. `...`: it has more arguments.
    """
    exact = dict(matcher.exact)
    wanted, subject = exact.pop("type", ""), exact.pop("subject", None)
    if subject is None:
        return None
    by = "logical_date"
    if wanted in DAG_RUN.values():
        name, given = "dag_run", [subject]
    elif wanted in TASK_INSTANCE.values():
        name, given = "task_instance", subject.split("/", 1)
    elif wanted in SPARK_APPLICATION.values():
        name, given, by = "spark_application", [subject], "data.date"
    else:
        return None
    more = exact or matcher.filters or matcher.where or wanted not in _DEFAULTS
    return f"{name}({', '.join(map(quoted, given))}{', ...' if more else ''}, by={quoted(by)})"
