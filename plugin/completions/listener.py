"""The listener: tells the bus when a DAG run or a task instance ends, from whichever process ends it.

docs/use/events.md says which process tells what. A hook only makes the event and puts it into the outbox;
what goes wrong is a warning and never an error of Airflow's.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from pluggy import HookimplMarker

from ...events.outbox import Outbox
from ...triggers.task_state import state_of
from .airflow_objects import dag_run_end, is_of_dag_test, run_of, tags_of, task_instance_end, word_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...events.completions import End
    from ...events.emitter import Emitter
    from ...triggers.settings import ListenerSettings

log = logging.getLogger(__name__)
hookimpl = HookimplMarker("airflow")

_WHO: Final = "Interlock's listener"
_REMEDY: Final = "What this process has not emitted when it ends, airflow interlock reconcile does."


class EndListener:
    """Airflow calls its methods; registered where `[interlock] listener` is set."""

    def __init__(self, settings: ListenerSettings) -> None:
        self._settings = settings
        # By process: a fork has neither the thread nor the connections of the process it came from, and must
        # not let go of them either.
        self._outboxes: dict[int, Outbox] = {}

    @hookimpl
    def on_dag_run_success(self, dag_run: Any) -> None:
        self._run_ended(dag_run, "success")

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any) -> None:
        self._run_ended(dag_run, "failed")

    @hookimpl
    def on_task_instance_success(self, task_instance: Any) -> None:
        self._task_ended(task_instance, "success")

    @hookimpl
    def on_task_instance_failed(self, task_instance: Any) -> None:
        # Called for each try: one that is retried has not ended.
        if word_of(task_instance.state) != "up_for_retry":
            self._task_ended(task_instance, "failed")

    @hookimpl
    def on_task_instance_skipped(self, task_instance: Any) -> None:
        self._task_ended(task_instance, "skipped")

    @hookimpl
    def before_stopping(self) -> None:
        """The process ends: wait for what is under way, within the bound."""
        outbox = self._outboxes.get(os.getpid())
        if outbox is not None:
            outbox.flush()

    def _run_ended(self, run: Any, state: str) -> None:
        if "dag_run" in self._settings.kinds:
            self._tell(run, lambda deployment: dag_run_end(run, state, deployment))

    def _task_ended(self, ti: Any, state: str) -> None:
        if "task_instance" in self._settings.kinds:
            self._tell(
                ti,
                lambda deployment: task_instance_end(ti, run_of(ti), state, deployment),
                lambda: _stands(ti, state),
            )

    def _tell(self, ended: Any, end: Callable[[str], End], stands: Callable[[], bool] = lambda: True) -> None:
        from ...triggers.settings import settings

        try:
            if not self._settings.wants(ended.dag_id, lambda: tags_of(ended)) or is_of_dag_test(ended):
                return
            if not stands():
                return
            event = end(settings().deployment).event()
        except Exception as e:  # noqa: BLE001  # Airflow's objects are not ours: a task must not feel it
            log.warning(
                "Interlock's listener cannot tell the end of %s: %s: %s", ended.dag_id, type(e).__name__, e
            )
            return
        pid = os.getpid()
        # No lock: one that another thread held at a fork would never be free again.
        outbox = self._outboxes.get(pid) or self._outboxes.setdefault(
            pid,
            Outbox(self._emitter, self._settings.timeout_s, log=log, who=_WHO, remedy=_REMEDY),
        )
        outbox.put(event)

    def _emitter(self) -> Emitter:
        from ...events.emitter import Emitter
        from ...triggers.settings import bus_config

        config = bus_config(_connection(self._settings.connection))
        # What the client logs of its own is told once, in the outbox's words.
        return Emitter(
            config.client, config.topic("event"), logger=logging.Logger("interlock", logging.CRITICAL + 1)
        )


def _stands(ti: Any, state: str) -> bool:
    """Whether the end is what Airflow has, or is about to have; the task's log says where it is not.

    A task's process calls the listener whatever Airflow said to its end: one that was marked or cleared while
    it ran has another state there, and what became of it, others tell. A success is stored before the call, a
    failure or skip only after it, when the process is gone.
    """
    if not _in_task_process():
        return True
    stored = state_of(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
    if stored == state or (stored == "running" and state != "success"):
        return True
    log.info(
        "Interlock's listener does not tell that %s of %s ended as %s: Airflow has it as %s",
        ti.task_id, ti.dag_id, state, stored or "cleared",
    )  # fmt: skip
    return False


def _connection(conn_id: str) -> Any:
    """Through the supervisor in a task's process, else from the secrets and the database."""
    if _in_task_process():
        from airflow.sdk import BaseHook

        return BaseHook.get_connection(conn_id)
    from airflow.models.connection import Connection

    return Connection.get_connection_from_secrets(conn_id)


def _in_task_process() -> bool:
    return hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS")
