"""`deliver_dag`: invalid arguments, and what its task passes to the trigger."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization
from interlock import count, event, param
from interlock.conditions import ConditionError
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.operators import deliver_dag
from interlock.triggers.deliver import DeliverTrigger

from tests.kit.state_store import StateStore, task_instance

DAILY = event("x", by="data.day", label="x")
BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)


def task(condition: Any = DAILY, **arguments: Any) -> Any:
    return deliver_dag("d", condition=condition, **{"conn_id": "crm", **arguments}).task_dict["deliver"]


def context() -> Any:
    run = SimpleNamespace(start_date=BEGAN, run_after=BEGAN)
    return {"ti": task_instance(task_id="deliver"), "dag_run": run, "task_state_store": StateStore()}


def deferral(of: Any, *arguments: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kwargs of the trigger and of `resume`."""
    with pytest.raises(TaskDeferred) as raised:
        of(*arguments, **kwargs)
    assert (raised.value.method_name, raised.value.timeout) == ("resume", None)
    path, found = raised.value.trigger.serialize()
    assert path == f"{DeliverTrigger.__module__}.{DeliverTrigger.__name__}"
    assert DeliverTrigger(**json.loads(json.dumps(found))).serialize() == (path, found)
    return found, raised.value.kwargs or {}


def sink(operator: Any) -> dict[str, Any]:
    """The members of the sink record."""
    found: dict[str, Any] = deferral(operator.execute, context())[0]["durable"]["sink"]
    return found


# -- invalid arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"condition": "event"}, "condition is a str; build it with"),
        ({"conn_id": ""}, "conn_id is ''; give the id of an Airflow connection of type http"),
        ({"conn_id": " "}, "conn_id is ' '; give the id of an Airflow connection of type http"),
        ({"conn_id": "crm\n"}, "conn_id is .*; give the id of an Airflow connection of type http"),
        ({"conn_id": "the crm"}, "conn_id is 'the crm'; give the id"),
        ({"conn_id": "{{ var.value.sink }}"}, "conn_id .* not templated"),
        ({"send": "both"}, "send is 'both'; give one of 'event', 'firing'"),
        ({"format": "xml"}, "format is 'xml'; give one of 'binary', 'json'"),
        ({"order": "time"}, "order is 'time'; give one of 'key', 'partition', 'none'"),
        ({"replies": "yes"}, "replies is 'yes'; give True or False"),
        ({"max_in_flight": 1025}, "max_in_flight is 1025; give a whole number, at most 1,024"),
        ({"since": datetime(2026, 1, 1)}, "with a time zone"),  # noqa: DTZ001
        ({"renew_after": timedelta(seconds=5)}, "a minute or more"),
        ({"schedule": "@daily"}, "cannot be set"),
        ({"retry": {"retries": 3}}, "retry's member is 'retries'; give one of backoff, delay_s"),
        ({"retry": [("tries", 3)]}, "give a dict with any of backoff, delay_s"),
        ({"retry": {"backoff": "quadratic"}}, r"retry\['backoff'\] is 'quadratic'; give 'exponential' or"),
        ({"retry": {"delay_s": timedelta(seconds=1)}}, r"retry\['delay_s'\] is .*give seconds as a number"),
        ({"retry": {"delay_s": -1}}, r"retry\['delay_s'\] is -1; give seconds as a number, 0 to"),
        ({"retry": {"delay_s": 600}}, r"retry\['delay_s'\] is 600.*give at most most_delay_s, 300"),
        ({"retry": {"most_delay_s": 0.1}}, r"retry\['most_delay_s'\] is 0.1; give at least delay_s, 0.2, or"),
        ({"retry": {"jitter": 1.5}}, r"retry\['jitter'\] is 1.5; give a number from 0 to 1"),
        ({"retry": {"timeout_s": 0}}, r"retry\['timeout_s'\] is 0; give seconds as a number, above 0"),
        ({"retry": {"tries": 0}}, r"retry\['tries'\] is 0; give a whole number, 1"),
        ({"retry": {"tries": 2**80}}, r"retry\['tries'\] is .*give a whole number, 1 to 1,000,000"),
        ({"retry": {"least_tries": True}}, r"retry\['least_tries'\] is True; give a whole number"),
        ({"retry": {"give_up_after_s": 30 * 86_400}}, r"retry\['give_up_after_s'\].*at most 2,505,600"),
    ],
)
def test_invalid_arguments_are_import_errors_with_the_reason(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ValueError, ConditionError), match=f"deliver_dag 'd': .*{sentence}"):
        deliver_dag("d", **{"condition": DAILY, "conn_id": "crm", **arguments})


@pytest.mark.parametrize(
    "path",
    [
        "events", "http://other/", "//other/x", "/a b", "/a#b", "/a\\b", "/a/../b", "/..", "/.", "/%2E%2e/b",
        "/a%2F..", "/a%5C..",         "/%zz", "/a%2", "/ä", "/a\nb", "/{{ ds }}", "/" + "a" * 2000, None, 7,
    ],
)  # fmt: skip
def test_a_path_that_is_none_or_leads_elsewhere_is_an_import_error(path: Any) -> None:
    with pytest.raises(ValueError, match=r"deliver_dag 'd': path is .*give a path such as"):
        task(path=path)


