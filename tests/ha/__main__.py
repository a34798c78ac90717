"""Interlock in a pool of triggerers on PostgreSQL, under load and faults: `make ha`, `make burst`.

Progress goes to stderr, one JSON object to stdout. The exit code is 0 only if nothing is missing, duplicated
or unexpected, and each judged figure was measured and is not far off its aim (aims.py); the object's member
`met` says which aims are met. `--only idle` measures the cost of 1,000 waits for a triggerer, and makes the
pool grow and shrink; `--only burst` measures that cost, and how long 1,000 waits take that are met at one
moment.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .aims import met, verdicts
from .plan import AWAY_S


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ha", description=__doc__)
    parser.add_argument("--only", choices=("faults", "idle", "burst"), default="faults")
    parser.add_argument("--waits", type=int, help="200 with faults, else 1000")
    parser.add_argument("--triggerers", type=int, choices=(2, 3), default=2, help="with faults")
    parser.add_argument("--orders", type=int, default=300, help="events for the dispatch")
    parser.add_argument("--calm", type=float, default=100, help="seconds of each measured window")
    parser.add_argument(
        "--away", type=float, default=AWAY_S, help="seconds from a fault, for what is measured"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", type=Path, help="an empty folder for logs, which is kept")
    args = parser.parse_args()
    name = "burst" if args.only == "burst" else "ha"
    folder = (args.keep or Path(tempfile.mkdtemp(prefix="interlock-ha-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{name} {time.monotonic() - started:6.1f} s: {line}", file=sys.stderr, flush=True)

    import httpx
    import psutil
    from interlock.events import EmitError

    from .burst import Burst
    from .faulty import Run
    from .idle import Idle

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is stopped
    run: Run | Idle | Burst
    if args.only == "idle":
        run = Idle(folder, say, waits=args.waits or 1000, seed=args.seed)
    elif args.only == "burst":
        run = Burst(folder, say, waits=args.waits or 1000)
    else:
        run = Run(
            folder,
            say,
            waits=args.waits or 200,
            orders=args.orders,
            calm_s=args.calm,
            seed=args.seed,
            away_s=args.away,
            triggerers=args.triggerers,
        )
    try:
        result = run.execute()
    except (RuntimeError, EmitError, httpx.HTTPError, psutil.Error, subprocess.TimeoutExpired) as e:
        say(f"FAILED: {type(e).__name__}: {e}; logs are in {folder}")
        return 2
    result["met"] = met(result)
    result["took_s"] = round(time.monotonic() - started, 1)
    print(json.dumps(result), flush=True)
    wrong = run.differences.lines()
    for line in wrong[:100]:
        print(f"{name}: FAILED: {line}", file=sys.stderr)
    for line, fails in verdicts(result):
        print(f"{name}: {line}", file=sys.stderr)
        if fails:
            wrong.append(line)
    if wrong:
        print(f"{name}: logs are in {folder}", file=sys.stderr)
    elif args.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
