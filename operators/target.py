"""The DAG that gets the runs, as Airflow's supervisor of a task lets one see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType

IN_FLIGHT: Final = ("queued", "running")
MOST_OF_A_DATE: Final = 10_000
WINDOW: Final = 100  # logical dates that are asked for at once; they travel in a URL
MICROSECOND: Final = timedelta(microseconds=1)
# What Airflow answers, with status 400, where it is this run that cannot be, and another might.
_OF_THE_RUN: Final = frozenset({"value_error", "not_partitioned", "invalid_partition_key"})
# And where it is no run of this DAG.
_OF_THE_TARGET: Final = frozenset({"not_found", "import_errors", "denied_run_type"})
_NOT_ALLOWED: Final = frozenset({401, 403, 404})


class TargetRefuses(AirflowException):
    """The target takes no runs now: it is missing, or has import errors."""


class TargetFails(TargetRefuses):
    """Airflow failed, and does not say whether with this run or with all: an error 500, no answer."""


class RunRefused(ValueError):
    """The target does not take this run; the text says why."""


class Target:
    """One DAG, for one pass of a dispatcher."""

    def __init__(self, dag_id: str) -> None:
        self.dag_id = dag_id
        self._taken: dict[datetime, int] = {}  # microseconds beyond a date that are taken, as far as known

    def in_flight(self) -> int:
        """How many of its runs are queued or running."""
        return self._count(states=list(IN_FLIGHT))

    def create(
        self,
        run_id: str,
        conf: dict[str, Any],
        logical_date: datetime | None,
        note: str | None,
        partition_key: str | None,
    ) -> bool:
        """Create this run; False if it was there. RunRefused, TargetRefuses or TargetFails.

        A logical date that another run has gives the next free microsecond.
        """
        with self._refusals(logical_date):
            if logical_date is None:
                if self._send(run_id, conf, None, note, partition_key):
                    return True
                if self._exists(run_id):
                    return False
                raise TargetFails(
                    f"Airflow says that {run_id!r} of {self.dag_id!r} exists, and does not show it."
                )
            beyond = self._taken.get(logical_date)
            if beyond is None:  # asked first: a collision is an error in the API server's log
                beyond = self._next_free(logical_date, 1) if self._count(logical_dates=[logical_date]) else 0
            while beyond < MOST_OF_A_DATE:
                if self._send(run_id, conf, logical_date + beyond * MICROSECOND, note, partition_key):
                    self._taken[logical_date] = beyond + 1
                    return True
                if self._exists(run_id):  # Airflow's answer is the same for a run id and a logical date
                    return False
                beyond = self._next_free(logical_date, beyond + 1)
            raise RunRefused(f"{MOST_OF_A_DATE} runs of {self.dag_id!r} have the logical date {logical_date}")

    def _send(
        self,
        run_id: str,
        conf: dict[str, Any],
        logical_date: datetime | None,
        note: str | None,
        partition_key: str | None,
    ) -> bool:
        """False where Airflow says that the run exists."""
        from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

        message = TriggerDagRun(
            dag_id=self.dag_id,
            run_id=run_id,
            conf=conf,
            logical_date=logical_date,
            note=note,
            partition_key=partition_key,
        )
        answer = _supervisor().send(message)
        if isinstance(answer, ErrorResponse):
            if answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
                return False
            raise AirflowRuntimeError(answer)
        return True

    def _exists(self, run_id: str) -> bool:
        return self._count(run_ids=[run_id]) > 0

    def _next_free(self, date: datetime, beyond: int) -> int:
        """Where the next one may be free; it is tried, and another may be faster."""
        while beyond < MOST_OF_A_DATE:
            window = [date + n * MICROSECOND for n in range(beyond, beyond + WINDOW)]
            taken = self._count(logical_dates=window)
            if taken < WINDOW:
                return beyond + taken
            beyond += WINDOW
        return beyond

    def _count(self, **which: Any) -> int:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        return int(RuntimeTaskInstance.get_dr_count(dag_id=self.dag_id, **which))

    @contextmanager
    def _refusals(self, logical_date: datetime | None) -> Iterator[None]:
        """What Airflow's answers mean for who creates a run."""
        try:
            yield
        except AirflowRuntimeError as e:
            raise self._refusal(e) from e
        except OverflowError:
            raise RunRefused(f"there is no logical date after {logical_date} that is free") from None

    def _refusal(self, error: AirflowRuntimeError) -> Exception:
        told: Any = error.error.detail or {}
        status, reason = told.get("status_code"), told.get("detail") or {}
        reason = reason.get("detail", reason) if isinstance(reason, dict) else reason
        named = reason.get("reason") if isinstance(reason, dict) else None
        text = str((reason.get("message") if isinstance(reason, dict) else None) or reason or error)[:500]
        if status == 422 or named in _OF_THE_RUN:
            return RunRefused(f"{self.dag_id!r} does not take it: {text}")
        sure = status in _NOT_ALLOWED or named in _OF_THE_TARGET
        kind = TargetRefuses if sure else TargetFails
        return kind(f"No run of {self.dag_id!r} can be created, which is tried again: {text}")


def passes_partition_keys() -> bool:
    """Whether a partition key that a task gives reaches the run: 3.3's supervisor drops it."""
    import inspect

    from airflow.sdk.api.client import DagRunOperations

    return "partition_key" in inspect.signature(DagRunOperations.trigger).parameters


def _supervisor() -> Any:
    from airflow.sdk.execution_time import task_runner

    return task_runner.SUPERVISOR_COMMS
