"""`python -m interlock.spark.pipeline JOB` prints the path of a job's file, to pass to spark-submit."""

from __future__ import annotations

import sys

from . import PipelineError, job


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m interlock.spark.pipeline JOB")
    try:
        sys.stdout.write(f"{job(sys.argv[1])}\n")
    except PipelineError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
