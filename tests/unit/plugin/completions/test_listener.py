"""The listener: which completion events it emits, and that no failure reaches Airflow."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.plugins_manager import is_valid_plugin
from interlock import Event
from interlock.plugin import entry
from interlock.plugin.completions import listener as listener_module
from interlock.plugin.completions.listener import CompletionListener
from interlock.triggers.settings import KINDS, ListenerSettings, patterns_of

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run_of(**given: Any) -> Any:
    about: dict[str, Any] = {
        "dag_id": "daily", "run_id": "r", "run_type": "scheduled", "run_after": NOON, "logical_date": NOON,
        "data_interval_start": NOON, "data_interval_end": NOON, "partition_key": None, "clear_number": 0,
        "start_date": NOON, "end_date": NOON, "triggered_by": "timetable",
        "dag": SimpleNamespace(tags={"gold"}),
    }  # fmt: skip
    return SimpleNamespace(**(about | given))


def in_task(state: str = "success", **given: Any) -> Any:
    """A task instance as in its own process."""
    about: dict[str, Any] = {
        "dag_id": "daily", "run_id": "r", "task_id": "load", "map_index": None, "try_number": 2,
        "max_tries": 1, "start_date": NOON, "end_date": NOON, "state": state,
        "task": SimpleNamespace(dag=SimpleNamespace(tags=["gold"])),
        "get_template_context": lambda: {"dag_run": run_of(clear_number=3)},
    }  # fmt: skip
    return SimpleNamespace(**(about | given))


def in_database(state: str = "success", **given: Any) -> Any:
    """The same task instance as in scheduler and API server."""
    ti = in_task(state, map_index=-1, task=None, dag_run=run_of(clear_number=3), **given)
    ti.dag_run.dag, ti.dag_run.dag_model = None, SimpleNamespace(tags=[SimpleNamespace(name="gold")])
    del ti.get_template_context
    return ti


class FakeOutbox:
    """Keeps its events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.flushed = 0
        self.put = self.events.append

    def flush(self) -> None:
        self.flushed += 1


def listening(**settings: Any) -> tuple[CompletionListener, FakeOutbox]:
    listener = CompletionListener(ListenerSettings(**({"kinds": frozenset(KINDS)} | settings)))
    outbox = FakeOutbox()
    listener.outboxes[os.getpid()] = outbox  # type: ignore[assignment]
    return listener, outbox


def test_each_hook_emits_its_event_type() -> None:
    listener, outbox = listening()
    listener.on_dag_run_success(run_of())
    listener.on_dag_run_failed(run_of())
    listener.on_task_instance_success(in_task())
    listener.on_task_instance_failed(in_task("failed"))
    listener.on_task_instance_skipped(in_task("skipped"))
    assert [event.type.removeprefix("interlock.airflow.") for event in outbox.events] == [
        "dag_run.succeeded",
        "dag_run.failed",
        "task_instance.succeeded",
        "task_instance.failed",
        "task_instance.skipped",
    ]
    assert {event.source for event in outbox.events} == {"/airflow/daily", "/airflow/daily/load"}


@pytest.mark.parametrize("ti", [in_task, in_database])
def test_a_missing_end_date_becomes_now_and_does_not_change_the_id(ti: Any) -> None:
    """Airflow passes a task that skipped itself without its end date."""
    listener, outbox = listening()
    before = datetime.now(UTC)
    listener.on_task_instance_skipped(ti("skipped", end_date=None))
    listener.on_task_instance_skipped(ti("skipped"))
    undated, dated = outbox.events
    assert undated.time is not None
    assert before <= undated.time <= datetime.now(UTC)
    payload: Any = undated.payload
    assert payload["ended_at"] == undated.attributes["time"]
    assert (undated.id, dated.time) == (dated.id, NOON)


@pytest.mark.parametrize("ti", [in_task, in_database])
def test_a_task_that_will_be_retried_emits_nothing(ti: Any) -> None:
    listener, outbox = listening()
    listener.on_task_instance_failed(ti("up_for_retry"))
    assert outbox.events == []


