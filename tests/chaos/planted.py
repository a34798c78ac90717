"""A short run for each fault of plants.py, which the oracle must detect: `make chaos-plants`, all or `ONLY=`.

Prints a JSON line for each: the fault, the oracle's findings, and whether they are the expected ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

from .plants import SEEN_AS
from .processes import ROOT

# Detected only if another engine takes over the partitions.
NEEDS_FAULTS = frozenset({"drop a state record"})
SECONDS = 40
LONGER = {"hold timers back while events come": 100}  # more than `judge.LATE_MS`


def run_planted(name: str, seconds: float = SECONDS, seed: int = 1) -> dict[str, Any]:
    """One run with this fault in every engine; `seen`: the findings of SEEN_AS[name], with counts."""
    command = [sys.executable, "-m", "tests.chaos", "--plant", name, "--seed", str(seed)]
    command += ["--seconds", str(seconds), *([] if name in NEEDS_FAULTS else ["--calm"])]
    with tempfile.TemporaryDirectory(prefix="interlock-planted-") as folder:
        command += ["--keep", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"the run with {name!r} gave no verdict: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    counts = {kind: result[kind] for kind in ("missing", "duplicated", "unexpected", "leaked_keys", "late")}
    seen = {kind: counts[kind] for kind in SEEN_AS[name] if counts[kind]}
    return {
        "plant": name,
        **counts,
        "undone": len(result["undone"]),
        "events": result["events"],
        "firings": result["firings"],
        "took_s": result["took_s"],
        "seen": seen,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.planted", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(SEEN_AS), action="append")
    args = parser.parse_args()
    unseen = 0
    for name in args.only or SEEN_AS:
        result = run_planted(name, max(args.seconds, LONGER.get(name, 0)), args.seed)
        print(json.dumps(result), flush=True)
        unseen += not result["seen"]
    return bool(unseen)


if __name__ == "__main__":
    sys.exit(main())
