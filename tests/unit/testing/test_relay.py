"""`events_of`: what a relay makes of the messages of a queue."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.triggers.base import TriggerEvent
from interlock import Event, EventError, event
from interlock.engine.errors import ConfigError
from interlock.operators import dispatch_dag, relay_dag
from interlock.testing import events_of
from interlock.triggers import relay_source

from tests.unit.triggers.relaying import Once


def relay(**arguments: Any) -> DAG:
    return relay_dag("r", trigger=Once(), **{"type": "com.shop.order", **arguments})


def two_of(message: Any) -> list[Event]:
    return [Event.of("t", "/s", id=f"{message.id}-{n}") for n in range(2)]


def test_a_message_becomes_the_event_that_the_dag_file_describes() -> None:
    dag = relay(type="com.shop.order.{data.state}", source="/shop/{data.shop}", subject="{data.order.id}")
    [made] = events_of(dag, '{"state": "paid", "shop": "a b", "order": {"id": 7}}')
    assert (made.type, made.source, made.subject) == ("com.shop.order.paid", "/shop/a%20b", "7")
    assert made.payload == {"state": "paid", "shop": "a b", "order": {"id": 7}}


def test_an_error_that_one_of_airflows_triggers_fires_becomes_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_source, "OF_AIRFLOW", Once.__module__)
    with pytest.raises(EventError, match="the trigger fired error: no project_id: the relay starts it again"):
        events_of(relay(), {"status": "error", "message": "no project_id"})


def test_without_a_source_it_is_that_of_the_task_in_its_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [made.source for made in events_of(relay(), "hello")] == ["/airflow/r/relay"]
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DEPLOYMENT", "prod")
    assert [made.source for made in events_of(relay(), "hello")] == ["/prod/r/relay"]


@pytest.mark.parametrize(
    ("fired", "data"),
    [
        ("hello", [b"hello"]),
        (b"\xff", [b"\xff"]),
        ({"order": 1}, [b'{"order":1}']),
        (TriggerEvent("hello"), [b"hello"]),
        ({"message_batch": [{"MessageId": n, "Body": n} for n in ("a", "b")]}, [b"a", b"b"]),
        ({"message": [{"message": {"data": base64.b64encode(b"a").decode(), "message_id": "7"}}]}, [b"a"]),
        ({"type": "message", "channel": "orders", "data": "a"}, [b"a"]),
    ],
    ids=["text", "bytes", "JSON", "an event of a trigger", "SQS", "Pub/Sub", "Redis"],
)
def test_it_takes_what_triggers_fire(fired: Any, data: list[bytes]) -> None:
    assert [made.data for made in events_of(relay(), fired)] == data


def test_messages_are_events_in_order_and_a_repeat_has_the_same_identity() -> None:
    first, other, again = events_of(relay(), "a", "b", "a")
    assert first.identity == again.identity != other.identity


def test_a_function_of_the_author_makes_the_events() -> None:
    dag = relay(type=None, event=f"{__name__}.two_of")
    batch = {"message_batch": [{"MessageId": "m1", "Body": "a"}]}
    assert [made.id for made in events_of(dag, batch)] == ["m1-0", "m1-1"]


@pytest.mark.parametrize("at_invalid", ["stop", "skip"])
def test_a_message_that_cannot_become_an_event_raises_the_text_of_the_log(at_invalid: Any) -> None:
    with pytest.raises(EventError, match=r"it has no id, which comes from \{data\.id\}"):
        events_of(relay(id="{data.id}", at_invalid=at_invalid), "hello")


def test_a_function_that_does_not_exist_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.function cannot be imported"):
        events_of(relay(type=None, event="nowhere.function"), "hello")


@pytest.mark.parametrize(
    ("dag", "sentence"),
    [
        ("orders_relay", "dag is 'orders_relay'; give a DAG"),
        (DAG("relay", schedule=None), "'relay' is not a DAG made by relay_dag"),
        (
            dispatch_dag("d", condition=event("a"), trigger_dag_id="t"),
            "'d' is not a DAG made by relay_dag",
        ),
    ],
    ids=["text", "a DAG", "a dispatcher"],
)
def test_another_dag_is_refused_by_its_id(dag: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        events_of(dag, "hello")
