"""Slots: which sink may start the next delivery."""

from __future__ import annotations

from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.lanes import SinkLanes
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.schedule import Schedule

from tests.unit.engine.delivery.firings import firing


def schedule(slots: int, **firings: int) -> Schedule:
    """Sinks with so many firings, each of another key."""
    made = Schedule(slots)
    for name, count in firings.items():
        made.sinks[name] = SinkLanes(Retry(jitter=0), "key", 100, lambda: 0.0)
        for n in range(count):
            made.sinks[name].add(firing(n, f"k{n}", name=f"{name}{n}"))
    return made


def test_sinks_take_turns() -> None:
    made = schedule(2, a=10, b=10, c=10)
    assert [name for name, _ in made.start(0)] == ["a", "b", "c", "a", "b"]  # one of each is its own
    for name in ("a", "b"):
        lane = next(iter(made.sinks[name].lanes.values()))
        made.sinks[name].answer(lane.firings[0], Answer(500), 0, 0)
    assert [name for name, _ in made.start(0)] == ["c", "a"]


def test_sinks_that_hang_leave_each_other_one_its_own_slot() -> None:
    made = schedule(4, slow=50, hanging=50)
    assert len([*made.start(0)]) == 6
    made.sinks["quick"] = SinkLanes(Retry(), "key", 100, lambda: 0.0)
    made.sinks["quick"].add(firing(1, "a"))
    made.sinks["quick"].add(firing(2, "b"))
    assert [name for name, _ in made.start(0)] == ["quick"]


def test_it_says_when_a_delivery_may_begin() -> None:
    made = schedule(4, a=1)
    assert made.next_due(5) == 5
    [(_, sent)] = made.start(5)
    assert made.next_due(5) is None
    made.sinks["a"].answer(sent, Answer(500), 5, 0)
    assert made.next_due(5) == 5.2
