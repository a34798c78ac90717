"""What the log of a waiting task says of where to look, and of the firing that resumed it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import airflow
import pytest
from airflow.sdk.exceptions import TaskDeferred
from interlock import event
from interlock.engine.records import FiringRecord
from interlock.operators import EventSensor, deliver_dag, dispatch_dag
from interlock.operators.wait_log import firing_line, tab_address

from tests.kit.state_store import StateStore, task_instance
from tests.unit.operators.waiting import PAIR, context, deferred, sensor

FIRED = datetime(2026, 11, 20, 6, 41, 7, 311_000, UTC)
RESUMED = FIRED + timedelta(seconds=9, milliseconds=812)
RUN = "manual__2026-11-20T06:40:00+00:00"


def ms(hour: int, minute: int, second: float) -> int:
    return int((datetime(2026, 11, 20, hour, minute, tzinfo=UTC).timestamp() + second) * 1000)


def firing(**changes: Any) -> FiringRecord:
    form = {"specversion": "1.0", "id": "1", "source": "/s", "type": "x"}
    given = {
        "id": "7c1f",
        "outcome": "met",
        "key": "2026-11-20",
        "fired_at": FIRED.isoformat(timespec="milliseconds"),
        "events": {"rates": [{**form, "time": "2026-11-20T06:41:06.8Z"}], "orders": [form]},
        "origins": {
            "rates": [{"topic": "t", "partition": 0, "offset": 7, "timestamp_ms": ms(6, 41, 7.204)}],
            "orders": [{"topic": "t", "partition": 0, "offset": 5, "timestamp_ms": ms(6, 40, 58.902)}],
        },
    }
    return FiringRecord(**{**given, **changes})  # type: ignore[arg-type]


def of_task(**changes: Any) -> Any:
    return {"ti": task_instance(dag_id="daily", run_id=RUN, task_id="group.ready", **changes)}


@pytest.mark.parametrize(
    ("base", "begins"),
    [
        (
            "https://airflow.example.com/prod/",
            "https://airflow.example.com/prod/dags/daily/runs/manual__2026",
        ),
        (None, "/dags/daily/runs/manual__2026"),
    ],
    ids=["with a base_url", "without"],
)
def test_the_tabs_address_is_that_of_airflows_page_of_the_task_instance(
    monkeypatch: pytest.MonkeyPatch, base: str | None, begins: str
) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL", raising=False)
    if base is not None:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    address = tab_address(of_task())
    assert address.startswith(begins)
    page = unquote(urlsplit(address).path).removeprefix("/prod")
    assert page == f"/dags/daily/runs/{RUN}/tasks/group.ready/plugin/interlock-wait"


def test_airflows_ui_has_a_page_at_this_address() -> None:
    """The routes are in no documentation: this is the UI that the tested Airflow serves."""
    assets = Path(airflow.__file__).parent / "ui" / "dist" / "assets"
    routes = {
        route
        for script in assets.glob("index-*.js")
        for route in re.findall(r"path:[`\"]([^`\"]+)[`\"]", script.read_text())
    }
    task = "dags/:dagId/runs/:runId/tasks/:taskId"
    assert {task, f"{task}/mapped/:mapIndex", "plugin/:page/*"} <= routes


def test_the_address_of_a_mapped_task_has_its_index() -> None:
    assert tab_address(of_task(map_index=0)).endswith("/tasks/group.ready/mapped/0/plugin/interlock-wait")


def test_the_address_has_no_text_that_could_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = of_task()
    given["ti"].dag_id = "a/b c\n\u202e?#"
    assert "/dags/a%2Fb%20c%0A%E2%80%AE%3F%23/runs/" in tab_address(given)


def test_a_firing_is_told_in_a_line_with_what_each_step_took() -> None:
    assert firing_line(firing(), RESUMED) == (
        "Firing 7c1f: met by rates, orders. Its last event, rates, was recorded at 2026-11-20T06:41:07.204Z, "
        "404ms after its time; it was decided 107ms later, and resumed this task 9s812ms after that."
    )


def test_an_event_without_a_time_of_its_own_leaves_that_step_out() -> None:
    events = {label: [{"dataref": "kafka:t/0/7"}] for label in ("rates", "orders")}
    assert " was recorded at 2026-11-20T06:41:07.204Z; it was decided 107ms later" in firing_line(
        firing(events=events), RESUMED
    )


def test_an_expiry_is_told_from_when_it_was_due() -> None:
    text = firing_line(firing(outcome="expired", timer_ms=ms(6, 41, 0)), RESUMED)
    assert text == (
        "Firing 7c1f: expired. It was due at 2026-11-20T06:41:00Z; it was decided 7s311ms later, and resumed "
        "this task 9s812ms after that."
    )


def test_many_events_are_counted_by_label() -> None:
    form = {"type": "x"}
    events = {"rows": [form] * 300, "a": [form], "b": [form], "c": [form]}
    assert firing_line(firing(events=events, origins={}), RESUMED) == (
        "Firing 7c1f: met by rows (300 events), a, b and 1 more. It was decided at 2026-11-20T06:41:07.311Z, "
        "and resumed this task 9s812ms after that."
    )


def test_clocks_that_differ_give_no_negative_times() -> None:
    assert "resumed this task 0s after that" in firing_line(firing(), FIRED - timedelta(hours=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"fired_at": "t"},
        {"fired_at": "9999-12-31T23:59:59+00:00"},
        {"origins": {"rates": [{"timestamp_ms": "soon"}], "orders": [{}]}},
        {"origins": {"rates": [{"timestamp_ms": 2**62}], "orders": [{"timestamp_ms": -(2**62)}]}},
        {"events": {"rates": [{"time": 7}], "orders": [{"time": "9999-99-99T00:00:00Z"}]}},
        {"timer_ms": 2**62},
    ],
    ids=str,
)
def test_a_firing_with_odd_times_is_told_all_the_same(changes: dict[str, Any]) -> None:
    assert firing_line(firing(**changes), RESUMED).startswith("Firing 7c1f: met by rates, orders.")


def test_a_wait_says_first_what_it_waits_for_and_where_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    log = SimpleNamespace(info=lambda text, *arguments: written.append(text % arguments), warning=print)
    monkeypatch.setattr(EventSensor, "log", log)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")
    deferred(sensor(PAIR, key="2026-11-20"), context())
    waits, looks = written
    assert waits.startswith(f"Waiting for {PAIR} with key '2026-11-20', events since ")
    assert looks == (
        "The tab Wait shows what is met and what is missing: "
        "https://airflow.example.com/dags/dag/runs/run/tasks/wait/plugin/interlock-wait"
    )


@pytest.mark.parametrize("kind", ["dispatch", "deliver"])
def test_a_dispatcher_and_a_delivery_say_where_to_look_too(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = (
        dispatch_dag("d", condition=event("x"), trigger_dag_id="t")
        if kind == "dispatch"
        else deliver_dag("d", condition=event("x"), conn_id="c")
    )
    operator, written = made.task_dict[kind], []
    log = SimpleNamespace(info=lambda text, *arguments: written.append(text % arguments), warning=print)
    monkeypatch.setattr(type(operator), "log", log)
    run = SimpleNamespace(start_date=FIRED, run_after=FIRED)
    ti = task_instance(task_id=kind)
    with pytest.raises(TaskDeferred):
        operator.execute({"ti": ti, "dag_run": run, "task_state_store": StateStore()})
    assert written[1].endswith(f"/dags/dag/runs/run/tasks/{kind}/plugin/interlock-wait")
