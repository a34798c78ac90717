"""Random cases that belong to the checked-out commit.

Each commit tries cases that no run has tried, and a run of the same commit tries the same ones: a failure is
seen again by the next run, and a commit that has passed passes elsewhere.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_number() -> int:
    """A large number that follows from the commit's hash; 0 without git."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(done.stdout.strip() or "0", 16)
