"""Which tests run in one process, and in which order: those of one file, or of files that start slowly.

`--dist loadgroup` does the same by markers, but with pytest 9.2 and pytest-xdist 3.8 it has no effect: xdist
writes the group into a private attribute that pytest has renamed.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

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
    "simulation/",
    "invariants/",
    "contract/",
)


def group_of(nodeid: str) -> str:
    """The group of a test: all of a group run in one process, one after the other."""
    file = nodeid.partition("::")[0]
    longest = max((path for path in GROUPS if file.startswith(path)), key=len, default="")
    return GROUPS.get(longest, file)


def rank_of(nodeid: str) -> int:
    """The place of a test in the order: lower ones start earlier."""
    return next((place for place, path in enumerate(FIRST) if nodeid.startswith(path)), len(FIRST))


class GroupScheduling(LoadScopeScheduling):
    """Gives each process one group at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
