"""The listener: emits an event when a DAG run or a task instance ends, in the process that ends it.

docs/use/events.md lists which process emits what. A hook only builds the event and puts it into the outbox.
A failure is logged as a warning and never raised into Airflow.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from pluggy import HookimplMarker

from ...events.outbox import Outbox
from ...events.tracing import continued
from ...events.visible import visible_logger
from ...triggers.task_state import state_of
from .airflow_objects import (
    dag_run_completion,
    is_of_dag_test,
    run_of,
    tags_of,
    task_instance_completion,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...events.completions import Completion
    from ...events.emitter import Emitter
    from ...triggers.settings import ListenerSettings

log = visible_logger(__name__)
hookimpl = HookimplMarker("airflow")

_WHO: Final = "Interlock's listener"
_REMEDY: Final = (
    "Run `airflow interlock reconcile` to emit events that this process does not emit before it ends."
)


class CompletionListener:
    """Airflow calls its methods. Registered if `[interlock] listener` is set."""

    def __init__(self, settings: ListenerSettings) -> None:
        self._settings = settings
        # By process id: a forked process has neither the thread nor the connections of its parent's outbox,
        # and must not close them either.
        self.outboxes: dict[int, Outbox] = {}

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
        # Airflow calls this for each try; a task that will be retried has not ended.
        if text_of(task_instance.state) != "up_for_retry":
            self._task_ended(task_instance, "failed")

    @hookimpl
    def on_task_instance_skipped(self, task_instance: Any) -> None:
        self._task_ended(task_instance, "skipped")

    @hookimpl
    def before_stopping(self) -> None:
        """The process ends: waits for pending events, at most `listener_timeout`."""
        outbox = self.outboxes.get(os.getpid())
        if outbox is not None:
            outbox.flush()

    def _run_ended(self, run: Any, state: str) -> None:
        if "dag_run" in self._settings.kinds:
            self._emit(run, lambda deployment: dag_run_completion(run, state, deployment))

    def _task_ended(self, ti: Any, state: str) -> None:
        if "task_instance" in self._settings.kinds:
            self._emit(
                ti,
                lambda deployment: task_instance_completion(ti, run_of(ti), state, deployment),
                lambda: _is_final(ti, state),
            )

    def _emit(
        self,
        ended: Any,
        completion: Callable[[str], Completion],
        is_final: Callable[[], bool] = lambda: True,
    ) -> None:
        from ...triggers.settings import settings

        try:
            if not self._settings.wants(ended.dag_id, lambda: tags_of(ended)) or is_of_dag_test(ended):
                return
            if not is_final():
                return
            event = continued(completion(settings().deployment).event(), ended)
        except Exception as e:  # noqa: BLE001  # whatever Airflow's objects raise must not fail the task
            log.warning(
                "Interlock's listener cannot emit the completion event of %s: %s: %s",
                ended.dag_id, type(e).__name__, e,
            )  # fmt: skip
            return
        pid = os.getpid()
        # No lock: a fork would inherit a lock that another thread holds, and nobody would release it.
        outbox = self.outboxes.get(pid) or self.outboxes.setdefault(
            pid,
            Outbox(
                self._emitter, self._settings.timeout_s, log=log, who=_WHO, remedy=_REMEDY, count=_counter()
            ),
        )
        outbox.put(event)

    def _emitter(self) -> Emitter:
        from ...events.emitter import Emitter
        from ...triggers.settings import bus_config

        config = bus_config(_connection(self._settings.connection))
        # The outbox logs problems once in its own words, so the client's own log lines are disabled.
        return Emitter(
            config.client, config.topic("event"), logger=logging.Logger("interlock", logging.CRITICAL + 1)
        )


def _is_final(ti: Any, state: str) -> bool:
    """Returns whether Airflow has stored this state, or is about to; otherwise logs why no event is emitted.

    A task's process calls the listener even if Airflow rejected the state: a task that was marked or cleared
    while it ran has another state in the database, and another process emits the event for that one. Airflow
    stores a success before the call, and a failure or skip after it, when the process has ended.
    """
    if not _in_task_process():
        return True
    stored = state_of(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
    if stored == state or (stored == "running" and state != "success"):
        return True
    log.info(
        "Interlock's listener emits no event for %s of %s: it ended as %s, but its state in Airflow is %s",
        ti.task_id, ti.dag_id, state, stored or "cleared",
    )  # fmt: skip
    return False


def _counter() -> Callable[[str, int], None]:
    """Returns what counts the process's events in Airflow's metrics."""
    from ...triggers.settings import settings
    from ...triggers.stats import airflow_stats, listener_counter, task_stats

    of = settings()
    return listener_counter(task_stats() if _in_task_process() else airflow_stats(), of.bus, of.deployment)


def _connection(conn_id: str) -> Any:
    """Reads the connection: in a task's process through the supervisor, else from secrets and database."""
    if _in_task_process():
        from airflow.sdk import BaseHook

        return BaseHook.get_connection(conn_id)
    from airflow.models.connection import Connection

    return Connection.get_connection_from_secrets(conn_id)


def _in_task_process() -> bool:
    return hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS")
