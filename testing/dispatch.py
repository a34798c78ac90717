"""A dispatcher without Kafka: the runs that given events would bring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..conditions import rehearse
from ..engine.records.firing import fitted
from ..operators.dispatch import TASK_ID, DispatchOperator
from .condition import Given, Moment
from .firing import action_of_rehearsed
from .task_context import context_of

if TYPE_CHECKING:
    from airflow.sdk import DAG


_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DispatchedRun:
    """A run that a dispatcher creates; `at`: when its firing was decided."""

    dag_id: str
    run_id: str
    conf: dict[str, Any]
    logical_date: datetime | None
    note: str | None
    partition_key: str | None
    at: datetime


def runs_of(dag: DAG, events: Iterable[Given], *, until: Moment | None = None) -> list[DispatchedRun]:
    """The runs that the dispatcher `dag`, made by `dispatch_dag`, creates for these events, in their order.

    events, until: as for `rehearse`. A firing of which no run can be made raises what the dispatcher's log
    would say. Logical dates that are taken are not looked at: no other runs are known here.
    """
    operator: Any = dag.get_task(TASK_ID) if TASK_ID in dag.task_ids else None
    if not isinstance(operator, DispatchOperator):
        raise ValueError(f"{dag.dag_id!r} is no DAG that dispatch_dag made")
    context = context_of(operator, run_after=_START)
    subscription, since = f"testing/dispatch/{dag.dag_id}", operator.since or _START
    runs = []
    for firing in rehearse(operator.condition, events, since=operator.since, until=until):
        action = action_of_rehearsed(
            subscription, operator.condition, None, since, firing, firing.fired_at, "durable"
        )
        run = operator._run(fitted(action).firing, context)
        runs.append(DispatchedRun(dag_id=operator.trigger_dag_id, at=firing.fired_at, **run))
    return runs
