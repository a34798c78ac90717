"""A Spark job with OpenLineage's listener, and an Airflow with OpenLineage's provider, resume tasks.

Neither has anything of Interlock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.jars import cache_directory, class_path

from local.airflow import MIGRATED, LocalAirflow, free_port
from local.receiver import LocalReceiver
from local.topics import Record, read_all

pytestmark = pytest.mark.long  # an Airflow of its own, and a jar of 43 MB

CHECKSUMS = Path(__file__).with_name("openlineage.sha512")
# Installed into a folder of its own: in the environment every Airflow of the tests would load it.
PROVIDER = Path(__file__).with_name("openlineage.txt")
UV = Path(sys.executable).with_name("uv")
DAY = datetime(2026, 11, 20, tzinfo=UTC)
WAITS = """
    from airflow.sdk import DAG, task
    from interlock import dataset_written, openlineage_run
    from interlock.operators import EventSensor

    WAREHOUSE = "file:{folder}/warehouse"

    with DAG("table", schedule=None):
        EventSensor(task_id="wait", condition=dataset_written(WAREHOUSE, "default.orders", measured=True))

    with DAG("application", schedule=None):
        EventSensor(task_id="wait", condition=openlineage_run("daily_orders", "prod"))

    with DAG("task_of_the_day", schedule=None):
        run = openlineage_run("shop.load", "airflow-prod", by="nominal_time")
        EventSensor(task_id="wait", condition=run, key="{{ ts }}")

    with DAG("shop", schedule=None):

        @task
        def load():
            pass

        load()

    with DAG("failed", schedule=None):
        EventSensor(task_id="wait", condition=dataset_written(WAREHOUSE, "default.failed", measured=True))
    """
JOB = """
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, udf

    spark = SparkSession.builder.appName("Daily Orders").getOrCreate()

    @udf("long")
    def refuse(x):
        raise ValueError("as the test wants it")

    spark.range(70).selectExpr("id", "id % 7 as day").write.saveAsTable("orders")
    try:
        spark.range(1).select(refuse(col("id")).alias("id")).write.saveAsTable("failed")
    except Exception as error:
        print("as the test wants it")
    """


@dataclass
class Site:
    airflow: LocalAirflow
    bus: BusConfig
    receiver: str
    folder: Path

    def records(self) -> list[Record]:
        return read_all(self.bus.bootstrap_servers, self.bus.topic("event"))

    def events(self) -> list[tuple[str, str]]:
        """(type, subject) in their order."""
        return [(r.header("ce_type") or "", r.header("ce_subject") or "") for r in self.records()]


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    """A folder with OpenLineage's provider."""
    command = ["--system-certs", "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    command += ["--require-hashes", "--requirement", str(PROVIDER), "--target", str(tmp_path / "provider")]
    subprocess.run([str(UV), *command], check=True)
    return tmp_path / "provider"


@pytest.fixture
def site(tmp_path: Path, provider: Path, say: Any, eventually: Callable[..., Any]) -> Iterator[Site]:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "waits.py").write_text(textwrap.dedent(WAITS).replace("{folder}", str(tmp_path)))
    with LocalBroker(tmp_path / "broker", report=say) as broker:
        bus = BusConfig(name="lineage", client={"bootstrap.servers": broker.bootstrap_servers})
        create(bus, partitions=1)
        connection = {"conn_type": "kafka", "extra": dict(bus.client)}
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with LocalAirflow(
            tmp_path / "home",
            dags,
            migrated=MIGRATED,
            connections={"kafka_default": connection},
            settings={
                ("interlock", "bus"): bus.name,
                ("openlineage", "transport"): json.dumps({"type": "http", "url": url}),
                ("openlineage", "namespace"): "airflow-prod",
            },
            environment={"PYTHONPATH": str(provider)},
        ) as airflow:
            receiver = LocalReceiver(airflow, port=port)
            receiver.start()
            receiver.wait_ready()
            yield Site(airflow, bus, url, tmp_path)


def submit(site: Site, say: Any) -> str:
    """Runs the job; its log."""
    jar = class_path(say, cache_directory().with_name("openlineage-spark-1.53.0"), CHECKSUMS)
    job = site.folder / "orders.py"
    job.write_text(textwrap.dedent(JOB))
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(site.folder / "warehouse"),
        "spark.jars": jar,
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": site.receiver,
        "spark.openlineage.transport.compression": "gzip",
        "spark.openlineage.transport.timeoutInMillis": "60000",
        "spark.openlineage.namespace": "prod",
    }
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-submit"),
            *(f"--conf={name}={value}" for name, value in settings.items()),
            str(job),
        ],
        check=False,
        cwd=site.folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "as the test wants it" in done.stdout
    return done.stdout


def deferred(site: Site, dag_id: str, **run: Any) -> str:
    """A run whose task waits; its id."""
    site.airflow.api.unpause(dag_id)
    run_id = site.airflow.api.trigger(dag_id, **run)
    site.airflow.api.wait_for_task(dag_id, run_id, "wait", "deferred", timeout_s=120)
    return str(run_id)


def test_spark_and_airflow_with_openlineage_resume_the_tasks_that_wait_for_their_runs(
    site: Site, say: Any
) -> None:
    api = site.airflow.api
    api.wait_for_dags("table", "application", "failed", "task_of_the_day", "shop", timeout_s=120)
    waits = {dag_id: deferred(site, dag_id) for dag_id in ("table", "application", "failed")}
    of_the_day = deferred(site, "task_of_the_day", logical_date=DAY)

    api.unpause("shop")
    run_id = api.trigger("shop", logical_date=DAY)
    assert api.wait_for_run("shop", run_id) == "success"
    assert api.wait_for_run("task_of_the_day", of_the_day) == "success", site.events()
    assert ("openlineage.run.complete", "shop") in site.events()  # the DAG run

    log = submit(site, say)
    for dag_id in ("table", "application"):
        assert api.wait_for_run(dag_id, waits[dag_id]) == "success", (site.events(), log[-3000:])
    output = api.xcom("table", waits["table"], "wait")
    [[written]] = output["events"].values()
    assert written["type"] == "openlineage.run.complete"
    assert written["source"] == "/openlineage/prod"
    assert written["subject"].startswith("daily_orders.")
    # The failed write names its table in a complete event too, but not how much was written.
    failed = [
        record
        for record in site.records()
        if record.header("ce_type") == "openlineage.run.complete"
        and "|default.failed " in (record.header("ce_outputs") or "")
    ]
    assert failed
    assert all("|default.failed " not in (each.header("ce_measured") or "") for each in failed)
    assert api.task("failed", waits["failed"], "wait")["state"] == "deferred"
