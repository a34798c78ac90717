"""`python -m interlock.spark` prints the path of this file: pass it to spark-submit in front of a job.

With arguments it runs the job: interlock.spark.completion.job_wrapper.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve()


def main() -> None:
    if sys.path and Path(sys.path[0] or ".").resolve() == HERE.parent:
        del sys.path[0]  # run as a file: the job must not import our modules by their bare names
    arguments = sys.argv[1:]
    if not arguments:
        sys.stdout.write(f"{HERE}\n")
        return
    from interlock.spark.completion.job_wrapper import run_job

    run_job(arguments)


if __name__ == "__main__":
    main()
