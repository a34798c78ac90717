"""A short run of `make chaos`: each step of the commit kills an engine once, under load and other faults."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.chaos.__main__ import WRONG
from tests.chaos.planted import run_planted
from tests.chaos.processes import ROOT, STEPS

SEED = 2
# It is the kills that take the time: at half the rate no step is missed, and a core has less to do.
ARGUMENTS = ("--seconds", "10", "--quiet", "5", "--rate", "40")


def test_a_run_with_faults_loses_repeats_and_leaks_nothing(say: Callable[[str], None]) -> None:
    """It ends too soon to see a firing that waits for an idle partition: `make chaos` sees it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *ARGUMENTS, "--seed", str(SEED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    errors = "\n".join(line for line in done.stderr.splitlines() if line.startswith(("chaos", "oracle")))
    assert done.returncode == 0, errors
    result = json.loads(done.stdout)
    say(
        f"chaos: {result['events']} events, {result['firings']} firings, {result['kills']} kills, seed {SEED}"
    )
    assert {name: result[name] for name in WRONG} == dict.fromkeys(WRONG, 0), errors
    assert all(result["kills_by_step"][step] for step in STEPS), errors


@pytest.mark.long
def test_a_run_of_engines_that_skip_offsets_does_not_pass(say: Callable[[str], None]) -> None:
    """One of the faults of `make chaos-plants`."""
    result = run_planted("skip an offset", seconds=12)
    say(f"chaos with a planted fault: {result}")
    assert result["seen"].get("missing")
