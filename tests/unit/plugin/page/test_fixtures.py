"""The answers that the page's own tests are given have the members that the routes answer with.

Those fixtures tell of an invented pipeline, the routes here of a bus in memory: both must have the same form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from interlock import event
from interlock.conditions import Seen
from interlock.events import Event
from interlock.plugin.page import events
from interlock.plugin.page.airflow_facts import TaskFacts

from tests.unit.plugin.page.bus_in_memory import NOW_MS
from tests.unit.plugin.page.test_routes import BOTH, DAY, ORDERS, TASK, World, happened, manager, world

__all__ = ["manager", "world"]
FIXTURES: Final = Path(__file__).parents[4] / "ui" / "fixtures"
# Their members are names that users choose, or have a form of their own (conditions/explanation).
_FREE: Final = frozenset({"events", "extensions", "data", "explanation"})


def members(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all members, such as `rows[].key`; a list has the members of all that is in it."""
    if isinstance(value, list):
        for each in value:
            yield from members(each, f"{path}[]")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield f"{path}.{name}"
            if name not in _FREE:
                yield from members(each, f"{path}.{name}")


def fixture(name: str) -> set[str]:
    return set(members(json.loads((FIXTURES / f"{name}.json").read_text())))


@pytest.fixture
def busy(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Something of each kind waits, has fired, and was sent."""
    half = world.bus.register("airflow/report/r/wait", BOTH.expires(at="2026-11-20T12:00:00Z"), DAY)
    world.bus.match(half, happened())
    durable = world.bus.register("airflow/dispatch/report", ORDERS, kind="durable")
    world.bus.fire(durable, happened())
    world.bus.fire(world.bus.register("airflow/settle/r/wait", BOTH, DAY), happened(), state="acked")
    refusing = event("orders", where="data.rows > 5", label="orders")
    world.bus.register("airflow/report/r/other", refusing, None)
    near = Event.of("rates", "/bank", id="r1", data={"day": "2026-11-19"})
    world.latest = [Seen(near, "b-event", 0, 0, NOW_MS), Seen(happened(), "b-event", 0, 1, NOW_MS)]
    monkeypatch.setattr(events, "_read", lambda *_: Seen(happened(), "b-event", 0, 7, NOW_MS))
    world.facts = TaskFacts("deferred", True, NOW_MS + 1000)
    return world


@pytest.mark.parametrize(
    ("names", "path", "sent"),
    [
        (["buses", "buses-several"], "/buses", {}),
        (["waits", "waits-many"], "/waits", {"kind": "one-shot"}),
        (["waits-durable"], "/waits", {"kind": "durable"}),
        (["firings"], "/firings", {}),
        (["graph"], "/graph", {}),
        (["events"], "/events", {}),
        (["event"], "/event", {"topic": "b-event", "partition": 0, "offset": 7}),
        (["wait", "wait-viewer", "wait-hostile", "wait-many", "wait-mixed"], "/wait", TASK),
        (["wait-none"], "/wait", {**TASK, "task_id": "nothing"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_fixture_has_the_members_of_the_answer_and_no_others(
    busy: World, names: list[str], path: str, sent: dict[str, Any]
) -> None:
    answered = set(members(busy.get(path, "op", **sent)))
    for name in names:
        given = fixture(name)
        optional = {each for each in answered ^ given if each.rpartition(".")[2] in ("dag_id", "error")}
        assert given ^ answered <= optional, name


def test_the_fixture_of_a_firing_has_the_members_of_the_answer_and_no_others(busy: World) -> None:
    busy.facts = TaskFacts("success", running_ms=NOW_MS + 3000)
    answered = set(members(busy.get("/wait", "op", **{**TASK, "dag_id": "settle"})))
    assert fixture("wait-fired") ^ answered == set()
