"""The trigger of a wait, with a fake runtime."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from interlock import event
from interlock.conditions.recipes.fail_on import with_fail_on
from interlock.engine.errors import ConfigError
from interlock.engine.records import Registration
from interlock.engine.waiting.notices import Notice
from interlock.engine.waiting.waits import Wait
from interlock.triggers import connections
from interlock.triggers import event as module
from interlock.triggers.event import EventTrigger
from interlock.triggers.payload import Payload

from tests.unit.triggers.connecting import GOOD, Connections, in_seconds
from tests.unit.triggers.waiting import (
    CONDITION,
    FakeWaits,
    a_trigger,
    cancelled_while_it_waits,
    deliver,
    events_of,
    fake_waits,
    firing_of,
    task_instance,
)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWaits]:
    yield from fake_waits(monkeypatch)


def test_serialization_keeps_all_arguments() -> None:
    trigger = a_trigger(
        key="2026-11-20",
        timeout_at=in_seconds(9),
        resume_not_before=in_seconds(5),
        generation=2,
        instance="i",
    )
    path, kwargs = trigger.serialize()
    assert path == f"{EventTrigger.__module__}.{EventTrigger.__qualname__}"
    assert EventTrigger(**kwargs).serialize() == (path, kwargs)
    assert kwargs == {name: getattr(trigger, name) for name in signature(EventTrigger).parameters}
    assert kwargs["key"] == "2026-11-20"


def test_it_opens_a_wait_with_its_arguments_and_closes_it(waits: FakeWaits) -> None:
    waits.then = deliver
    events_of(a_trigger())
    [wait] = waits.opened
    registration = wait.registration
    assert (registration.subscription, registration.key) == ("airflow/dag/run/task", None)
    assert registration.since_ms == 17
    assert registration.build_condition() == CONDITION
    assert waits.closed == [wait]


def test_it_yields_the_firing_once_however_often_it_is_delivered(waits: FakeWaits) -> None:
    def twice(wait: Wait) -> None:
        deliver(wait)
        deliver(wait)

    waits.then = twice
    [payload] = events_of(a_trigger())
    assert Payload.from_json(payload).action_record().firing.id == "f"
    assert payload["registration_keys"] == ["i:n"]


def log_of(trigger: EventTrigger) -> list[tuple[str, str]]:
    """Returns the list of its later log lines."""
    lines: list[tuple[str, str]] = []

    def write(level: str, text: str, *arguments: object) -> None:
        lines.append((level, text % arguments))

    trigger._log = SimpleNamespace(info=partial(write, "info"), warning=partial(write, "warning"))
    return lines


def test_notices_go_to_the_tasks_log_and_do_not_end_the_wait(waits: FakeWaits) -> None:
    def troubles(wait: Wait) -> None:
        wait.deliver(Notice("Cannot reach the bus."))
        wait.deliver(Notice(None))
        deliver(wait)

    waits.then = troubles
    trigger = a_trigger()
    lines = log_of(trigger)
    [payload] = events_of(trigger)
    assert payload["outcome"] == "fired"
    assert lines == [
        ("warning", "Cannot reach the bus. The trigger keeps waiting."),
        ("info", "The bus works again."),
    ]


def test_during_a_problem_the_connection_is_read_again(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "READ_AGAIN_S", 0.01)
    problems = [ConfigError("no servers"), KeyError("of a secrets backend")]
    read_again = threading.Event()

    def use(_runtime: Any, _config: Any) -> None:
        if problems:
            raise problems.pop()
        read_again.set()

    monkeypatch.setattr(waits.runtime, "use", use)

    def troubles(wait: Wait) -> None:
        wait.deliver(Notice("The password is wrong."))
        assert read_again.wait(10)
        wait.deliver(Notice(None))
        deliver(wait)

    waits.then = troubles
    [payload] = events_of(a_trigger())
    assert payload["outcome"] == "fired"


def test_at_the_timeout_it_yields_the_registration_keys_to_remove(waits: FakeWaits) -> None:
    [payload] = events_of(a_trigger(timeout_at=in_seconds(0.05)))
    assert payload == {"outcome": "timeout", "action": None, "registration_keys": ["i:n", "i:m"]}
    assert waits.closed == waits.opened


def test_a_firing_from_before_the_timeout_counts_if_no_triggerer_ran_then(waits: FakeWaits) -> None:
    """The next triggerer searches for a firing before it reports the timeout."""
    trigger = a_trigger(timeout_at=in_seconds(-3600))
    is_searching = threading.Event()
    next_item = trigger.next_item

    async def searching(*arguments: Any) -> Any:
        asyncio.get_running_loop().call_soon(is_searching.set)
        return await next_item(*arguments)

    def later(wait: Wait) -> None:
        assert is_searching.wait(10)
        deliver(wait)

    trigger.next_item = searching  # type: ignore[method-assign]
    waits.then = later
    [payload] = events_of(trigger)
    assert payload["outcome"] == "fired"


def test_an_unreachable_bus_does_not_delay_the_timeout(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.2)
    waits.look = False
    waits.then = lambda wait: wait.deliver(Notice("Cannot reach the bus."))
    [payload] = events_of(a_trigger(timeout_at=in_seconds(-3600)))
    assert payload["outcome"] == "timeout"


def test_a_firing_is_held_until_resume_not_before(waits: FakeWaits) -> None:
    waits.then = deliver
    floor = datetime.now(UTC) + timedelta(seconds=0.4)
    [payload] = events_of(a_trigger(resume_not_before=floor.isoformat()))
    assert payload["outcome"] == "fired"
    assert datetime.now(UTC) >= floor


def test_cancelling_closes_the_wait(waits: FakeWaits) -> None:
    """Happens when the trigger moves to another triggerer, so the registration must stay."""
    cancelled(a_trigger(), on_kill=False)
    assert waits.closed == waits.opened


def test_an_unreadable_connection_is_read_again_and_each_change_logged_once(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, gone = OSError("the backend is away"), LookupError("it is not defined")
    Connections(monkeypatch, away, away, gone, gone, GOOD)
    waits.then = deliver
    trigger = a_trigger()
    lines = log_of(trigger)
    [payload] = events_of(trigger)
    assert payload["outcome"] == "fired"
    advice = "Create it (type kafka), or name another one with kafka_conn_id."
    until = "The trigger tries again."
    assert lines == [
        ("warning", f"Connection 'kafka_default' cannot be read: the backend is away. {advice} {until}"),
        ("warning", f"Connection 'kafka_default' cannot be read: it is not defined. {advice} {until}"),
        ("info", "Connection 'kafka_default' can be read now."),
    ]


def test_with_an_unreadable_connection_the_wait_times_out(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.2)
    Connections(monkeypatch, LookupError("it is not defined"))
    [payload] = events_of(a_trigger(timeout_at=in_seconds(0.1)))
    assert payload == {"outcome": "timeout", "action": None, "registration_keys": []}
    assert waits.opened == []


def test_an_unusable_connection_fails_the_wait_at_once(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    Connections(monkeypatch, OSError("away"), Connection(conn_id="kafka_default", conn_type="http"))
    with pytest.raises(ConfigError, match="has type 'http'"):
        events_of(a_trigger())
    assert waits.opened == []


def test_a_delivery_after_the_end_of_its_event_loop_has_no_other_effect(
    waits: FakeWaits, caplog: pytest.LogCaptureFixture
) -> None:
    waits.then = deliver
    events_of(a_trigger())
    [wait] = waits.opened
    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError, match="closed"):
        deliver(wait)  # raises, and the waits' thread catches it


# -- cancelled


class States:
    """Answers queries for the task's state; `absent` if the task instance does not exist any more.

    answering: while it is not set, queries wait.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, state: str | None, name: str = "wait", failures: float = 0
    ) -> None:
        self.state, self.name, self.failures = state, name, failures
        self.answering = threading.Event()
        self.answering.set()
        self.queries: list[dict[str, Any]] = []
        monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", self.get)

    def get(self, **query: Any) -> dict[str, dict[str, str | None]]:
        self.queries.append(query)
        self.answering.wait(20)
        if self.failures:
            self.failures -= 1
            raise OSError("no answer")
        return {} if self.state == "absent" else {"run": {self.name: self.state}}


