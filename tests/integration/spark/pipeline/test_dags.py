"""The DAGs of the data pipeline: each task is submitted as by Airflow, for a bus with events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.sdk import DAG, Connection
from interlock.operators import spark_submit as module
from interlock.spark.pipeline.archive import read
from interlock.testing import dags_in
from interlock.testing.task_context import context_of

from local.topics import read_all
from tests.integration.spark.conftest import SUBMIT
from tests.kit.sessions import SETTINGS

from .conftest import Site, headers

EXAMPLES = Path(__file__).parents[4] / "dags_examples"
DAY = datetime(2026, 11, 20, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    return dags_in(EXAMPLES)


@pytest.fixture
def submitted(
    site: Site, dags: dict[str, DAG], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Runs a task like a worker: renders templates, resolves connections, calls spark-submit."""
    kafka = Connection(
        conn_id="kafka_default", conn_type="kafka", extra=json.dumps({"bootstrap.servers": site.servers})
    )
    spark = Connection(conn_id="spark_default", conn_type="spark", host="local[1]")
    found = {"kafka_default": kafka, "spark_default": spark}
    for owner in (module.BaseHook, hooks.BaseHook):
        monkeypatch.setattr(owner, "get_connection", found.__getitem__)
    monkeypatch.chdir(tmp_path)  # Spark leaves files where it runs
    monkeypatch.setenv("PATH", f"{SUBMIT.parent}{os.pathsep}{os.environ['PATH']}")

    def run(dag_id: str, task_id: str) -> None:
        task: Any = dags[dag_id].get_task(task_id).prepare_for_execution()
        task.bus = site.name
        ours = {
            name: value
            for name, value in SETTINGS.items()
            if name not in ("spark.master", "spark.jars.packages")
        }
        task.conf = {**ours, **(task.conf or {})}
        context: Any = context_of(task, run_after=DAY, logical_date=DAY, run_id="by_hand")
        variable = SimpleNamespace(interlock_archive=str(tmp_path / "archive"))
        context["var"] = {"value": variable}
        context["params"] = dags[dag_id].params.dump()
        task.render_template_fields(context)
        try:
            task.execute(context)
        finally:  # the provider's hook leaves it open
            task._hook._submit_sp.stdout.close()

    return run


@pytest.mark.long
def test_events_are_archived_compacted_backtested_and_reported_by_the_example_dags(
    site: Site, submitted: Callable[..., None], spark: Any, tmp_path: Path
) -> None:
    producer = site.producer()
    for day in range(20):
        for kind in ("orders.done", "rates.published"):
            data = json.dumps({"date": f"2026-11-{day + 1:02d}"}).encode()
            producer.produce(
                site.topic(), data, f"{day}".encode(), headers=headers(f"{kind} {day}", f"com.example.{kind}")
            )
    assert producer.flush(30) == 0

    submitted("archive_events", "archive")
    archive = tmp_path / "archive"
    assert read(spark, str(archive)).where("source = '/tests'").count() == 40
    submitted("compact_archive", "compact")
    submitted("backtest_condition", "backtest")
    output = tmp_path / "archive_backtests" / "by_hand"
    assert spark.read.parquet(str(output / "firings")).count() == 20
    for table in ("deliveries", "deliveries_compared"):
        assert spark.read.parquet(str(output / table)).where("refused is null").count() == 20
    changes = spark.read.parquet(str(output / "changes")).groupBy("change").count().collect()
    assert [row.asDict() for row in changes] == [{"change": "same", "count": 20}]
    submitted("event_report", "report")
    page = (tmp_path / "archive_reports" / "2026-11-20" / "report.html").read_text()
    assert "com.example.orders.done" in page

    ended = [
        record.header("ce_subject")
        for record in read_all(site.servers, site.topic())
        if record.header("ce_type") == "interlock.spark.application.succeeded"
    ]
    assert ended == ["archive", "compact_archive", "backtest", "event_report"]
