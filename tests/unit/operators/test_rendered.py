"""How Airflow shows a wait: its rendered fields, and its task in the serialised DAG."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
from airflow.serialization.serialized_objects import DagSerialization
from interlock import ConditionError, Event, event
from interlock.operators import EmitEventOperator, EventSensor, dispatch_dag
from interlock.operators.target import RunRefused
from interlock.testing import runs_of, wait_of
from interlock.testing.task_context import context_of

BRACES = event("a", by="data.day", where=r"data.x == '\x7b{ ds }}'")
FAILED = event("b", by="data.day")
PLACE = event("a", by=["data.region", "data.day"])
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def dag() -> DAG:
    with DAG("d", schedule=None, start_date=START) as dag:
        EventSensor(task_id="wait", condition=BRACES, fail_on=FAILED, key="{{ ds }}", since=START)
        EventSensor.partial(task_id="mapped", condition=FAILED).expand(key=["{{ ds }}", "x"])
    return dag


def shown(dag: DAG, task_id: str, **run: Any) -> dict[str, Any]:
    return _serialize_rendered_fields(wait_of(dag, task_id, logical_date="2026-11-20T00:00:00Z", **run).task)


def test_rendered_fields_show_the_condition_as_text_and_only_the_key_is_rendered(dag: DAG) -> None:
    assert shown(dag, "wait") == {
        "condition": str(BRACES),
        "fail_on": str(FAILED),
        "param_values": None,
        "key": "2026-11-20",
        "since": "2026-01-01 00:00:00+00:00",
    }
    mapped = shown(dag, "mapped", map_index=0)
    assert (mapped["condition"], mapped["key"]) == (str(FAILED), "2026-11-20")


def test_a_ds_key_in_a_run_without_a_logical_date_is_an_error_with_a_remedy(dag: DAG) -> None:
    message = (
        r"EventSensor 'wait': the key '\{\{ ds \}\}' cannot be rendered: 'ds' is undefined.*--logical-date"
    )
    with pytest.raises(ConditionError, match=message):
        wait_of(dag, "wait", run_after="2026-11-20T00:00:00Z")


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("key", "reason", "remedy"),
    [
        ("{{ ds }}", "'ds' is undefined", "--logical-date"),
        ("{{ dag_run.conf['day'] }}", "'dict object' has no attribute 'day'", "Use a value that each run"),
        ("{{ params.day }}", "'dict object' has no attribute 'day'", "Use a value that each run"),
    ],
)
def test_an_undefined_value_in_a_key_is_an_error_with_its_own_remedy(
    native: bool, key: str, reason: str, remedy: str
) -> None:
    """The kind of apache/airflow#48473. With native objects it was a bare UndefinedError of Jinja."""
    with DAG("d", schedule=None, start_date=START, render_template_as_native_obj=native) as dag:
        EventSensor(task_id="wait", condition=FAILED, key=key)
    with pytest.raises(ConditionError) as raised:
        wait_of(dag, "wait", run_after="2026-11-20T00:00:00Z")
    assert f"cannot be rendered: {reason}. " in str(raised.value)
    assert remedy in str(raised.value)
    assert ("--logical-date" in str(raised.value)) == (key == "{{ ds }}")


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("arguments", [{"conf": {"a": ["{{ ds }}"]}}, {"logical_date": "{{ ds }}"}])
def test_an_undefined_value_in_a_template_of_a_dispatcher_is_named(
    native: bool, arguments: dict[str, Any]
) -> None:
    """With native objects it was "Object of type StrictUndefined is not JSON serializable"."""
    dag = dispatch_dag(
        "d", condition=FAILED, trigger_dag_id="t", render_template_as_native_obj=native, **arguments
    )
    met = Event.of("b", "/b", time=START, data={"day": "2026-11-20"})
    with pytest.raises(RunRefused, match=r"the template of .* failed: UndefinedError: 'ds' is undefined"):
        runs_of(dag, [met])


def test_a_dispatcher_shows_its_templates_unrendered() -> None:
    conf = {"day": "{{ firing.key }}"}
    dag = dispatch_dag("d", condition=FAILED, trigger_dag_id="t", conf=conf, note="{{ firing.fired_at }}")
    context = context_of(dag.get_task("dispatch").prepare_for_execution(), run_after=START)
    context["task"].render_template_fields(context)
    shown = _serialize_rendered_fields(context["task"])
    assert shown == {
        "condition": str(FAILED),
        "param_values": None,
        "trigger_dag_id": "t",
        "conf": conf,
        "logical_date": None,
        "note": "{{ firing.fired_at }}",
        "partition_key": None,
        "since": None,
    }
    [task] = DagSerialization.to_dict(dag)["dag"]["tasks"]
    assert task["__var"]["condition"] == str(FAILED)


def test_a_changed_condition_changes_the_serialised_dag(dag: DAG) -> None:
    tasks = DagSerialization.to_dict(dag)["dag"]["tasks"]
    serialized = {task["__var"]["task_id"]: task["__var"] for task in tasks}
    assert serialized["wait"]["condition"] == str(BRACES)
    assert serialized["mapped"]["partial_kwargs"]["condition"] == str(FAILED)


def test_the_tasks_log_has_no_line_about_the_truth_value_of_conditions(
    dag: DAG, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        shown(dag, "wait")
    assert "Unable to check if the value" not in capfd.readouterr().out + caplog.text


def test_a_key_without_a_matcher_that_reads_one_is_an_error_that_names_the_task() -> None:
    with pytest.raises(ConditionError, match="EventSensor 'wait': a key is given, but no matcher reads one"):
        EventSensor(task_id="wait", condition=event("a"), key="{{ ds }}")


def test_a_dict_that_the_dag_file_changes_afterwards_does_not_change_the_tasks_made_with_it() -> None:
    """The kind of apache/airflow#977 and apache/airflow#72544: all had the values of the last."""
    given: dict[str, Any] = {"place": {}}
    key = ["eu", "2026-11-20"]
    emits, dispatchers, waits = [], [], []
    with DAG("d", schedule=None):
        for region in ("eu", "us"):
            given["place"]["region"] = key[0] = region
            emits.append(EmitEventOperator(task_id=region, type="x", data=given))
            dispatchers.append(dispatch_dag(region, condition=FAILED, trigger_dag_id="t", conf=given))
            waits.append(EventSensor(task_id=f"wait_{region}", condition=PLACE, key=key))
    given["place"]["region"] = "?"
    assert [each.data for each in emits] == [{"place": {"region": "eu"}}, {"place": {"region": "us"}}]
    assert [each.get_task("dispatch").conf for each in dispatchers] == [each.data for each in emits]
    assert [each.key[0] for each in waits] == ["eu", "us"]
