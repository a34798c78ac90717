"""The faults of `make ha` are carried out in order, and their effects are counted."""

from __future__ import annotations

import time
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ha.faults import Faults
from tests.ha.plan import Fault, Plan


def site(done: list[str], places: list[dict[int, str]]) -> Any:
    """A fake installation: records what is done to it, and returns these places of its waits in turn.

    It has the triggerers a, b and c.
    """

    def note(what: str) -> Any:
        return lambda *names: done.append(" ".join([what, *names]))

    return SimpleNamespace(
        places=lambda *_: places.pop(0),
        api=SimpleNamespace(pause=note("pause"), unpause=note("unpause")),
        broker=SimpleNamespace(restart=note("restart")),
        airflow=SimpleNamespace(
            hang_triggerer=note("hang"),
            continue_triggerer=note("continue"),
            kill_triggerer=note("kill"),
            start_triggerer=note("start"),
            triggerers=["a", "b", "c"],
            processes=SimpleNamespace(check=lambda: None),
        ),
    )


def faults_of(
    planned: list[Fault], places: list[dict[int, str]], *, target: bool
) -> tuple[Faults, list[str]]:
    done: list[str] = []
    whole = Plan((), tuple(planned), (), ends_s=0.0)
    faults = Faults(site(done, places), lambda _: None, whole, "run", target=target)
    faults.run(time.monotonic())
    return faults, done


def test_waits_that_another_triggerer_took_while_one_was_stopped_are_counted() -> None:
    planned = [Fault(0.0, "stop a triggerer", (0, 1, 2)), Fault(0.0, "continue the triggerer")]
    before = {0: "a", 1: "a", 2: "b", 3: "a", 5: "a"}
    now = {0: "b", 1: "c", 2: "c", 4: "b", 5: "a"}  # 3 was resumed meanwhile, 4 is new
    faults, done = faults_of(planned, [before, before, now], target=True)
    assert done == ["hang a", "continue"]
    assert faults.moved == 2
    [(begin, end)] = faults.times  # one disturbance from the stop to the end
    assert end > begin
    assert faults.happened == {"stop a triggerer": 1, "continue the triggerer": 1}


def test_the_triggerers_with_waits_are_recorded_at_the_start_and_at_each_fault_that_hits_one() -> None:
    places = [{0: "a", 1: "b", 2: "b"}, {1: "b", 2: "b"}]
    faults, _ = faults_of([Fault(0.0, "kill a triggerer", (2, 1, 0))], places, target=True)
    assert [asdict(each) for each in faults.wait_counts] == [
        {"when": "the load begins", "struck": None, "waits": {"a": 1, "b": 2, "c": 0}},
        {"when": "kill a triggerer", "struck": "c", "waits": {"a": 0, "b": 2, "c": 0}},
    ]


@pytest.mark.parametrize(
    ("with_waits", "places", "struck"),
    [
        (False, {0: "b"}, "c"),
        (True, {0: "b"}, "b"),
        (True, {0: "a", 1: "b"}, "a"),
        (True, {}, "c"),
        (True, {0: "killed before"}, "c"),
    ],
)
def test_a_fault_that_must_hit_waits_skips_triggerers_without(
    with_waits: bool, places: dict[int, str], struck: str
) -> None:
    fault = Fault(0.0, "kill a triggerer", (2, 0, 1), with_waits)
    _, done = faults_of([fault], [places, places], target=True)
    assert done == [f"kill {struck}"]


def test_each_kind_is_carried_out_also_after_the_plans_end_and_disturbing_ones_are_timed() -> None:
    planned = [
        Fault(0.0, "pause the target"),
        Fault(0.0, "kill a triggerer", (1, 0, 2)),
        Fault(0.0, "start a triggerer"),
        Fault(0.0, "restart the broker"),
        Fault(0.0, "unpause the target"),
    ]
    faults, done = faults_of(planned, [{}, {}], target=True)
    assert done == ["pause ha_target", "kill b", "start", "restart", "unpause ha_target"]
    assert len(faults.times) == 2


def test_without_a_dispatch_no_target_is_paused() -> None:
    _, done = faults_of(
        [Fault(0.0, "pause the target"), Fault(0.0, "unpause the target")], [{}], target=False
    )
    assert done == []
