"""The Jinja environment that renders the templates of a task, and what it may give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from jinja2 import Undefined, UndefinedError

from ..triggers.argument_checks import is_rendered_later

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from jinja2 import Environment


_OF_LOGICAL_DATE: Final = re.compile(
    r"'(logical_date|(prev_)?data_interval_\w+|(ds|ts)(_\w+)?)' is undefined"
)


def environment_of(task: BaseOperator) -> Callable[[], Environment] | None:
    """Returns a function that creates it; None if the task's DAG, which may add filters, is not known yet."""
    return None if task.get_dag() is None else task.get_template_env


def check_defined(value: object) -> None:
    """Raises UndefinedError if the rendered value is undefined, or holds such a value.

    With `render_template_as_native_obj` Jinja returns it instead of raising the error.
    """
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()  # documented by Jinja
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            check_defined(each)


def instead_of_undefined(error: UndefinedError) -> str:
    """Returns what to do about a value that a run does not have."""
    if _OF_LOGICAL_DATE.search(str(error)) is None:
        return "Use a value that each run of the DAG has, or give this run the value."
    return (
        "A run that was triggered without a logical date has no `ds`, `ts` and `logical_date`. Trigger it "
        "with one (airflow dags trigger --logical-date), or use a value that each run has, such as "
        "{{ dag_run.conf['date'] }} or {{ dag_run.run_after | ds }}."
    )


def is_missing(written: object, value: object, missing: tuple[str | None, ...] = ("None", "", None)) -> bool:
    """Returns whether a template gave nothing: a template gives text, so None becomes the text "None".

    It stays None with `render_template_as_native_obj`, and as the output of another task.
    """
    return is_rendered_later(written) and value in missing


def gave_nothing(who: str, names: Sequence[str]) -> str:
    """Returns the text of the error for arguments of which `is_missing` is true."""
    return (
        f"{who}: the template of {', '.join(names)} gave nothing, which is 'None' or an empty text, or the "
        "output of another task is None: this run has no such value. Use a value that every run of the DAG "
        "has."
    )
