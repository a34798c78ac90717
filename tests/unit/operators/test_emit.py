"""`EmitEventOperator`: which event it emits, and that success means acknowledged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection
from interlock.events.emitter import Delivery
from interlock.events.errors import EventError, InterlockError
from interlock.operators import EmitEventOperator
from interlock.operators import emit as module

TI = SimpleNamespace(
    dag_id="dag",
    run_id="run",
    task_id="task",
    map_index=-1,
    try_number=1,
    max_tries=0,
    task=SimpleNamespace(retries=0),
)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the operators of a test emit; an exception in it is raised instead."""
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
    monkeypatch.setattr(
        module.BaseHook,
        "get_connection",
        lambda conn_id: Connection(conn_id=conn_id, conn_type="kafka", extra='{"bootstrap.servers": "x:1"}'),
    )
    return events


def run(**arguments: Any) -> dict[str, Any]:
    return EmitEventOperator(task_id="task", type="done", **arguments).execute({"ti": TI})


def test_it_returns_where_the_event_lies_once_it_is_acknowledged(emitted: list[Any]) -> None:
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


def test_the_bus_and_source_given_hold(emitted: list[Any]) -> None:
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
def test_an_extension_that_has_an_argument_of_its_own_is_refused(emitted: list[Any], name: str) -> None:
    with pytest.raises(EventError, match=rf"extensions cannot hold {name}"):
        run(extensions={name: "x"})
    assert emitted == []


@pytest.mark.parametrize(
    "wrong", [{"extensions": {"Not-A-Name": "x"}}, {"data": float("nan")}, {"source": "a\nb"}]
)
def test_an_event_that_is_not_valid_fails_the_task_before_anything_is_sent(
    emitted: list[Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(EventError):
        run(**wrong)
    assert emitted == []


def test_what_makes_the_event_is_templated() -> None:
    assert {"type", "source", "subject", "data", "extensions"} == set(EmitEventOperator.template_fields)
