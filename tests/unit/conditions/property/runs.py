"""The number of random cases, and whether they are the same on every run.

Without settings the cases follow from the test, and from the constants in the modules that are imported: they
are others when all tests run. FUZZ_EXAMPLES=n gives n others (`make fuzz-step`); `pytest --hypothesis-seed=n`
repeats those.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

FUZZED = int(os.environ.get("FUZZ_EXAMPLES", "0"))


def examples(number: int) -> Any:
    """Settings for this many cases, or for the share of FUZZ_EXAMPLES that they are of 10,000."""
    count = max(1, number * FUZZED // 10_000) if FUZZED else number
    return settings(
        max_examples=count,
        derandomize=not FUZZED,
        database=None,
        deadline=None,  # no assertions on time
        print_blob=True,
        report_multiple_bugs=False,  # one shrunk case is enough
        suppress_health_check=list(HealthCheck),
    )
