"""The faults of `make ha` are done in their order, and what they met is counted."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from tests.ha.faults import Faults
from tests.ha.plan import Fault, Plan


def site(done: list[str], places: list[dict[int, int]]) -> Any:
    """An installation that notes what is done to it, and tells these places of its waits in turn."""

    def note(what: str) -> Any:
        return lambda *_: done.append(what)

    return SimpleNamespace(
        places=lambda *_: places.pop(0),
        api=SimpleNamespace(pause=note("pause"), unpause=note("unpause")),
        broker=SimpleNamespace(restart=note("restart")),
        airflow=SimpleNamespace(
            hang_triggerer=note("hang"),
            continue_triggerer=note("continue"),
            kill_triggerer=note("kill"),
            start_triggerer=note("start"),
            processes=SimpleNamespace(check=lambda: None),
        ),
    )


def faults_of(kinds: list[str], places: list[dict[int, int]], *, target: bool) -> tuple[Faults, list[str]]:
    done: list[str] = []
    planned = Plan((), tuple(Fault(0.0, kind) for kind in kinds), (), ends_s=0.0)
    faults = Faults(site(done, places), lambda _: None, planned, "run", target=target)
    faults.run(time.monotonic())
    return faults, done


def test_waits_that_another_triggerer_took_while_one_was_stopped_are_counted() -> None:
    kinds = ["stop a triggerer", "continue the triggerer"]
    before = {0: 7, 1: 7, 2: 8, 3: 7}
    now = {0: 8, 1: 8, 2: 8, 4: 8}  # 3 was resumed meanwhile, 4 is new
    faults, done = faults_of(kinds, [before, now], target=True)
    assert done == ["hang", "continue"]
    assert faults.moved == 2
    [(begin, end)] = faults.times  # one disturbance from the stop to the end
    assert end > begin
    assert faults.happened == {"stop a triggerer": 1, "continue the triggerer": 1}


def test_each_kind_is_done_also_after_the_plans_end_and_what_disturbs_is_timed() -> None:
    kinds = [
        "pause the target",
        "kill a triggerer",
        "start a triggerer",
        "restart the broker",
        "unpause the target",
    ]
    faults, done = faults_of(kinds, [], target=True)
    assert done == ["pause", "kill", "start", "restart", "unpause"]
    assert len(faults.times) == 2


def test_without_a_dispatch_no_target_is_paused() -> None:
    _, done = faults_of(["pause the target", "unpause the target"], [], target=False)
    assert done == []
