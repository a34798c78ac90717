"""Which worlds the tests play: chosen ones, the same on every run, and others that change with each commit.

The chosen ones (chosen.json) show everything that a run must show: `make simulate CHOOSE=1` chooses again.
The others follow from the commit's hash, so that each commit tries worlds that no run has tried.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.commit import commit_number

CHOSEN_FILE = Path(__file__).with_name("chosen.json")
ROTATING = 250
# Beyond the seeds that are searched for chosen ones and planted faults.
_FIRST, _SPAN = 1_000_000, 2**32


def chosen() -> list[int]:
    seeds: list[int] = json.loads(CHOSEN_FILE.read_text())
    return seeds


def first_of_commit() -> int:
    """The first of the seeds that belong to the checked-out commit. Without git always the same one."""
    return _FIRST + commit_number() % _SPAN