@pytest.mark.parametrize(
    ("ended", "stored", "emits"),
    [
        ("success", "success", True),  # stored before the hook is called
        ("success", "failed", False),  # it was marked while it ran
        ("success", "restarting", False),  # it was cleared
        ("success", None, False),
        ("success", "running", False),
        ("failed", "running", True),  # stored after the process has ended
        ("failed", "failed", True),
        ("failed", "success", False),
        ("failed", "restarting", False),
        ("skipped", "running", True),
        ("skipped", "success", False),
    ],
)
@pytest.mark.parametrize("map_index", [-1, 3])
def test_a_tasks_process_emits_only_a_state_that_airflow_stores(
    monkeypatch: pytest.MonkeyPatch, ended: str, stored: str | None, emits: bool, map_index: int
) -> None:
    name = "load" if map_index < 0 else f"load_{map_index}"
    queries = in_task_process(monkeypatch, lambda: {"r": {name: stored}})
    listener, outbox = listening()
    getattr(listener, f"on_task_instance_{ended}")(in_task(ended, map_index=map_index))
    assert len(outbox.events) == emits
    assert queries == [{"dag_id": "daily", "run_ids": ["r"], "task_ids": ["load"], "map_index": map_index}]


def test_nothing_is_emitted_if_the_tasks_state_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> Any:
        raise OSError("the API server is away")

    in_task_process(monkeypatch, away)
    listener, outbox = listening()
    listener.on_task_instance_failed(in_task("failed"))
    assert outbox.events == []
    assert "cannot emit the completion event of daily: OSError: the API server is away" in caplog.text


def in_task_process(monkeypatch: pytest.MonkeyPatch, states: Callable[[], Any]) -> list[dict[str, Any]]:
    """Returns the list of the process's queries for task states; `states` answers them."""
    from airflow.sdk.execution_time import task_runner

    queries: list[dict[str, Any]] = []

    def get(**query: Any) -> Any:
        queries.append(query)
        return states()

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", object(), raising=False)
    monkeypatch.setattr(task_runner.RuntimeTaskInstance, "get_task_states", get)
    return queries


def test_worker_scheduler_and_api_server_emit_the_same_event() -> None:
    listener, outbox = listening()
    listener.on_task_instance_success(in_task())
    listener.on_task_instance_success(in_database())
    assert outbox.events[0] == outbox.events[1]


def test_a_retry_repeats_the_id_and_a_clear_changes_it() -> None:
    listener, outbox = listening()
    for try_number, max_tries in ((1, 1), (2, 1), (3, 3)):
        listener.on_task_instance_success(in_task(try_number=try_number, max_tries=max_tries))
    for clear_number in (0, 0, 1):
        listener.on_dag_run_success(run_of(clear_number=clear_number))
    ids = [event.id for event in outbox.events]
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == ids[4] != ids[5]


def test_only_the_configured_kinds_are_emitted() -> None:
    listener, outbox = listening(kinds=frozenset({"dag_run"}))
    listener.on_task_instance_success(in_task())
    listener.on_task_instance_failed(in_task("failed"))
    listener.on_task_instance_skipped(in_task("skipped"))
    assert outbox.events == []
    listener, outbox = listening(kinds=frozenset({"task_instance"}))
    listener.on_dag_run_success(run_of())
    listener.on_dag_run_failed(run_of())
    assert outbox.events == []


@pytest.mark.parametrize(
    ("dags", "tags", "emits"),
    [
        ("", "", True),
        ("daily", "", True),
        ("dai*,other", "", True),
        ("other", "", False),
        ("!daily", "", False),
        ("d*,!daily", "", False),
        ("!other", "", True),
        ("Daily", "", False),
        ("", "gold", True),
        ("", "silver,gold", True),
        ("", "silver", False),
        ("daily", "silver", False),
    ],
)
def test_dags_are_chosen_by_id_pattern_and_tag(dags: str, tags: str, emits: bool) -> None:
    wanted = {"dags": patterns_of(dags), "tags": frozenset(filter(None, tags.split(",")))}
    listener, outbox = listening(**wanted)
    listener.on_dag_run_success(run_of())
    listener.on_task_instance_success(in_task())
    listener.on_task_instance_success(in_database())
    assert len(outbox.events) == (3 if emits else 0)


def test_dag_test_emits_nothing_for_runs() -> None:
    listener, outbox = listening()
    listener.on_dag_run_success(run_of(triggered_by="test"))
    assert outbox.events == []


def test_dag_test_emits_nothing_for_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time import supervisor, task_runner

    comms = object.__new__(supervisor.InProcessSupervisorComms)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    listener, outbox = listening()
    listener.on_task_instance_success(in_task())
    assert outbox.events == []


def test_an_error_in_a_hook_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    listener, outbox = listening()

    def no_context() -> Any:
        raise RuntimeError("no context")

    listener.on_task_instance_success(in_task(get_template_context=no_context))
    [record] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "cannot emit the completion event of daily: RuntimeError: no context" in record.getMessage()
    assert outbox.events == []


