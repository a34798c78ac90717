"""Groups of tests that run in one process, and their order."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.scheduling import (
    FIRST,
    GROUPS,
    HEAVY,
    HEAVY_PROCESSES,
    WAITING_PROCESSES,
    GroupScheduling,
    Kind,
    group_of,
    kind_of,
    rank_of,
)


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("integration/triggers/test_asset.py::test_a[x]", "airflow"),
        ("integration/triggers/test_examples.py::test_b", "airflow of the examples"),
        ("integration/spark/pipeline/test_archive.py::test_c", "spark"),
        ("unit/events/test_event.py::test_d[a::b]", "unit/events/test_event.py"),
    ],
)
def test_a_test_runs_with_its_file_or_with_the_group_of_the_longest_path(test: str, group: str) -> None:
    assert group_of(test) == group


def test_what_takes_longest_starts_first() -> None:
    assert rank_of("integration/triggers/test_asset.py::test_a") == 0
    assert rank_of("integration/events/test_emitter.py::test_a") < rank_of("contract/test_facts.py::test_a")
    assert rank_of("unit/events/test_event.py::test_a") == len(FIRST)


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("integration/demo/test_demo.py::test_a", Kind.HEAVY),
        ("integration/engine/test_access.py::test_b", Kind.WAITING),
        ("contract/test_facts.py::test_c", Kind.WAITING),
        ("unit/events/test_event.py::test_d", Kind.COMPUTING),
    ],
)
def test_a_test_has_a_kind_by_its_folder(test: str, kind: Kind) -> None:
    assert kind_of(test) is kind


class Process:
    """A process of a distributed run: its queue of tests, of which it needs the next one to run the first."""

    shutting_down = False
    gateway = SimpleNamespace(id="process")

    def __init__(self, collected: list[str]) -> None:
        self.queue: list[str] = []
        self._collected = collected

    def send_runtest_some(self, indices: list[int]) -> None:
        self.queue += [self._collected[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def runs(self) -> str | None:
        return self.queue[0] if len(self.queue) > 1 or (self.queue and self.shutting_down) else None


def test_processes_share_the_kinds_within_the_bounds_and_run_every_test(
    request: pytest.FixtureRequest,
) -> None:
    folders = ["integration/triggers", "integration/spark/pipeline", "integration/demo", "integration/chaos"]
    folders += [*["integration/engine"] * 12, *["unit/events"] * 40]
    collected = [f"{folder}/test_{n}.py::test_{m}" for n, folder in enumerate(folders) for m in range(3)]
    processes = [Process(collected) for _ in range(4)]
    scheduling: Any = GroupScheduling.__new__(GroupScheduling)
    scheduling.__dict__ |= {
        "config": request.config,
        "log": lambda *_: None,
        "collection": None,
        "numnodes": len(processes),
        "workqueue": OrderedDict(),
        "registered_collections": {},
        "assigned_work": {},
    }
    for process in processes:
        scheduling.add_node(process)
        scheduling.add_node_collection(process, collected)
    scheduling.schedule()
    ran: list[str] = []
    while running := [process for process in processes if process.runs]:
        kinds = [kind_of(process.runs) for process in running]
        if any(
            kind_of(test) is Kind.COMPUTING
            for test in (test for tests in scheduling.workqueue.values() for test in tests)
        ):
            assert kinds.count(Kind.HEAVY) <= HEAVY_PROCESSES
            assert len(kinds) - kinds.count(Kind.COMPUTING) <= WAITING_PROCESSES
        process = running[len(ran) % len(running)]  # any order will do
        ran.append(process.queue.pop(0))
        scheduling.mark_test_complete(process, collected.index(ran[-1]))
    assert sorted(ran) == sorted(collected)


def test_processes_take_turns_by_group(request: pytest.FixtureRequest) -> None:
    """A run in several processes uses these groups, whatever scheduler the command line names."""
    hook = request.config.hook
    assert any(
        "conftest" in str(impl.plugin_name) for impl in hook.pytest_xdist_make_scheduler.get_hookimpls()
    )


@pytest.mark.parametrize("path", [*GROUPS, *FIRST, *HEAVY])
def test_each_path_exists(path: str, request: pytest.FixtureRequest) -> None:
    assert (request.config.rootpath / path).exists()
