"""Mapped waits: Airflow creates their operators only when they run, so `expand` checks."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup, task
from airflow.serialization.serialized_objects import DagSerialization
from interlock import event
from interlock.conditions import ConditionError
from interlock.operators import EventSensor

SOLO = event("x")
PAIR = event("x", by="data.day") & event("y", by="data.day")


def partial(**arguments: Any) -> Any:
    return EventSensor.partial(task_id="wait", **arguments)


@pytest.mark.parametrize(
    ("given", "mapped", "sentence"),
    [
        ({}, {"key": ["a"]}, "build it with interlock\\.event"),
        ({"condition": "x"}, {"key": ["a"]}, "build it with interlock\\.event"),
        ({"condition": SOLO}, {"key": ["a"]}, "a key is given, but no matcher reads one"),
        ({"condition": PAIR, "fail_on": "z"}, {"key": ["a"]}, "fail_on is a str; give a condition"),
        ({"condition": PAIR}, {"key": ["a", ["b", "c"]]}, "key has 2 value"),
        ({"condition": PAIR}, {"key": [None, "b"]}, "None is not a key"),
        ({"condition": PAIR}, {"key": ["a", None]}, "None is not a key"),
        ({"condition": PAIR}, {"key": ["a", ""]}, "key is empty"),
        ({"condition": PAIR, "deferrable": False}, {"key": ["a"]}, "deferrable=False is not supported"),
        ({"condition": PAIR, "since": datetime(2026, 1, 1)}, {"key": ["a"]}, "has no time zone"),  # noqa: DTZ001
        ({"condition": PAIR, "on_expired": "retry"}, {"key": ["a"]}, "give one of 'fail'"),
        ({"condition": PAIR, "key": "a"}, {"on_expired": ["fail", "retry"]}, "give one of 'fail'"),
    ],
)
def test_invalid_arguments_of_a_mapped_wait_are_import_errors(
    given: dict[str, Any], mapped: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ConditionError, ValueError), match=f"EventSensor 'wait': .*{sentence}"):
        partial(**given).expand(**mapped)
    if all(isinstance(values, list) for values in mapped.values()):
        [(name, values)] = mapped.items()
        with pytest.raises((ConditionError, ValueError), match=sentence):
            partial(**given).expand_kwargs([{name: value} for value in values])


def test_values_from_other_tasks_are_not_checked_before_the_task_runs() -> None:
    with DAG("d", schedule=None):

        @task
        def days() -> list[Any]:
            return ["2026-11-20", None]

        given = days()
        waits = partial(condition=PAIR).expand(key=given)
        waits_too = EventSensor.partial(task_id="too", condition=PAIR).expand_kwargs(given)
    assert waits.upstream_task_ids == waits_too.upstream_task_ids == {"days"}


def test_a_key_of_none_from_another_task_is_refused_when_the_task_is_unmapped() -> None:
    waits = partial(condition=PAIR).expand(key=["a"])
    assert waits.unmap({"key": "a"}).key == "a"
    with pytest.raises(ConditionError, match="'wait': key is None, and None is not a key"):
        waits.unmap({"key": None})


def test_arguments_may_come_from_default_args_of_the_dag_or_group() -> None:
    with DAG("d", schedule=None, default_args={"condition": SOLO}):
        partial(key="a").expand(condition=[PAIR])
        with TaskGroup("g", default_args={"condition": PAIR}):
            assert partial().expand(key=["a", "b"]).task_id == "g.wait"
        with pytest.raises(ConditionError, match="no matcher reads one"):
            EventSensor.partial(task_id="other").expand(key=["a"])


def test_a_subclass_with_other_arguments_is_mapped_like_any_operator() -> None:
    class Daily(EventSensor):
        def __init__(self, *, day: str, **arguments: Any) -> None:
            super().__init__(condition=PAIR, key=day, **arguments)

    waits = Daily.partial(task_id="wait").expand(day=["a", "b"])
    assert waits.unmap({"day": "b"}).key == "b"


def test_a_mapped_wait_is_serialized_like_any_mapped_operator_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with DAG("d", schedule=None) as dag:
            partial(condition=PAIR, retries=2).expand(key=["a", "b"])
        serialized = DagSerialization.to_dict(dag)
    [wait] = serialized["dag"]["tasks"]
    assert wait["__var"]["_is_mapped"]
