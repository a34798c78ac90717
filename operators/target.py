"""The target DAG of a dispatcher: counts and creates its runs through the task's supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType

from ..triggers.dispatch import IN_FLIGHT

if TYPE_CHECKING:
    from airflow.sdk.execution_time.comms import TriggerDagRun

MAX_RUNS_OF_A_DATE: Final = 10_000
WINDOW: Final = 100  # logical dates in one query; they are part of a URL
MICROSECOND: Final = timedelta(microseconds=1)
# Reasons in Airflow's answer that concern only this run; another run may be accepted.
_OF_THE_RUN: Final = frozenset({"value_error", "not_partitioned", "invalid_partition_key"})
# Reasons in Airflow's answer that concern all runs of the DAG.
_OF_THE_TARGET: Final = frozenset({"not_found", "import_errors", "denied_run_type"})
# HTTP statuses that concern all runs: the task has no right, or there is no such DAG.
_STATUSES_OF_THE_TARGET: Final = frozenset({401, 403, 404})


class TargetRefuses(AirflowException):
    """The target accepts no runs now: it is missing, or has import errors."""


class TargetFails(TargetRefuses):
    """Airflow failed (an error 500, no answer): whether for this run only or for all runs is unknown."""


class RunRefused(ValueError):
    """The target does not accept this run; the text says why."""


class Target:
    """The target DAG, for one resumption of the dispatcher's task."""

    def __init__(self, dag_id: str) -> None:
        self.dag_id = dag_id
        # {logical date: how many microseconds after it the next run is tried}
        self._used: dict[datetime, int] = {}

    def in_flight(self) -> int:
        """Returns how many of its runs are queued or running."""
        return self.count_runs(states=list(IN_FLIGHT))

    def create(
        self,
        run_id: str,
        conf: dict[str, Any],
        logical_date: datetime | None,
        note: str | None,
        partition_key: str | None,
    ) -> bool:
        """Creates this run; returns False if it exists. Raises RunRefused, TargetRefuses or TargetFails.

        If another run has the logical date, this one gets the next free microsecond.
        """
        from airflow.sdk.execution_time.comms import TriggerDagRun

        def created_at(date: datetime | None) -> bool:
            return self._send(
                TriggerDagRun(
                    dag_id=self.dag_id,
                    run_id=run_id,
                    conf=conf,
                    logical_date=date,
                    note=note,
                    partition_key=partition_key,
                )
            )

        with self._refusals():
            if logical_date is None:
                if created_at(None):
                    return True
                if self._exists(run_id):
                    return False
                raise TargetFails(
                    f"Airflow answers that run {run_id!r} of {self.dag_id!r} exists, but does not show it."
                )
            used = self._used.get(logical_date)
            if used is None:  # query first: a collision is an error in the API server's log
                used = (
                    self._next_free(logical_date, 1) if self.count_runs(logical_dates=[logical_date]) else 0
                )
            while used < MAX_RUNS_OF_A_DATE:
                if created_at(_after(logical_date, used)):
                    self._used[logical_date] = used + 1
                    return True
                if self._exists(run_id):  # Airflow's answer is the same for a used run id and logical date
                    return False
                used = self._next_free(logical_date, used + 1)
            raise RunRefused(
                f"{MAX_RUNS_OF_A_DATE} runs of {self.dag_id!r} have the logical date {logical_date}"
            )

    def _send(self, run: TriggerDagRun) -> bool:
        """Returns False if Airflow answers that the run exists."""
        from airflow.sdk.execution_time.comms import ErrorResponse

        answer = _supervisor().send(run)
        if isinstance(answer, ErrorResponse):
            if answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
                return False
            raise AirflowRuntimeError(answer)
        return True

    def _exists(self, run_id: str) -> bool:
        return self.count_runs(run_ids=[run_id]) > 0

    def _next_free(self, date: datetime, start: int) -> int:
        """Returns how many microseconds after `date` is probably free, at least `start`.

        It is a guess, which `create` verifies: runs may leave gaps, and another one may be created meanwhile.
        """
        while start < MAX_RUNS_OF_A_DATE:
            window = [_after(date, n) for n in range(start, start + WINDOW)]
            used = self.count_runs(logical_dates=window)
            if used < WINDOW:
                return start + used
            start += WINDOW
        return start

    def count_runs(self, **filters: Any) -> int:
        """Returns how many runs of the DAG match the filters of Airflow's query."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        return int(RuntimeTaskInstance.get_dr_count(dag_id=self.dag_id, **filters))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raises Airflow's errors as RunRefused, TargetRefuses or TargetFails."""
        try:
            yield
        except AirflowRuntimeError as e:
            raise self._refusal(e) from e

    def _refusal(self, error: AirflowRuntimeError) -> Exception:
        """Returns the error for Airflow's answer, whose reason is a text, or a dict with name and message."""
        detail: Any = error.error.detail or {}
        status, reason = detail.get("status_code"), detail.get("detail") or {}
        reason = reason.get("detail", reason) if isinstance(reason, dict) else reason
        named = reason.get("reason") if isinstance(reason, dict) else None
        text = str((reason.get("message") if isinstance(reason, dict) else None) or reason or error)[:500]
        if status == 422 or named in _OF_THE_RUN:
            return RunRefused(f"{self.dag_id!r} does not accept it: {text}")
        refuses_all = status in _STATUSES_OF_THE_TARGET or named in _OF_THE_TARGET
        kind = TargetRefuses if refuses_all else TargetFails
        id_ = reason.get("correlation-id") if isinstance(reason, dict) else None
        where = f". The API server's log has the reason, with correlation-id {id_}" if id_ else ""
        return kind(f"No run of {self.dag_id!r} can be created. The task will try again. {text}{where}")


def _after(date: datetime, microseconds: int) -> datetime:
    """Returns a later logical date. Raises RunRefused if there is none."""
    try:
        return date + microseconds * MICROSECOND
    except OverflowError:
        raise RunRefused(f"no logical date after {date} is free") from None


def passes_partition_keys() -> bool:
    """Returns whether a run gets the partition key that a task sets; Airflow 3.3's supervisor drops it."""
    import inspect

    from airflow.sdk.api.client import DagRunOperations

    return "partition_key" in inspect.signature(DagRunOperations.trigger).parameters


def _supervisor() -> Any:
    from airflow.sdk.execution_time import task_runner

    return task_runner.SUPERVISOR_COMMS