def test_a_process_flushes_only_its_own_outbox_at_its_end() -> None:
    listener, outbox = listening()
    listener.before_stopping()
    assert outbox.flushed == 1
    listener.outboxes = {os.getpid() + 1: outbox}  # type: ignore[dict-item]  # as after a fork
    listener.before_stopping()
    assert outbox.flushed == 1


@pytest.mark.parametrize("in_task_of_its_own", [True, False])
def test_events_are_counted_by_the_metrics_of_the_process(
    monkeypatch: pytest.MonkeyPatch, in_task_of_its_own: bool
) -> None:
    """A task's process has metrics of its own; those of the other processes are not set up there."""
    from airflow.observability import stats as of_airflow
    from airflow.sdk.observability import stats as of_tasks

    counted: list[tuple[str, int]] = []
    used, unused = (of_tasks, of_airflow) if in_task_of_its_own else (of_airflow, of_tasks)
    monkeypatch.setattr(used, "incr", lambda stat, count, *, tags: counted.append((stat, count)))
    monkeypatch.setattr(unused, "incr", lambda *_, **__: pytest.fail("nobody would see it"))
    monkeypatch.setattr(listener_module, "_in_task_process", lambda: in_task_of_its_own)
    listener_module._counter()("emitted", 3)
    assert counted[-1] == ("interlock.listener.emitted", 3)


def registered(monkeypatch: pytest.MonkeyPatch, value: str) -> list[str]:
    """Returns the listeners that Airflow registers with this setting."""
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER", value)
    return [type(each).__name__ for each in entry._listeners()]


def test_the_listener_is_registered_only_if_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_valid_plugin(entry.InterlockPlugin)
    assert entry.InterlockPlugin.listeners == []
    assert registered(monkeypatch, "") == []
    assert registered(monkeypatch, "task_instance, dag_run") == ["CompletionListener"]


def test_an_invalid_setting_is_logged_and_registers_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert registered(monkeypatch, "dag_runs") == []
    assert "[interlock] listener = 'dag_runs': give dag_run or task_instance" in caplog.text


def test_loading_the_plugin_loads_no_kafka_client_and_nothing_of_the_receiver_and_the_page() -> None:
    """Every process of Airflow loads it, and only the API server asks for what it mounts."""
    code = (
        "import os, sys, interlock.plugin.entry as entry\n"
        "heavy = ('fastapi', 'starlette', 'interlock.receiver', 'interlock.plugin.api_server', "
        "'interlock.plugin.page', 'interlock.engine')\n"
        "loaded = [name for name in heavy if name in sys.modules]\n"
        "assert [app['name'] for app in entry.InterlockPlugin.react_apps] == ['Interlock', 'Wait']\n"
        "loaded += [name for name in heavy[:2] if name in sys.modules]\n"
        "del os.environ['AIRFLOW__INTERLOCK__RECEIVER_IN_API_SERVER']\n"
        "os.environ['AIRFLOW__INTERLOCK__PAGE_CONNECTIONS'] = ''\n"
        "assert entry.InterlockPlugin.fastapi_apps == entry.InterlockPlugin.react_apps == []\n"
        "loaded += [name for name in heavy[:2] if name in sys.modules]\n"
        "import interlock.plugin.completions.listener\n"
        "print([*loaded, *(name for name in ('confluent_kafka',) if name in sys.modules)])"
    )
    environment = {**os.environ, "AIRFLOW__INTERLOCK__RECEIVER_IN_API_SERVER": "kafka_default"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_hooks_match_airflows_specifications() -> None:
    from airflow.listeners.listener import ListenerManager, dagrun, lifecycle, taskinstance

    manager = ListenerManager()
    for spec in (lifecycle, dagrun, taskinstance):
        manager.add_hookspecs(spec)
    listener, outbox = listening()
    manager.add_listener(listener)
    manager.pm.check_pending()
    hook = manager.hook
    hook.on_dag_run_success(dag_run=run_of(), msg="")
    hook.on_dag_run_failed(dag_run=run_of(), msg="")
    hook.on_task_instance_success(previous_state=None, task_instance=in_database())
    hook.on_task_instance_failed(previous_state=None, task_instance=in_database("failed"), error="e")
    hook.on_task_instance_skipped(previous_state=None, task_instance=in_database("skipped"))
    hook.before_stopping(component=object())
    assert (len(outbox.events), outbox.flushed) == (5, 1)
