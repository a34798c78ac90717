"""`EmitEventOperator` and `emit`: which events they emit, and that success means acknowledged."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG
from interlock.events.emitter import Delivery
from interlock.events.errors import EventError, InterlockError
from interlock.operators import EmitEventOperator, emit
from interlock.testing.task_context import context_of

from tests.kit.state_store import task_instance

# in the package, `emit` is the function
module = importlib.import_module("interlock.operators.emit")

TI = task_instance(id="try-1")


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events that operators emit; an exception in it is raised."""
    events: list[Any] = []

    class FakeEmitter:
        def __init__(self, client: Any, topic: str) -> None:
            assert client["bootstrap.servers"] == "x:1"
            self.topic = topic

        def __enter__(self) -> FakeEmitter:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def emit(self, event: Any, timeout_s: float) -> Delivery:
            if events and isinstance(events[0], Exception):
                raise events[0]
            events.append((event, timeout_s))
            return Delivery(self.topic, 3, 17)

    monkeypatch.setattr(module, "Emitter", FakeEmitter)
    return events


def run(**arguments: Any) -> dict[str, Any]:
    return EmitEventOperator(task_id="task", type="done", **arguments).execute({"ti": TI})


def test_it_returns_the_events_offset_after_the_acknowledgement(emitted: list[Any]) -> None:
    result = run(data={"rows": 3}, subject="s", extensions={"partitionkey": "eu"}, delivery_timeout=5.0)
    [(event, timeout_s)] = emitted
    assert timeout_s == 5.0
    assert (event.type, event.source, event.subject) == ("done", "/airflow/dag/task", "s")
    assert (event.payload, event.partitionkey) == ({"rows": 3}, "eu")
    assert result == {
        "source": event.source,
        "id": event.id,
        "topic": "interlock-event",
        "partition": 3,
        "offset": 17,
    }


def test_bus_and_source_can_be_given(emitted: list[Any]) -> None:
    assert run(bus="other", source="/mine")["topic"] == "other-event"
    assert emitted[0][0].source == "/mine"


def test_a_repeat_of_the_task_emits_the_same_event(emitted: list[Any]) -> None:
    assert run(data=1) == run(data=1)
    assert emitted[0] == emitted[1]


def test_a_broker_that_does_not_acknowledge_fails_the_task(emitted: list[Any]) -> None:
    emitted.append(InterlockError("not acknowledged"))
    with pytest.raises(InterlockError, match="not acknowledged"):
        run()


@pytest.mark.parametrize("name", ["id", "source", "type", "subject", "data"])
def test_an_extension_with_the_name_of_an_argument_is_refused(emitted: list[Any], name: str) -> None:
    with pytest.raises(EventError, match=rf"extensions cannot contain {name}"):
        run(extensions={name: "x"})
    assert emitted == []


