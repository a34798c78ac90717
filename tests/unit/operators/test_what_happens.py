"""What happens to a wait: the rows of docs/use/waiting.md that need no running Airflow.

The others are in tests/integration/triggers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from interlock import event
from interlock.conditions import Condition
from interlock.operators import EventSensor
from interlock.triggers.event import EventTrigger

from tests.kit.state_store import StateStore, task_instance

DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
ORDERS = event("orders", by="data.day")


class Instance:
    """A task instance with its tries."""

    def __init__(self, run: Any = None, map_index: int = -1, retries: int = 2) -> None:
        self.store = StateStore()
        self.run = run or SimpleNamespace(logical_date=DAY, run_after=DAY + 24 * HOUR)
        self.run.clear_number = 0
        self.ti = task_instance(retries, task_id="wait", map_index=map_index)

    def defers(self, task: EventSensor | None = None) -> EventTrigger:
        task = task or EventSensor(task_id="wait", condition=ORDERS, key="d", timeout=60)
        with pytest.raises(TaskDeferred) as raised:
            task.execute({"ti": self.ti, "dag_run": self.run, "task_state_store": self.store})
        trigger: EventTrigger = raised.value.trigger
        return trigger

    def retried(self) -> None:
        self.ti.try_number += 1

    def cleared(self, *, with_run: bool = True) -> None:
        """Clears like Airflow: max_tries becomes the tries so far plus the task's retries."""
        self.run.clear_number += with_run
        self.ti.max_tries = self.ti.try_number + self.ti.task.retries
        self.ti.try_number += 1


def registered(trigger: EventTrigger) -> Any:
    return trigger._registration(Condition.from_json(trigger.condition))


def test_retry_keeps_the_subscription_its_since_and_the_remaining_time() -> None:
    instance = Instance()
    first = instance.defers()
    assert instance.store.retention > timedelta(days=30)
    instance.retried()
    again = instance.defers()
    assert registered(again) == registered(first)
    assert again.timeout_at == first.timeout_at
    edited = instance.defers(EventSensor(task_id="wait", condition=event("other"), timeout=60))
    assert edited.timeout_at == first.timeout_at


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_retry_after_a_change_of_retries_is_not_a_clear(retries: int) -> None:
    """So `fail_on` still counts earlier events, and the timeout does not restart."""
    instance = Instance(retries=2)
    first = instance.defers()
    instance.ti.task.retries = retries
    instance.retried()
    again = instance.defers()
    assert registered(again) == registered(first)
    assert again.timeout_at == first.timeout_at


def test_retry_after_a_change_of_retries_keeps_the_earlier_clear() -> None:
    instance = Instance(retries=0)
    instance.defers()
    instance.cleared()
    cleared = instance.defers()
    instance.ti.task.retries = 3
    instance.retried()
    assert instance.defers().generation == cleared.generation == 1
    instance.run.clear_number += 1  # another task of the run
    assert instance.defers().generation == 1
    instance.ti.task.retries = 0
    assert instance.defers().generation == 1


@pytest.mark.parametrize(("retries", "with_run"), [(2, True), (2, False), (1, True), (5, True), (5, False)])
def test_clear_after_a_change_of_retries_is_a_clear(retries: int, with_run: bool) -> None:
    """Even if max_tries stays the same, or the clear does not reset the run."""
    instance = Instance(retries=2)
    first = instance.defers()
    instance.ti.task.retries = retries
    instance.cleared(with_run=with_run)
    cleared = instance.defers()
    assert cleared.generation > first.generation
    assert cleared.timeout_at is not None
    assert first.timeout_at is not None
    assert cleared.timeout_at > first.timeout_at
    instance.ti.task.retries = 2
    instance.cleared()
    assert instance.defers().generation > cleared.generation


def test_clear_after_firing_restarts_the_timeout_and_keeps_since() -> None:
    """It also finds a firing that was met: see tests/unit/triggers/test_event.py and integration tests."""
    instance = Instance()
    first = instance.defers()
    instance.retried()
    instance.cleared()
    cleared = instance.defers()
    assert cleared.timeout_at is not None
    assert first.timeout_at is not None
    assert cleared.timeout_at > first.timeout_at
    assert (cleared.subscription, cleared.since_ms) == (first.subscription, first.since_ms)
    assert (first.generation, cleared.generation) == (0, 2)
    instance.retried()
    assert (instance.defers().timeout_at, instance.defers().generation) == (cleared.timeout_at, 2)


def test_run_deleted_and_created_again_is_another_incarnation_of_its_wait() -> None:
    """A real Airflow deletes one in tests/integration/triggers."""
    deleted, made_again = Instance(), Instance()
    first = registered(deleted.defers())
    deleted.retried()
    assert registered(deleted.defers()) == first
    again = registered(made_again.defers())
    assert (again.subscription, again.since_ms) == (first.subscription, first.since_ms)
    assert again.incarnation != first.incarnation
    deleted.cleared()
    cleared = deleted.defers()
    assert cleared._registration(Condition.from_json(cleared.condition), 0).incarnation == first.incarnation


def test_backfill_weeks_later_looks_back_from_the_logical_date() -> None:
    run = SimpleNamespace(logical_date=DAY - timedelta(weeks=3), run_after=DAY)
    expected = DAY - timedelta(weeks=3, hours=24)
    assert Instance(run).defers().since_ms == int(expected.timestamp() * 1000)


def test_manual_run_without_a_logical_date_looks_back_from_run_after() -> None:
    run = SimpleNamespace(logical_date=None, run_after=DAY)
    assert Instance(run).defers().since_ms == int((DAY - 24 * HOUR).timestamp() * 1000)


def test_asset_triggered_run_takes_its_key_from_the_partition() -> None:
    task = EventSensor(task_id="wait", condition=ORDERS, key="{{ dag_run.partition_key }}", dag=DAG("d"))
    run = SimpleNamespace(logical_date=None, run_after=DAY, partition_key="20261120")
    task.render_template_fields({"dag_run": run})
    trigger = Instance(run).defers(task)
    assert trigger.key == "2026-11-20"
    assert trigger.since_ms == int((DAY - 24 * HOUR).timestamp() * 1000)


def test_mapped_task_has_a_subscription_and_a_timeout_for_each_index() -> None:
    one, two = Instance(map_index=0).defers(), Instance(map_index=1).defers()
    assert one.subscription == "airflow/dag/run/wait/0"
    assert two.subscription == "airflow/dag/run/wait/1"


def test_two_deployments_on_one_bus_have_subscriptions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one = registered(Instance().defers())
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DEPLOYMENT", "other")
    other = registered(Instance().defers())
    assert (one.subscription, other.subscription) == ("airflow/dag/run/wait", "other/dag/run/wait")
    assert one.incarnation != other.incarnation
