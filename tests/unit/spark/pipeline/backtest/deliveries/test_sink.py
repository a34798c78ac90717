"""The sink of a backtest: from JSON, and from a DAG."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from interlock import ConditionError, event, param
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.operators import deliver_dag, dispatch_dag
from interlock.operators.deliver import TASK_ID
from interlock.spark.pipeline.backtest.deliveries import sink as module
from interlock.spark.pipeline.backtest.deliveries.sink import SinkQuestion, sink_in, sink_of
from interlock.spark.pipeline.backtest.question import Question

PAID = event("paid", by="data.order")
BOTH = PAID & event("packed", by="data.order")
SINCE = datetime(2026, 11, 20, tzinfo=UTC)


def record(text: str) -> SinkRecord:
    return msgspec.json.decode(text, type=SinkRecord)


@pytest.fixture
def in_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts an object where `sink_in("dags:ship")` finds it."""

    def put(what: object) -> None:
        monkeypatch.setitem(__import__("sys").modules, "dags", SimpleNamespace(ship=what))

    return put


def test_the_sink_of_a_dag_is_the_one_that_the_dag_registers(
    in_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DEPLOYMENT", "prod")
    dag = deliver_dag(
        "ship", condition=BOTH, conn_id="crm", path="/o", order="none", retry={"tries": 3}, since=SINCE
    )
    in_module(dag)
    condition, sink, since_ms = sink_in("dags:ship")
    operator: Any = dag.get_task(TASK_ID)
    assert condition == BOTH
    assert since_ms == SINCE.timestamp() * 1000
    assert record(sink) == msgspec.convert(operator._sink(SimpleNamespace(deployment="prod")), SinkRecord)
    given = {"deployment": "prod", "dag_id": "ship", "conn_id": "crm", "path": "/o", "order": "none"}
    assert sink_of(json.dumps({**given, "retry": {"tries": 3}}), BOTH) == sink


def test_a_single_matcher_sends_its_event_unless_told_otherwise() -> None:
    assert record(sink_of('{"dag_id": "d", "conn_id": "c"}', PAID)).send == "event"
    assert record(sink_of('{"dag_id": "d", "conn_id": "c"}', BOTH)).send == "firing"
    assert record(sink_of('{"dag_id": "d", "conn_id": "c", "send": "firing"}', PAID)).send == "firing"
    assert record(sink_of('{"dag_id": "d", "conn_id": "c"}', PAID)).retry == Retry()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--deliver is no JSON object"),
        ('{"conn_id": "c"}', "missing required field `dag_id`"),
        ('{"dag_id": "d", "conn_id": "c", "paths": ""}', "unknown field `paths`"),
        ('{"dag_id": "d", "conn_id": "c", "order": "keys"}', "'keys'"),
        ('{"dag_id": "d", "conn_id": "c", "max_in_flight": 0}', ">= 1"),
        ('{"dag_id": "d", "conn_id": "c", "retry": {"trys": 1}}', "retry has no 'trys': give any of backoff"),
        ('{"dag_id": "d", "conn_id": "c", "retry": {"tries": 0}}', ">= 1"),
    ],
)
def test_a_wrong_sink_is_an_error_that_names_the_member(text: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        sink_of(text, PAID)


def test_what_is_no_dag_of_deliver_dag_is_an_error(in_module: Any) -> None:
    for what in (PAID, dispatch_dag("d", condition=PAID, trigger_dag_id="t")):
        in_module(what)
        with pytest.raises(ConditionError, match=f"is of type {type(what).__name__}: name a DAG made by"):
            sink_in("dags:ship")
    with pytest.raises(ConditionError, match="--deliver-from 'dags:no'"):
        sink_in("dags:no")


def test_parameters_have_their_values_but_for_templates(in_module: Any) -> None:
    condition = event("paid", subject=param("who"))
    in_module(deliver_dag("ship", condition=condition, conn_id="c", param_values={"who": "eu"}))
    assert sink_in("dags:ship")[0] == event("paid", subject="eu", label="paid")
    in_module(deliver_dag("ship", condition=condition, conn_id="c", param_values={"who": "{{ ds }}"}))
    with pytest.raises(ConditionError, match="param_values has templates"):
        sink_in("dags:ship")


def test_a_sink_needs_a_durable_question_and_a_path_that_is_one() -> None:
    sink = sink_of('{"dag_id": "d", "conn_id": "c"}', PAID)
    with pytest.raises(ConditionError, match="leave out --once and --key"):
        SinkQuestion(Question.of(PAID, once=True), sink)
    with pytest.raises(ConditionError, match=r"--deliver: path is '/\.\./x'"):
        SinkQuestion(Question.of(PAID), sink_of('{"dag_id": "d", "conn_id": "c", "path": "/../x"}', PAID))


def test_an_answer_time_after_which_each_try_has_failed_is_an_error() -> None:
    sink = sink_of('{"dag_id": "d", "conn_id": "c", "retry": {"timeout_s": 1.5}}', PAID)
    assert SinkQuestion(Question.of(PAID), sink, outage_ms=1, answer_ms=1_500).answer_ms == 1_500
    with pytest.raises(
        ConditionError, match=r"--answer-time is longer than timeout_s of the sink's retry, 1\.5 s"
    ):
        SinkQuestion(Question.of(PAID), sink, outage_ms=1, answer_ms=1_501)


def test_a_question_with_a_sink_can_be_sent_to_executors() -> None:
    asked = SinkQuestion(Question.of(PAID), sink_of('{"dag_id": "d", "conn_id": "c"}', PAID))
    assert asked.record.subscription == "airflow/deliver/d"
    assert pickle.loads(pickle.dumps(asked)) == asked


def test_the_task_is_the_one_that_deliver_dag_makes() -> None:
    assert module._TASK == TASK_ID


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        *(
            ({"path": path}, "path is")
            for path in ("events", "//x", "/a b", "http://x/y", "/\0", "/./a", "/é")
        ),
        *(({"conn_id": name}, "conn_id is") for name in ("", "a b", "a@b", "a" * 251)),
        *(({"dag_id": name}, "dag_id is") for name in ("", "a/b", "a\0b", "a" * 251)),
        *(({"deployment": name}, "deployment is") for name in ("", "a/b")),
        ({"retry": {"delay_s": 500}}, "retry's delay_s is 500"),
        ({"retry": {"tries": 10**30}}, "retry's tries is a large int"),
        ({"retry": {"least_tries": 1_000_001}}, "retry's tries is 1000001"),
    ],
)
def test_what_deliver_dag_refuses_is_no_sink_either(argument: dict[str, Any], expected: str) -> None:
    """The backtest answered about a sink to which nothing can ever be delivered."""
    with pytest.raises(ConditionError, match=f"--deliver: {expected}"):
        sink_of(json.dumps({"dag_id": "d", "conn_id": "c", **argument}), PAID)


@pytest.mark.parametrize("text", ["caf\udce9", '{"dag_id": "caf\udce9"}', f'{{"retry": {"[" * 5000}'])
def test_what_cannot_be_read_as_json_is_refused_by_a_sentence(text: str) -> None:
    with pytest.raises(ConditionError, match="--deliver is no JSON object"):
        sink_of(text, PAID)
