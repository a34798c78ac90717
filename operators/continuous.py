"""A DAG that always has one run, whose task defers. Each new run uses the edited DAG file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import DAG

from ..events.completions import AIRFLOW_ID
from ..triggers.argument_checks import ArgumentChecks

_START: Final = datetime(2020, 1, 1, tzinfo=UTC)  # @continuous needs a start date in the past
# dagrun_timeout would end the run that keeps `since` while nothing is registered yet.
_RESERVED: Final = (
    "schedule",
    "catchup",
    "max_active_runs",
    "max_consecutive_failed_dag_runs",
    "dagrun_timeout",
)
_MAX_TASKS: Final = 1_000_000

# Arguments of the DAG's task. A lasting failure must not end the run: @continuous would start the next one
# at once.
TASK_ARGUMENTS: Final[Mapping[str, Any]] = {
    "retries": 1000,
    "retry_delay": timedelta(seconds=10),  # a broker that restarts is back by then
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=5),
    # Override default_args: otherwise the run after a failed one would wait for ever.
    "depends_on_past": False,
    "wait_for_downstream": False,
    # Airflow leaves a task out of runs before its own start date: they would end at once, one after the
    # other. The DAG has that of default_args.
    "start_date": None,
    # Of one task. With 0 it would stay scheduled for ever.
    "max_active_tis_per_dag": None,
    "max_active_tis_per_dagrun": None,
}


def continuous_dag(function: str, dag_id: str, arguments: Mapping[str, Any]) -> DAG:
    """Returns the DAG without its task. Raises ValueError for what Airflow refuses, or what is set here.

    function: what the author calls; for errors.
    """
    check_dag_id(ArgumentChecks(function), "dag_id", dag_id)
    checks = ArgumentChecks(f"{function} {dag_id!r}")
    # Airflow starts no run without a start date, and says nothing.
    arguments = {name: each for name, each in arguments.items() if name != "start_date" or each is not None}
    if "max_active_tasks" in arguments:
        checks.whole_number("max_active_tasks", arguments["max_active_tasks"], 1, _MAX_TASKS)
    for name in _RESERVED:
        if name in arguments:
            raise ValueError(f"{checks.who}: {name} cannot be set; leave it out.")
    tags, default_args = arguments.get("tags"), arguments.get("default_args")
    if tags is not None and (
        not isinstance(tags, (list, tuple, set, frozenset)) or not all(isinstance(tag, str) for tag in tags)
    ):
        checks.fail("tags", tags, "a list of texts")
    if default_args is not None and not (
        isinstance(default_args, Mapping) and all(isinstance(name, str) for name in default_args)
    ):
        checks.fail("default_args", default_args, "a dict of names and values")
    first = {} if (default_args or {}).get("start_date") else {"start_date": _START}
    try:
        return DAG(
            dag_id,
            schedule="@continuous",
            catchup=False,
            max_active_runs=1,
            # Runs may fail, again and again: a limit in [core] would let Airflow pause the DAG.
            max_consecutive_failed_dag_runs=0,
            **{**first, **arguments},
        )
    except Exception as e:  # Airflow's checks raise errors of many types
        raise ValueError(
            f"{checks.who}: Airflow refuses the arguments of the DAG, {', '.join(arguments)}: {e}"
        ) from e


def check_dag_id(checks: ArgumentChecks, name: str, dag_id: object) -> None:
    if not isinstance(dag_id, str) or not AIRFLOW_ID.fullmatch(dag_id):
        checks.fail(name, dag_id, "the id of a DAG: letters, digits, '_', '-' and '.', at most 250")
