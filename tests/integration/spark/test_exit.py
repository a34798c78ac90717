"""The table of how an attempt ends (docs/use/spark.md): each row on a real Spark and a real broker, each way.

`make test` runs one row each way, because a JVM takes ten seconds for each; `make test-long` runs the others.
How a process ends without Spark is in tests/unit/spark/completion.

One job has a block, `part`. It runs unchanged, in the wrapper (which emits the event of `app`), and submitted
by the operator. Code after the block affects the outcome too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.sdk import DAG, Connection
from interlock.operators import SparkSubmitEventOperator
from interlock.operators import spark_submit as module
from interlock.spark import __main__ as wrapper
from interlock.testing.task_context import context_of

from .conftest import LOCAL, SUBMIT, Jobs

WRAPPER = str(Path(wrapper.__file__))
SECRET = "canary-of-the-connection"
SUCCEEDED, FAILED = "application.succeeded", "application.failed"
STREAM_SUCCEEDED = "streaming_query.succeeded"
JOB = """
    import os, signal, sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    from interlock.spark import completion_event

    def inside(spark):
        {inside}

    def after(spark):
        {after}

    spark = SparkSession.builder.appName("app").getOrCreate()
    with completion_event(spark, "part") as completion:
        completion.data["rows"] = spark.range(7).count()
        inside(spark)
    after(spark)
    """
# row: (in the block, after it, outcome seen by the process, outcome seen by the task, exit code)
ROWS: dict[str, tuple[str, str, str | None, str, int]] = {
    "return": ("pass", "pass", SUCCEEDED, SUCCEEDED, 0),
    "exception": ("raise ValueError('no rows')", "pass", FAILED, FAILED, 1),
    "exception after the block": ("pass", "raise ValueError('no rows')", FAILED, FAILED, 1),
    "sys.exit(0)": ("sys.exit(0)", "pass", SUCCEEDED, SUCCEEDED, 0),
    "sys.exit(1)": ("sys.exit(1)", "pass", FAILED, FAILED, 1),
    "sys.exit(1) after the block": ("pass", "sys.exit(1)", FAILED, FAILED, 1),
    "spark.stop() early and work after it": (
        "spark.stop(); Path('after').write_text('work')",
        "pass",
        SUCCEEDED,
        SUCCEEDED,
        0,
    ),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", "pass", FAILED, FAILED, 143),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", "pass", None, FAILED, -9),
    "out of memory in the JVM": (
        "spark._jvm.java.nio.ByteBuffer.allocate(2**31 - 8)",
        "pass",
        FAILED,
        FAILED,
        1,
    ),
}


def rows(short: str) -> list[Any]:
    """The rows; all except `short` are marked long."""
    return [row if row == short else pytest.param(row, marks=pytest.mark.long) for row in ROWS]


def job(jobs: Jobs, row: str) -> str:
    inside, after, *_ = ROWS[row]
    return str(jobs.write(textwrap.dedent(JOB).format(inside=inside, after=after)))


def finished(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=180)
    return output


@pytest.mark.parametrize("row", rows(short="exception after the block"))
def test_in_the_wrapper_block_and_application_have_the_outcome_that_the_process_sees(
    jobs: Jobs, row: str
) -> None:
    *_, outcome, _, exit_code = ROWS[row]
    jobs.settings["spark.driver.memory"] = "600m"
    process = jobs.submit(WRAPPER, job(jobs, row))
    output = finished(process)
    assert (process.returncode == 0) == (exit_code == 0), output[-3000:]
    assert jobs.emitted() == ([] if outcome is None else [("app", outcome), ("part", outcome)]), output[
        -3000:
    ]
    if outcome is not None:
        part, app = jobs.data(outcome, "part"), jobs.data(outcome, "app")
        assert part["rows"] == 7
        assert part["application"] | {"duration_ms": 0} == app["application"] | {"duration_ms": 0}
        assert ("error" in part) == ("error" in app) == (outcome == FAILED)


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_without_the_wrapper_a_block_sends_its_event_when_its_process_ends(jobs: Jobs, row: str) -> None:
    *_, outcome, _, exit_code = ROWS[row]
    jobs.settings["spark.driver.memory"] = "600m"
    process = jobs.python(job(jobs, row))
    output = finished(process)
    assert process.returncode == exit_code, output[-3000:]
    assert jobs.emitted() == ([] if outcome is None else [("part", outcome)]), output[-3000:]


@pytest.mark.parametrize("row", rows(short="SIGKILL"))
def test_under_airflow_the_exit_code_decides_and_the_event_has_the_drivers_report(
    jobs: Jobs, row: str, submitted: Callable[..., Exception | None]
) -> None:
    *_, decided, exit_code = ROWS[row]
    error = submitted(job(jobs, row), conf={"spark.driver.memory": "600m"})
    assert (error is None) == (exit_code == 0)
    assert jobs.emitted() == [("app", decided), ("part", decided)]
    for subject in ("app", "part"):
        data = jobs.data(decided, subject)
        assert data["application"]["id"].startswith("local-")
        assert data["date"] == "2026-11-20"
        assert data["airflow"]["task_id"] == "orders"
        assert ("error" in data) == (decided == FAILED)
    if decided == SUCCEEDED:
        assert jobs.data(decided, "part")["rows"] == 7


def test_the_task_reports_the_failure_of_a_driver_that_never_began(
    jobs: Jobs, submitted: Callable[..., Exception | None]
) -> None:
    error = submitted(str(jobs.folder / "no_such_job.py"), wrap=False)
    assert error is not None
    assert jobs.emitted() == [("app", FAILED)]
    data = jobs.data(FAILED, "app")
    assert data["application"]["id"] is None
    assert data["error"]["class"].endswith("AirflowException")


@pytest.mark.long
def test_a_wrapped_job_without_a_name_has_its_files_and_ends_the_streams_that_still_run(jobs: Jobs) -> None:
    """Regression: the application was called __main__.py; a running streaming query got no end event."""
    source = """
        import time
        from pyspark.sql import SparkSession
        from interlock.spark import completion_event

        spark = SparkSession.builder.getOrCreate()
        print("called", spark.sparkContext.appName)
        with completion_event(spark, "part"):
            query = spark.readStream.format("rate").load().writeStream.format("noop").queryName("q").start()
            while query.lastProgress is None:
                time.sleep(0.1)
        """
    process = jobs.submit(WRAPPER, str(jobs.write(textwrap.dedent(source))))
    output = finished(process)
    assert process.returncode == 0, output[-3000:]
    assert "called job.py" in output
    expected = [("job.py", SUCCEEDED), ("part", SUCCEEDED), ("job.py", STREAM_SUCCEEDED)]
    assert sorted(jobs.emitted()) == sorted(expected), output[-3000:]
    assert jobs.data(SUCCEEDED, "part")["application"]["name"] == "job.py"
    stream = jobs.data(STREAM_SUCCEEDED, "job.py")["streaming_query"]
    assert stream["name"] == "q"
    assert stream["batches"] >= 1


@pytest.mark.long
def test_a_job_in_the_wrapper_without_a_session_has_an_event_with_its_name(jobs: Jobs) -> None:
    process = jobs.submit(WRAPPER, str(jobs.write("import no_such_module\n")))
    output = finished(process)
    assert process.returncode != 0
    assert jobs.emitted() == [("job.py", FAILED)], output[-3000:]


@pytest.mark.long
def test_blocks_with_the_wrappers_name_replace_its_event(
    jobs: Jobs, submitted: Callable[..., Exception | None]
) -> None:
    source = """
        from pyspark.sql import SparkSession
        from interlock.spark import completion_event

        spark = SparkSession.builder.appName("app").getOrCreate()
        for date in ("19", "20"):
            with completion_event(spark, "app", data={"day": date}):
                spark.range(7).write.parquet(date)
        """
    path = str(jobs.write(textwrap.dedent(source)))
    process = jobs.submit("--conf=spark.interlock.started=true", WRAPPER, path)
    output = finished(process)
    assert process.returncode == 0, output[-3000:]
    kinds = ["application.started", SUCCEEDED, "query.succeeded"]
    assert jobs.emitted() == [("app", kind) for kind in kinds for _ in range(2)], output[-3000:]
    alone = [record.json() for record in jobs.events()]
    assert len({record.header("ce_id") for record in jobs.events()}) == 6
    for day in ("19", "20"):
        shutil.rmtree(jobs.folder / day)

    assert submitted(path, started=True) is None
    by_task = [record.json() for record in jobs.events()][len(alone) :]
    assert [each.get("day") for each in by_task if "written" in each] == ["19", "20"]
    assert len(by_task) == len(alone)


def test_neither_sparks_ui_nor_a_command_line_shows_the_connection(
    jobs: Jobs, submitted: Callable[..., Exception | None]
) -> None:
    source = """
        import os
        from pathlib import Path
        from urllib.request import urlopen
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        ui, of_app = spark.sparkContext.uiWebUrl, f"applications/{spark.sparkContext.applicationId}"
        pages = [f"{ui}/{page}" for page in ("environment/", f"api/v1/{of_app}/environment")]
        texts = [urlopen(page, timeout=30).read() for page in pages]
        for process in (os.getpid(), os.getppid()):  # the driver's Python and its JVM
            texts.append(Path(f"/proc/{process}/cmdline").read_bytes())
        Path("texts").write_bytes(b" ".join(texts))
        """
    path = str(jobs.write(textwrap.dedent(source)))
    assert submitted(path, conf={"spark.ui.enabled": "true", "spark.ui.port": "0"}) is None
    texts = (jobs.folder / "texts").read_text()
    assert "spark.interlock.client.config.file" in texts
    assert f"spark.interlock.bus={jobs.bus}" in texts.replace("\0", " ")
    assert SECRET not in texts
    assert jobs.servers not in texts


@pytest.fixture
def submitted(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Exception | None]:
    """Runs a job like a task; returns the task's error."""
    spark = Connection(conn_id="spark_default", conn_type="spark", host="local[1]")

    def connection(conn_id: str) -> Connection:
        if conn_id == "spark_default":
            return spark
        extra = {"bootstrap.servers": jobs.servers, "client.id": SECRET, **jobs.client}
        return Connection(conn_id=conn_id, conn_type="kafka", extra=json.dumps(extra))

    for owner in (module.BaseHook, hooks.BaseHook):
        monkeypatch.setattr(owner, "get_connection", staticmethod(connection))
    monkeypatch.chdir(jobs.folder)  # Spark and the job leave files where they run
    monkeypatch.setenv("PATH", f"{SUBMIT.parent}{os.pathsep}{os.environ['PATH']}")

    def run(application: str, *, conf: dict[str, str] | None = None, **arguments: Any) -> Exception | None:
        with DAG("daily", schedule=None):
            task = SparkSubmitEventOperator(
                task_id="orders",
                application=application,
                name="app",
                conf={**LOCAL, **(conf or {})},
                bus=jobs.bus,
                completion_data={"date": "2026-11-20"},
                env_vars={"PYSPARK_PYTHON": str(SUBMIT.parent / "python")},
                **arguments,
            )
        try:
            task.execute(context_of(task, run_after=datetime(2026, 11, 20, tzinfo=UTC)))
        except Exception as error:
            return error
        finally:
            if task._hook is not None:  # the provider's hook leaves it open
                task._hook._submit_sp.stdout.close()
        return None

    return run
