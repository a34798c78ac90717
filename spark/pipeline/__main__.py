"""`python -m interlock.spark.pipeline JOB` prints the path of a job's file, to pass to spark-submit.

With `packages` instead of a job it prints the argument of `--packages`.
"""

from __future__ import annotations

import sys

from . import PipelineError, job, packages


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m interlock.spark.pipeline JOB|packages")
    try:
        name = sys.argv[1]
        sys.stdout.write(f"{packages() if name == 'packages' else job(name)}\n")
    except PipelineError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
