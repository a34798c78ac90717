"""The listener: tells the bus when a DAG run or a task instance ends, from whichever process ends it.

docs/events.md says which process tells what. A hook only makes the event and puts it into the outbox; what
goes wrong is a warning and never an error of Airflow's.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from pluggy import HookimplMarker

from .ends import dag_run_end, is_of_dag_test, run_of, tags_of, task_instance_end, word_of
from .outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..events.emitter import Emitter
    from ..events.ends import End
    from ..triggers.settings import ListenerSettings

log = logging.getLogger(__name__)
hookimpl = HookimplMarker("airflow")


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
        # Called for each try: one that is retried has not ended. Nor is a state true that Airflow refused to
        # take, as of a task that was marked or cleared meanwhile.
        refused = getattr(task_instance, "_terminal_state_send_failed", False)
        if word_of(task_instance.state) != "up_for_retry" and not refused:
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
            self._tell(ti, lambda deployment: task_instance_end(ti, run_of(ti), state, deployment))

    def _tell(self, ended: Any, end: Callable[[str], End]) -> None:
        from ..triggers.settings import settings

        try:
            if not self._settings.wants(ended.dag_id, lambda: tags_of(ended)) or is_of_dag_test(ended):
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
            pid, Outbox(self._emitter, self._settings.timeout_s)
        )
        outbox.put(event)

    def _emitter(self) -> Emitter:
        from ..events.emitter import Emitter
        from ..triggers.settings import bus_config

        config = bus_config(_connection(self._settings.connection))
        # What the client logs of its own is told once, in the outbox's words.
        return Emitter(
            config.client, config.topic("event"), logger=logging.Logger("interlock", logging.CRITICAL + 1)
        )


def _connection(conn_id: str) -> Any:
    """Through the supervisor in a task's process, else from the secrets and the database."""
    import sys

    if hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS"):
        from airflow.sdk import BaseHook

        return BaseHook.get_connection(conn_id)
    from airflow.models.connection import Connection

    return Connection.get_connection_from_secrets(conn_id)
