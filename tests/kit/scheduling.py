"""Which tests run in one process, and in which order: those of one file, or of files that start slowly.

`--dist loadgroup` does the same by markers, but with pytest 9.2 and pytest-xdist 3.8 it has no effect: xdist
writes the group into a private attribute that pytest has renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# A folder or a file, and the group of what lies in it; the longest path counts. Else a file is a group.
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
# They compute and start no services. The others wait for their services much of the time.
COMPUTING: Final = ("simulation/", "invariants/", "conformance/", "unit/")
# More processes at a time with Airflows, Sparks and brokers run into their deadlines on two cores.
WAITING_PROCESSES: Final = 3


def group_of(nodeid: str) -> str:
    """The group of a test: all of a group run in one process, one after the other."""
    file = nodeid.partition("::")[0]
    longest = max((path for path in GROUPS if file.startswith(path)), key=len, default="")
    return GROUPS.get(longest, file)


def rank_of(nodeid: str) -> int:
    """The place of a test in the order: lower ones start earlier."""
    return next((place for place, path in enumerate(FIRST) if nodeid.startswith(path)), len(FIRST))


class GroupScheduling(LoadScopeScheduling):
    """Gives each process one group at a time.

    While as many as WAITING_PROCESSES run tests that wait for services, a further process gets tests that
    compute, if there are any left.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = [each for each in self.assigned_work if each is not node and self._waits(each)]
        computing = next((group for group in self.workqueue if group.startswith(COMPUTING)), None)
        if len(waiting) >= WAITING_PROCESSES and computing is not None:
            self.workqueue.move_to_end(computing, last=False)
        super()._assign_work_unit(node)

    def _waits(self, node: WorkerController) -> bool:
        """Whether the process has tests left that wait for services."""
        return any(
            not group.startswith(COMPUTING) and not all(tests.values())
            for group, tests in self.assigned_work[node].items()
        )