@pytest.mark.parametrize(
    "path", ["", "/", "/a", "/a/b.json", "/a%20b/..c", "/a?x=1&y=/..", "?x=%C3%A4", "/a/"]
)
def test_a_path_may_be_empty_and_have_a_query(path: str) -> None:
    assert sink(task(path=path))["path"] == path


@pytest.mark.parametrize("dag_id", ["", "a b", "a/b", "a" * 251, None, 7])
def test_an_id_that_no_dag_can_have_is_an_import_error(dag_id: Any) -> None:
    """It is part of the subscription's name."""
    with pytest.raises(ValueError, match=r"deliver_dag: dag_id is .*; give the id of a DAG: letters, digits"):
        deliver_dag(dag_id, condition=DAILY, conn_id="crm")


def test_a_parameter_whose_rendered_value_no_condition_takes_fails_the_task_with_its_name() -> None:
    operator = task(event("x", subject=param("region")), param_values={"region": "{{ 'x' * 3000 }}"})
    with pytest.raises(ConditionError, match=r"deliver_dag 'd': param\(r.*has 3000 characters: at most 2048"):
        operator.execute(context())


# -- the DAG and its task


def test_it_is_one_continuous_dag_whose_failures_are_tried_again() -> None:
    dag = deliver_dag("d", condition=DAILY, conn_id="crm", tags=["mine"])
    assert isinstance(dag, DAG)
    assert (dag.max_active_runs, dag.catchup, dag.tags) == (1, False, {"mine"})
    assert type(dag.timetable).__name__ == "ContinuousTimetable"
    assert [(one.task_id, one.retries) for one in dag.tasks] == [("deliver", 1000)]
    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    assert DagSerialization.from_dict(stored).task_dict["deliver"].conn_id == "crm"


def test_it_defers_with_subscription_and_sink_and_no_secret() -> None:
    kwargs, kept = deferral(task(max_keys=5).execute, context())
    durable = kwargs["durable"]
    assert (durable["subscription"], durable["condition"]) == ("airflow/deliver/d", DAILY.to_json())
    assert (durable["since_ms"], durable["since_given"], durable["max_keys"]) == (1795154400000, False, 5)
    assert (kwargs["bus"], kwargs["deployment"]) == ("interlock", "airflow")
    assert "hush" not in str(kwargs)
    assert kept == {"since": BEGAN.isoformat()}


def test_the_sink_record_has_what_the_author_gave_and_the_defaults() -> None:
    retry = {"tries": 5, "backoff": "linear", "delay_s": 2}
    found = sink(task(path="/a", order="none", max_in_flight=4, retry=retry, format="json"))
    record = msgspec.convert(found, SinkRecord)
    assert record.key == b"sink/airflow/deliver/d"
    assert (record.connection, record.path, record.order, record.max_in_flight) == ("crm", "/a", "none", 4)
    assert record.retry == Retry(tries=5, backoff="linear", delay_s=2.0)
    assert (found["send"], found["format"]) == ("event", "json")
    plain = msgspec.convert(sink(task()), SinkRecord)
    assert (plain.path, plain.order, plain.max_in_flight, plain.retry) == ("", "key", 32, Retry())


@pytest.mark.parametrize(
    ("condition", "given", "expected"),
    [
        (event("x"), None, "event"),
        (DAILY, None, "event"),
        (DAILY & event("y", by="data.day"), None, "firing"),
        (count(DAILY, 2), None, "firing"),
        (DAILY, "firing", "firing"),
        (DAILY & event("y", by="data.day"), "event", "event"),
    ],
    ids=["one", "one with a key", "two", "two of one", "given", "given for two"],
)
def test_the_event_itself_is_sent_for_a_single_matcher(condition: Any, given: Any, expected: str) -> None:
    assert sink(task(condition, send=given))["send"] == expected


def test_parameters_are_rendered_when_the_task_runs() -> None:
    operator = task(event("x", subject=param("region")), param_values={"region": "{{ 1 + 1 }}"})
    durable = deferral(operator.execute, context())[0]["durable"]
    assert "'2'" in str(durable["condition"])


def test_a_run_ends_at_renew_at_once_the_subscription_is_registered() -> None:
    given, operator = context(), task()
    _, kept = deferral(operator.execute, given)
    operator.resume(given, event={"outcome": "renew", "registered": True}, **kept)
    # After a cancel, earlier events must not count in the next try.
    before = int(datetime.now(UTC).timestamp() * 1000)
    assert deferral(operator.execute, given)[0]["durable"]["since_ms"] >= before


def test_a_run_that_is_not_registered_at_renew_at_continues_with_its_since(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given, operator = context(), task()
    first, kept = deferral(operator.execute, given)
    again, kept = deferral(operator.resume, given, event={"outcome": "renew", "registered": False}, **kept)
    assert again["durable"] == first["durable"]
    assert "not registered yet. This run continues until it is" in capsys.readouterr().out
    operator.resume(given, event={"outcome": "renew", "registered": False})  # dag.test() passes no kwargs
    since = task(since=BEGAN)
    kept = deferral(since.execute, given)[1]
    since.resume(given, event={"outcome": "renew", "registered": False}, **kept)
