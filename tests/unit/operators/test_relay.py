"""`relay_dag`: invalid arguments, and what the task hands to its trigger."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization
from interlock.operators import relay_dag

from tests.unit.triggers.relaying import HERE, Once


class Unserializable(Once):
    def serialize(self) -> tuple[str, dict[str, Any]]:
        raise ValueError("The scheme 'sqz' is not recognized by any of the registered providers.")


class Nameless(Once):
    def serialize(self) -> Any:
        return None, {}


GOOD: dict[str, Any] = {"trigger": Once("hush"), "type": "com.shop.order"}


def task(**arguments: Any) -> Any:
    return relay_dag("r", **GOOD | arguments).task_dict["relay"]


def deferral(operator: Any) -> dict[str, Any]:
    """The kwargs of its trigger."""
    context: Any = {"ti": SimpleNamespace(dag_id="r", task_id="relay")}
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(context)
    assert (raised.value.method_name, raised.value.timeout) == ("resume", None)
    kwargs: dict[str, Any] = raised.value.trigger.serialize()[1]
    return kwargs


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"trigger": "sqs"}, "relay_dag 'r': trigger is 'sqs'; give one of Airflow's triggers"),
        ({"trigger": Once}, "trigger is .*; give one of Airflow's triggers"),
        ({"trigger": Unserializable()}, "cannot be serialized: ValueError: The scheme 'sqz'"),
        ({"trigger": Nameless()}, "does not return a class path"),
        ({"type": None}, "give the type of the events"),
        ({"type": ""}, "type is ''"),
        ({"type": 5}, "type is 5"),
        ({"type": "interlock.dag_run.success"}, "is Interlock's own"),
        ({"type": "interlock.{data.kind}"}, "is Interlock's own"),
        (
            {"type": "{kind}"},
            r"\{kind\} names nothing of a message: write \{data\.NAME\} or \{message\.NAME\}",
        ),
        ({"type": "{data.kind"}, "lone brace"),
        ({"type": "{{ ds }}"}, "It is not templated"),
        ({"source": "a b"}, "characters that a URI reference cannot have"),
        ({"source": "/shop/{data.a}/ä"}, "characters that a URI reference cannot have"),
        ({"id": "one"}, "id 'one' is the same for each message"),
        ({"event": "shop.make"}, "give event or type, not both"),
        ({"event": "make", "type": None}, "event is 'make'; give the import path"),
        ({"event": print, "type": None}, "event is .*; give the import path"),
        ({"acknowledge": "delete it"}, "acknowledge is 'delete it'; give the import path"),
        ({"at_invalid": "drop"}, "at_invalid is 'drop'; give one of 'stop', 'skip'"),
        ({"renew_after": timedelta(seconds=5)}, "a minute or more"),
        ({"kafka_conn_id": ""}, "kafka_conn_id"),
        ({"bus": "a b"}, "bus is 'a b'"),
        ({"schedule": "@daily"}, "schedule cannot be set"),
        ({"tags": "one"}, "tags is 'one'"),
        ({"start_date": "soon"}, "Airflow refuses the arguments of the DAG"),
    ],
)
def test_an_invalid_argument_is_an_import_error_that_names_it(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        task(**arguments)


def test_the_relay_has_one_run_after_the_other_and_a_task_that_is_tried_again() -> None:
    dag = relay_dag("r", **GOOD, start_date=datetime(2026, 1, 1), tags=["queue"])  # noqa: DTZ001
    assert type(dag.timetable).__name__ == "ContinuousTimetable"
    assert (dag.max_active_runs, dag.catchup, dag.tags) == (1, False, {"queue"})
    [one] = dag.tasks
    assert (one.retries, one.depends_on_past) == (1000, False)


def test_the_dag_as_airflow_stores_it_has_no_argument_of_the_inner_trigger() -> None:
    assert "hush" not in json.dumps(DagSerialization.to_dict(relay_dag("r", **GOOD)))


def test_it_defers_with_the_inner_trigger_and_the_attributes() -> None:
    kwargs = deferral(task(subject="{data.id}", at_invalid="skip", acknowledge="shop.queue.delete"))
    assert kwargs["inner"] == [f"{HERE}.Once", {"secret": "hush", "first": False}]
    assert kwargs["attributes"] == {
        "type": "com.shop.order", "source": "/airflow/r/relay", "subject": "{data.id}", "id": None,
        "function": None,
    }  # fmt: skip
    assert (kwargs["acknowledge"], kwargs["at_invalid"]) == ("shop.queue.delete", "skip")
    left = datetime.fromisoformat(kwargs["renew_at"]) - datetime.fromisoformat(kwargs["resume_not_before"])
    assert timedelta(minutes=14) < left < timedelta(minutes=15)


def test_a_function_of_the_author_makes_the_events() -> None:
    kwargs = deferral(task(type=None, event="shop.queue.order_event"))
    assert set(kwargs["attributes"].values()) == {"shop.queue.order_event", None}


def test_a_run_returns_how_many_events_it_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"outcome": "renew", "events": 7, "skipped": 2}
    assert task().resume({}, event=ended) == 7
    assert "2 messages were skipped" in capsys.readouterr().out
