"""`runs_of`: the runs that a dispatcher would create for given events, without Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..conditions.rehearsal import Given, Moment, played
from ..engine.records import Registration
from ..engine.records.firing_fit import fit_action
from ..events.plain_text import takes_plain_text
from ..operators.dispatch import TASK_ID, DispatchOperator
from ..triggers.argument_checks import ArgumentChecks
from .firing import action_of_rehearsed, as_ms
from .task_context import check_dag, context_of

if TYPE_CHECKING:
    from airflow.sdk import DAG


_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DispatchedRun:
    """A run that a dispatcher creates. at: when its firing was decided."""

    dag_id: str
    run_id: str
    conf: dict[str, Any]
    logical_date: datetime | None
    note: str | None
    partition_key: str | None
    at: datetime


@takes_plain_text
def runs_of(dag: DAG, events: Iterable[Given], *, until: Moment | None = None) -> list[DispatchedRun]:
    """Returns the runs that the dispatcher `dag` creates for these events, in order.

    dag: made by `dispatch_dag`. events, until: as for `rehearse`. Raises RunRefused, with the text of the
    dispatcher's log, if a firing cannot have a run. Ignores whether other runs have the same logical date.
    """
    check_dag(ArgumentChecks("runs_of()"), dag)
    operator: Any = dag.get_task(TASK_ID) if TASK_ID in dag.task_ids else None
    if not isinstance(operator, DispatchOperator):
        raise ValueError(f"{dag.dag_id!r} is not a DAG made by dispatch_dag")
    context = context_of(operator, run_after=_START)
    name, since_ms = f"testing/dispatch/{dag.dag_id}", as_ms(operator.since or _START)
    condition = operator._bound(context)
    registration = Registration.of(name, condition, None, since_ms, kind="durable")
    moments = {"start": None, "since": operator.since, "until": until}
    runs = []
    for firing in played("runs_of", condition, events, None, moments).firings:
        action = action_of_rehearsed(registration, condition, firing, firing.fired_at)
        run = operator._run(fit_action(action).firing, context)
        runs.append(DispatchedRun(dag_id=operator.trigger_dag_id, at=firing.fired_at, **run))
    return runs
