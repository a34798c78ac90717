"""The Jinja environment that renders the templates of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from jinja2 import Environment


def environment_of(task: BaseOperator) -> Callable[[], Environment] | None:
    """Returns a function that creates it; None if the task's DAG, which may add filters, is not known yet."""
    return None if task.get_dag() is None else task.get_template_env