@pytest.mark.parametrize(
    "wrong", [{"extensions": {"Not-A-Name": "x"}}, {"data": float("nan")}, {"source": "a\nb"}]
)
def test_an_invalid_event_fails_the_task_before_anything_is_sent(
    emitted: list[Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(EventError):
        run(**wrong)
    assert emitted == []


def rendered(*, native: bool = False, **arguments: Any) -> None:
    """Renders the arguments for a run without a logical date and a partition, and executes the operator."""
    with DAG("dag", schedule=None, render_template_as_native_obj=native) as dag:
        EmitEventOperator(task_id="task", **{"type": "done", **arguments})
    task = dag.get_task("task").prepare_for_execution()
    context = context_of(task, run_after=datetime(2026, 11, 20, tzinfo=UTC))
    task = context["task"]
    task.render_template_fields(context)
    task.execute({"ti": TI})


@pytest.mark.parametrize(
    "arguments",
    [
        {"subject": "{{ partition_key }}"},
        {"source": "{{ partition_key or '' }}"},
        {"type": "{{ dag_run.partition_key }}"},
        {"extensions": {"partitionkey": "{{ partition_key }}"}},
    ],
)
def test_an_attribute_whose_template_gives_nothing_fails_the_task(
    emitted: list[Any], arguments: dict[str, Any]
) -> None:
    """The kind of PrefectHQ/prefect#16399: the event had the subject "None", and met no wait."""
    [name] = arguments.get("extensions", arguments)
    with pytest.raises(EventError, match=f"EmitEventOperator 'task': the template of {name} gave nothing"):
        rendered(**arguments)
    assert emitted == []


def test_names_that_json_writes_twice_are_an_import_error() -> None:
    """The event had a member twice, which each reader resolves in its own way."""
    for data in ({1: "a", "1": "b"}, {"rows": [{1: "{{ ds }}", "1": "b"}]}):
        with pytest.raises(EventError, match=r"'task': data cannot be .*: .*two names that JSON"):
            EmitEventOperator(task_id="task", type="done", data=data)


@pytest.mark.parametrize(
    "arguments", [{"source": "{{ partition_key }}"}, {"extensions": {"partitionkey": "{{ partition_key }}"}}]
)
def test_a_template_that_gives_none_as_native_object_fails_the_task(
    emitted: list[Any], arguments: dict[str, Any]
) -> None:
    """The event had the default source, or no partitionkey."""
    with pytest.raises(EventError, match="gave nothing"):
        rendered(native=True, **arguments)
    assert emitted == []


def test_an_output_of_another_task_that_is_none_is_no_subject(emitted: list[Any]) -> None:
    """The event had no subject, and met no wait."""
    with DAG("dag", schedule=None) as dag:
        EmitEventOperator(task_id="task", type="done", subject=EmptyOperator(task_id="before").output)
    task = dag.get_task("task").prepare_for_execution()
    context = context_of(task, run_after=datetime(2026, 11, 20, tzinfo=UTC), upstream={"before": None})
    context["task"].render_template_fields(context)
    with pytest.raises(EventError, match="the template of subject gave nothing"):
        context["task"].execute(context)
    assert emitted == []


def test_a_text_that_is_none_and_an_empty_extension_are_emitted(emitted: list[Any]) -> None:
    rendered(subject="None", extensions={"note": "{{ partition_key or '' }}"}, data="{{ partition_key }}")
    [(event, _)] = emitted
    assert (event.subject, event.attributes["note"], event.payload) == ("None", "", "None")


@pytest.mark.parametrize("arguments", [{"data": {"day": ["{{ ds }}"]}}, {"subject": "{{ ds }}"}])
def test_an_undefined_value_that_jinja_returns_as_native_object_is_named(
    emitted: list[Any], arguments: dict[str, Any]
) -> None:
    """It was "Object of type StrictUndefined is not JSON serializable"."""
    with pytest.raises(EventError, match=r"EmitEventOperator 'task': 'ds' is undefined.*--logical-date"):
        rendered(native=True, **arguments)
    assert emitted == []


def test_the_events_arguments_are_templated() -> None:
    assert {"type", "source", "subject", "data", "extensions"} == set(EmitEventOperator.template_fields)


def emit_in(ti: Any, monkeypatch: pytest.MonkeyPatch, *calls: dict[str, Any]) -> list[str]:
    """Returns the event ids of a task with these calls of emit()."""
    monkeypatch.setattr("airflow.sdk.get_current_context", lambda: {"ti": ti})
    return [str(emit("done", **arguments)["id"]) for arguments in calls]


def of_try(number: int, max_tries: int = 1) -> Any:
    return task_instance(1, try_number=number, max_tries=max_tries, id=f"{number}/{max_tries}")


def test_emit_emits_as_the_operator_does(emitted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    [id_] = emit_in(TI, monkeypatch, {"data": 1, "subject": "s", "extensions": {"partitionkey": "eu"}})
    [(event, timeout_s)] = emitted
    assert (event.id, event.type, event.source, event.subject) == (id_, "done", "/airflow/dag/task", "s")
    assert (event.payload, event.partitionkey, timeout_s) == (1, "eu", 30.0)


def test_a_retry_repeats_the_ids_of_emit_in_order_and_a_clear_changes_them(
    emitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, retry, cleared = (
        emit_in(ti, monkeypatch, {}, {}) for ti in (of_try(1), of_try(2), of_try(3, max_tries=3))
    )
    assert first == retry
    assert len({*first, *cleared}) == 4


def test_an_ordinal_identifies_an_event_independent_of_order(
    emitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    eu, us = {"ordinal": "eu"}, {"ordinal": "us"}
    assert emit_in(of_try(1), monkeypatch, eu, us) == emit_in(of_try(2), monkeypatch, us, eu)[::-1]


def resumed(task: Any, **given: Any) -> Any:
    """Returns the context of a task as Airflow makes it, with more values from its server."""
    with DAG("dag", schedule=None) as dag:
        made = task()
    ti = context_of(dag.get_task(made.task_id), run_after=datetime(2026, 11, 20, tzinfo=UTC))["ti"]
    for name, value in given.items():
        setattr(ti._ti_context_from_server, name, value)
    ti._cached_template_context = None
    return ti.get_template_context()


def empty() -> Any:
    return EmptyOperator(task_id="task")


def sensor() -> Any:
    return PythonSensor(task_id="task", python_callable=bool, mode="reschedule")


@pytest.mark.parametrize(
    ("task", "from_server"),
    [(empty, {"next_method": "execute_complete"}), (sensor, {"task_reschedule_count": 1})],
    ids=["deferred", "rescheduled"],
)
def test_a_resumed_task_must_give_ordinals(
    task: Any, from_server: dict[str, Any], emitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = resumed(task, **from_server)
    monkeypatch.setattr("airflow.sdk.get_current_context", lambda: context)
    with pytest.raises(EventError, match="needs ordinal="):
        emit("done")
    assert emitted == []
    assert emit("done", ordinal="after")["id"]


@pytest.mark.parametrize(
    ("task", "from_server"),
    [(empty, {}), (sensor, {}), (empty, {"task_reschedule_count": 1})],
    ids=["first process", "first poke", "its DAG file was not found at first"],
)
def test_a_task_in_its_first_process_numbers_its_events(
    task: Any, from_server: dict[str, Any], emitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = resumed(task, **from_server)
    monkeypatch.setattr("airflow.sdk.get_current_context", lambda: context)
    assert emit("done")["id"] != emit("done")["id"]


def test_emit_outside_of_a_task_is_refused(emitted: list[Any]) -> None:
    with pytest.raises(EventError, match="outside of a running task"):
        emit("done")
    assert emitted == []
