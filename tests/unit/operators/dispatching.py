"""The task of a dispatcher, its deferrals and rounds, and an action topic in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from interlock import event
from interlock.engine.errors import UnreachableError
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.operators import dispatch as module
from interlock.operators import dispatch_dag

from tests.kit.state_store import StateStore, task_instance

DAILY = event("x", by="data.day", label="x")
BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)
BEGAN_MS = int(BEGAN.timestamp() * 1000)


class Log:
    """The action topic: open and acknowledged firings."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], ActionRecord] = {}  # by partition and offset
        self.acknowledged: list[str] = []
        self.unreachable = False

    def fire(self, *firings: FiringRecord, of: str = "airflow/dispatch/d") -> None:
        for firing in firings:
            record = ActionRecord(
                subscription=of, kind="durable", incarnation="i", state="fired", firing=firing
            )
            self.records[0, len(self.records)] = record

    def read(self, _: Any, places: Any) -> Any:
        return [self.records.get(place) for place in places]

    def acknowledge(self, _: Any, actions: Any) -> None:
        if actions and self.unreachable:
            raise UnreachableError("the broker is away")
        self.acknowledged += [action.firing.id for action in actions]

    def open(self) -> list[list[int]]:
        """Returns the places that a trigger would yield."""
        return [list(at) for at, record in self.records.items() if record.firing.id not in self.acknowledged]


def action_topic(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Returns the action topic that dispatchers read and write from now on."""
    made = Log()
    monkeypatch.setattr("interlock.engine.waiting.open_firings.read", made.read)
    monkeypatch.setattr(module, "acknowledge_all", made.acknowledge)
    return made


def firing(name: str, key: str | None = "2026-11-20", **more: Any) -> FiringRecord:
    events = {"x": [{"specversion": "1.0", "id": name, "data": {"market": "lse"}}]}
    given = {"fired_at": "at", "events": events, "origins": {"x": [{"timestamp_ms": 0}]}, **more}
    return FiringRecord(id=name, outcome="met", key=key, **given)


def task(condition: Any = DAILY, **arguments: Any) -> Any:
    return dispatch_dag("d", condition=condition, trigger_dag_id="t", **arguments).task_dict["dispatch"]


def context(began: datetime | None = BEGAN) -> Any:
    """The context of one run of the dispatcher, the same in all its tries."""
    run = SimpleNamespace(start_date=began, run_after=BEGAN - timedelta(seconds=3))
    return {"ti": task_instance(task_id="dispatch"), "dag_run": run, "task_state_store": StateStore()}


def deferral(of: Any, *arguments: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kwargs of the trigger and of `resume`."""
    with pytest.raises(TaskDeferred) as raised:
        of(*arguments, **kwargs)
    assert (raised.value.method_name, raised.value.timeout) == ("resume", None)
    return raised.value.trigger.serialize()[1], raised.value.kwargs or {}


def fired(places: Any, *, registered: bool = True) -> dict[str, Any]:
    """The event of a trigger with these open firings; without one it is time to renew."""
    return {"outcome": "fired" if places else "renew", "places": places, "registered": registered}


def resumed(operator: Any, places: Any, kept: dict[str, Any] | None = None) -> Any:
    """Runs a round over these places, and returns the next deferral."""
    kept = kept or deferral(operator.execute, context())[1]
    return deferral(operator.resume, context(), event=fired(places), **kept)


def since_of(kwargs: dict[str, Any]) -> int:
    return int(kwargs["durable"]["since_ms"])