def cancelled(trigger: EventTrigger, *, on_kill: bool = True) -> None:
    """Starts the trigger and cancels it like Airflow; with `on_kill` as if the trigger was deleted."""

    async def life() -> None:
        await cancelled_while_it_waits(trigger)
        if on_kill:
            await trigger.on_kill()

    asyncio.run(asyncio.wait_for(life(), 20))


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "success", "failed", "absent"])
def test_the_registration_is_removed_if_a_user_ended_the_wait(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    States(monkeypatch, state, "wait")
    cancelled(a_trigger())
    assert waits.withdrawn == waits.opened


@pytest.mark.parametrize("state", ["deferred", "up_for_retry"])
@pytest.mark.parametrize(("map_index", "name"), [(-1, "wait"), (3, "wait_3")])
def test_the_registration_stays_if_another_triggerer_has_the_wait(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch, state: str, map_index: int, name: str
) -> None:
    states = States(monkeypatch, state, name)
    trigger = a_trigger()
    trigger._task_instance = task_instance(map_index)
    cancelled(trigger)
    assert waits.withdrawn == []
    assert states.queries == [
        {"dag_id": "dag", "run_ids": ["run"], "task_ids": ["wait"], "map_index": map_index}
    ]


def test_the_registration_stays_if_the_tasks_state_cannot_be_read(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.triggers.event.MAX_STATE_S", 0.0)  # one query
    States(monkeypatch, "success", failures=math.inf)
    trigger = a_trigger()
    lines = log_of(trigger)
    cancelled(trigger)
    assert waits.withdrawn == []
    [(level, text)] = lines
    assert (level, "no answer" in text) == ("warning", True)


def test_the_query_for_the_tasks_state_is_retried(waits: FakeWaits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.triggers.event.STATE_RETRY_S", 0.01)
    States(monkeypatch, "success", failures=2)
    cancelled(a_trigger())
    assert waits.withdrawn == waits.opened


def test_the_registration_is_removed_even_if_the_state_comes_after_on_kill_ends(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A triggerer's first query may take longer than Airflow allows `on_kill`."""
    monkeypatch.setattr("interlock.triggers.event.STATE_S", 0.0)
    states = States(monkeypatch, "success")
    states.answering.clear()
    trigger = a_trigger()

    async def life() -> None:
        await cancelled_while_it_waits(trigger)
        await trigger.on_kill()
        assert waits.withdrawn == []
        states.answering.set()
        while not waits.withdrawn:  # noqa: ASYNC110
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(life(), 20))
    assert waits.withdrawn == waits.opened


def test_pending_state_queries_do_not_delay_other_waits(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Happens when a run with a thousand waits is cleared."""
    monkeypatch.setattr("interlock.triggers.event.STATE_S", 0.0)
    states = States(monkeypatch, "success")
    states.answering.clear()
    killed = [a_trigger() for _ in range(64)]  # more than the threads of an event loop

    async def life() -> None:
        for trigger in killed:
            await cancelled_while_it_waits(trigger)
            await trigger.on_kill()
        waits.then = deliver
        try:
            await asyncio.wait_for(anext(a_trigger().run()), 10)
        finally:
            states.answering.set()
        while len(waits.withdrawn) < len(killed):  # noqa: ASYNC110
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(life(), 20))


def test_the_registration_stays_if_the_triggerer_stops(waits: FakeWaits) -> None:
    cancelled(a_trigger(), on_kill=False)
    assert waits.withdrawn == []


def test_on_kill_before_the_start_removes_nothing(waits: FakeWaits) -> None:
    asyncio.run(a_trigger().on_kill())
    assert waits.withdrawn == []


def test_dag_test_queries_no_state(waits: FakeWaits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.engine.runtime.runtime.has_engine", lambda _: True)
    states = States(monkeypatch, "deferred", "wait")
    trigger = a_trigger()
    trigger._task_instance = None
    cancelled(trigger)
    assert (waits.withdrawn, states.queries) == (waits.opened, [])


@pytest.mark.parametrize("elsewhere", [True, False])
def test_dag_test_starts_an_engine_only_if_none_runs(
    waits: FakeWaits, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.setattr("interlock.engine.runtime.runtime.has_engine", lambda _: elsewhere)
    waits.then = deliver
    trigger = a_trigger()
    trigger._task_instance = None
    events_of(trigger)
    events_of(a_trigger())
    assert waits.runtime.engines == [not elsewhere, True]


# -- cleared

WITH_FAILURE = with_fail_on(event("x"), event("failed"))


def opened_in_generation(waits: FakeWaits, generation: int, since_ms: int = 17) -> Wait:
    waits.then = deliver
    events_of(a_trigger(condition=WITH_FAILURE.to_json(), generation=generation, since_ms=since_ms))
    return waits.opened[-1]


def test_a_cleared_wait_is_another_incarnation_whose_fail_on_ignores_earlier_events(
    waits: FakeWaits,
) -> None:
    first, cleared, again = (opened_in_generation(waits, n).registration for n in (0, 2, 2))
    assert first.incarnation == Registration.of(first.subscription, WITH_FAILURE, None, 17).incarnation
    assert (first.fresh, cleared.fresh) == ((), (0,))
    assert WITH_FAILURE.labels[0].startswith("fail_on: ")
    assert first.incarnation != cleared.incarnation == again.incarnation
    assert (first.subscription, first.since_ms) == (cleared.subscription, cleared.since_ms)


def test_a_cleared_wait_takes_its_earlier_firing_only_if_it_was_met(waits: FakeWaits) -> None:
    first = opened_in_generation(waits, 0)
    assert first.accepts is None
    second = opened_in_generation(waits, 1).registration
    accepts = opened_in_generation(waits, 3).accepts
    assert accepts is not None
    for earlier in (first.registration, second):
        assert accepts(firing_of(earlier))
        assert not accepts(firing_of(earlier, "expired"))
        assert not accepts(firing_of(earlier, label="fail_on: failed"))
    other = opened_in_generation(waits, 0, since_ms=18).registration
    assert not accepts(firing_of(other))
