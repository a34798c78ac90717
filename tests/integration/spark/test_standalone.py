"""A standalone cluster: a master, a worker, and a driver in client mode whose executors are elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from interlock.spark import __main__ as wrapper

from .conftest import Jobs

CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
JOB = """
    import sys
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("orders").getOrCreate()
    spark.range(0, 700, 1, 4).write.parquet(sys.argv[1])
    """


@contextmanager
def started(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A part of the cluster; gives its log."""
    log = folder / f"{name}.log"
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(CLASS), *arguments],
            env=environment,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


@pytest.fixture
def cluster(tmp_path: Path, eventually: Callable[..., Any]) -> Iterator[str]:
    """The address of a master that has a worker."""
    package = "org.apache.spark.deploy"
    with ExitStack() as stack:
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = stack.enter_context(started(tmp_path, "master", f"{package}.master.Master", *options))
        [address] = eventually("the master is up", lambda: re.findall(r"spark://[\d.:]+", master.read_text()))
        stack.enter_context(
            started(
                tmp_path,
                "worker",
                f"{package}.worker.Worker",
                *options,
                *("--cores", "1", "--memory", "1g", address),
            )
        )
        eventually("the worker is known", lambda: "Registering worker" in master.read_text())
        yield address


@pytest.mark.long
def test_an_application_of_a_standalone_cluster_emits_its_end_and_what_its_executors_wrote(
    jobs: Jobs, cluster: str
) -> None:
    jobs.settings |= {"spark.master": cluster, "spark.executor.memory": "512m"}
    job = jobs.write(textwrap.dedent(JOB))
    output = jobs.folder / "output"
    process = jobs.submit(str(Path(wrapper.__file__)), str(job), str(output))
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed[-3000:]
    emitted = jobs.emitted()
    assert emitted == [("orders", "application.succeeded"), ("orders", "query.succeeded")], printed[-3000:]
    data = jobs.data("application.succeeded", "orders")
    assert re.fullmatch(r"app-\d{14}-0000", data["application"]["id"])
    assert data["written"]["rows"] == 700
    assert data["written"]["outputs"] == [f"file:{output}"]
