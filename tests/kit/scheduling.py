"""Which tests run in one process, and in which order: those of one file, or of files that start slowly.

`--dist loadgroup` does the same by markers, but with pytest 9.2 and pytest-xdist 3.8 it has no effect: xdist
writes the group into a private attribute that pytest has renamed.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# {folder or file: the group of its tests}; the longest path that fits counts. Any other file is a group.
GROUPS: Final = {
    "integration/triggers/": "airflow",
    "integration/triggers/test_examples.py": "airflow of the examples",
    "integration/spark/pipeline/": "spark",
}
# What takes longest starts first: else one process would run it at the end while the others wait.
FIRST: Final = (
    "integration/triggers/",
    "integration/spark/pipeline/",
    "integration/demo/",
    "integration/",
    "contract/",
    "simulation/",
    "invariants/",
)
# Tests that start no services.
COMPUTING: Final = ("simulation/", "invariants/", "conformance/", "unit/")
# Tests that run an Airflow, a Spark, or engines under load, for minutes.
HEAVY: Final = (
    "integration/triggers/",
    "integration/spark/pipeline/",
    "integration/demo/",
    "integration/chaos/",
)
# With more Airflows, Sparks and brokers at a time, tests miss their deadlines on two cores.
HEAVY_PROCESSES: Final = 2
WAITING_PROCESSES: Final = 3  # processes with tests that wait for services, the heavy ones included


class Kind(Enum):
    """What a test asks of the machine."""

    COMPUTING = "a core"
    WAITING = "a broker or another service; it waits for it much of the time"
    HEAVY = "services that together keep a core busy for minutes"


def group_of(nodeid: str) -> str:
    """The group of a test: all of a group run in one process, one after the other."""
    file = nodeid.partition("::")[0]
    longest = max((path for path in GROUPS if file.startswith(path)), key=len, default="")
    return GROUPS.get(longest, file)


def rank_of(nodeid: str) -> int:
    """The place of a test in the order: lower ones start earlier."""
    return next((place for place, path in enumerate(FIRST) if nodeid.startswith(path)), len(FIRST))


def kind_of(nodeid: str) -> Kind:
    """What a test asks of the machine."""
    if nodeid.startswith(HEAVY):
        return Kind.HEAVY
    return Kind.COMPUTING if nodeid.startswith(COMPUTING) else Kind.WAITING


def is_computing(argument: str) -> bool:
    """Whether an argument of pytest names only tests that start no services."""
    path = argument.partition("::")[0].removeprefix("./").removeprefix("tests/")
    return f"{path}/".startswith(COMPUTING)


class GroupScheduling(LoadScopeScheduling):
    """Gives each process one group at a time: the first one that the bounds allow beside the other processes.

    The bounds are HEAVY_PROCESSES and WAITING_PROCESSES. When they allow no group that is left, the first
    one runs.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        kinds = [self._kinds(each) for each in self.assigned_work if each is not node]
        heavy = sum(Kind.HEAVY in each for each in kinds)
        waiting = sum(bool(each & {Kind.HEAVY, Kind.WAITING}) for each in kinds)
        allowed = {Kind.COMPUTING}
        if waiting < WAITING_PROCESSES:
            allowed |= {Kind.WAITING} if heavy >= HEAVY_PROCESSES else {Kind.WAITING, Kind.HEAVY}
        group = next((group for group, tests in self.workqueue.items() if kind(tests) in allowed), None)
        if group is not None:
            self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)

    def _kinds(self, node: WorkerController) -> set[Kind]:
        """The kinds of the groups of which the process has tests left."""
        return {kind(tests) for tests in self.assigned_work[node].values() if not all(tests.values())}


def kind(tests: dict[str, bool]) -> Kind:
    """The kind of a group, whose tests are all of one kind."""
    return kind_of(next(iter(tests)))
