"""The template context of a task in a DAG run that does not exist."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from ..triggers.argument_checks import ArgumentChecks

if TYPE_CHECKING:
    from airflow.sdk import Context


class _TaskInstance(RuntimeTaskInstance):
    """Reads the results of upstream tasks from `_upstream`, not from Airflow's API."""

    _upstream: Mapping[str, Any]

    def xcom_pull(
        self,
        task_ids: Any = None,
        dag_id: Any = None,  # noqa: ARG002
        key: str = BaseXCom.XCOM_RETURN_KEY,
        *_: Any,
        **__: Any,
    ) -> Any:
        if isinstance(task_ids, (list, tuple)):
            return [self._given(task_id, key) for task_id in task_ids]
        return self._given(task_ids, key)

    def _given(self, task_id: Any, key: str) -> Any:
        if task_id not in self._upstream:
            raise AssertionError(
                f"The task reads the result of {task_id!r}, which the test does not give: add "
                f"upstream={{{task_id!r}: ...}}."
            )
        result = self._upstream[task_id]
        if key == BaseXCom.XCOM_RETURN_KEY:
            return result
        # Another key: with multiple_outputs each member of a result is an XCom as well.
        if not isinstance(result, Mapping) or key not in result:
            raise AssertionError(
                f"The task reads the XCom {key!r} of {task_id!r}, which the test does not give: add "
                f"upstream={{{task_id!r}: {{{key!r}: ...}}}}."
            )
        return result[key]


class _StateStore(dict[str, Any]):
    """The task state store of a first try."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = value


def check_dag(checks: ArgumentChecks, dag: object) -> None:
    """Raises ValueError for what is not a DAG."""
    if not isinstance(dag, DAG):
        checks.fail("dag", dag, "a DAG, such as dags_in(folder)['its id']")


def context_of(
    task: Any,
    *,
    run_after: datetime,
    logical_date: datetime | None = None,
    run_id: str = "testing",
    conf: Mapping[str, Any] | None = None,
    partition_key: str | None = None,
    upstream: Mapping[str, Any] | None = None,
    map_index: int = -1,
) -> Context:
    """Returns the template context of `task`, as Airflow makes it for a first try."""
    run = DagRun.model_construct(
        dag_id=task.dag_id,
        run_id=run_id,
        logical_date=logical_date,
        data_interval_start=logical_date,
        data_interval_end=None if logical_date is None else max(logical_date, run_after),
        run_after=run_after,
        start_date=run_after,
        end_date=None,
        clear_number=0,
        run_type="manual" if logical_date is None else "scheduled",
        state="running",
        conf=dict(conf or {}),
        consumed_asset_events=[],
        partition_key=partition_key,
        partition_date=None,
        note=None,
        team_name=None,
    )
    instance = _TaskInstance.model_construct(
        id=uuid.UUID(int=0),
        dag_id=task.dag_id,
        task_id=task.task_id,
        run_id=run_id,
        try_number=1,
        map_index=map_index,
        max_tries=task.retries or 0,
        start_date=datetime.now(UTC),
        task=task,
        _ti_context_from_server=TIRunContext.model_construct(dag_run=run, max_tries=task.retries or 0),
        _upstream=upstream or {},
    )
    context: Context = instance.get_template_context()
    context["task_state_store"] = _StateStore()  # type: ignore[typeddict-item]  # Airflow's needs its API
    return context
