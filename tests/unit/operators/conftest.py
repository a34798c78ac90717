"""A fake supervisor for tasks, with the parts of Airflow's API server that they use."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import (
    DRCount,
    ErrorResponse,
    GetDRCount,
    MaskSecret,
    OKResponse,
    TriggerDagRun,
)


@pytest.fixture(autouse=True)
def _connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = '{"bootstrap.servers": "x:1", "sasl.password": "hush"}'
    found = partial(Connection, conn_type="kafka", extra=extra)
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: found(conn_id=conn_id))


class Supervisor:
    """Keeps the runs that were created. As in Airflow, ids and logical dates of a DAG are unique.

    over: the ids of runs that have ended. refusals: what is raised for the next runs, in turn; None: nothing.
    killed_after: how many runs are created before the task's process is killed. fails_with: the ids of runs
    with which the API server fails each time. queries: how many it was sent.
    """

    def __init__(self) -> None:
        self.runs: dict[str, TriggerDagRun] = {}
        self.over: set[str] = set()
        self.refusals: list[Exception | None] = []
        self.killed_after: int | None = None
        self.fails_with: set[str] = set()
        self.queries = 0

    def send(self, message: Any) -> Any:
        if isinstance(message, MaskSecret):
            return None
        self.queries += 1
        if isinstance(message, GetDRCount):
            return DRCount(count=sum(self._is_asked_for(run, message) for run in self.runs.values()))
        assert isinstance(message, TriggerDagRun)
        if self.killed_after is not None and len(self.runs) >= self.killed_after:
            raise KeyboardInterrupt
        if self.refusals and (refusal := self.refusals.pop(0)) is not None:
            raise refusal
        if message.run_id in self.fails_with:
            raise self.refusal(500, "Internal Server Error")
        dates = {run.logical_date for run in self.runs.values()} - {None}
        if message.run_id in self.runs or message.logical_date in dates:
            return ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
        self.runs[message.run_id] = message
        return OKResponse(ok=True)

    def _is_asked_for(self, run: TriggerDagRun, message: GetDRCount) -> bool:
        state = "success" if run.run_id in self.over else "queued"
        return (
            run.dag_id == message.dag_id
            and (message.run_ids is None or run.run_id in message.run_ids)
            and (message.logical_dates is None or run.logical_date in message.logical_dates)
            and (message.states is None or state in message.states)
        )

    @staticmethod
    def refusal(status: int, reason: str, message: str = "because") -> AirflowRuntimeError:
        """Returns an answer of the API server as the supervisor passes it on."""
        body = {"reason": reason, "message": message}
        detail = {"status_code": status, "message": "", "detail": {"detail": body}}
        return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    made = Supervisor()
    monkeypatch.setattr("airflow.sdk.execution_time.task_runner.SUPERVISOR_COMMS", made, raising=False)
    return made
