"""A real local Spark and a real broker: what a driver sends when its work ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from interlock.events.errors import EmitError
from interlock.spark import completion_event

from demo.topics import Record, read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOBODY = "127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .appName("test orders")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def bus(bootstrap_servers: str, unique_name: Callable[[str], str]) -> str:
    """The name of a bus whose event topic exists."""
    name = unique_name("bus")
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(f"{name}-event", 1)])[f"{name}-event"].result(15)
    return name


@pytest.fixture
def configured(spark: SparkSession, bootstrap_servers: str, bus: str) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.interlock.bootstrap.servers", bootstrap_servers)
    session.conf.set("spark.interlock.bus", bus)
    return session


def only_record(bootstrap_servers: str, bus: str) -> Record:
    (record,) = read_all(bootstrap_servers, f"{bus}-event")
    return record


def test_a_job_that_succeeds_is_one_event_on_the_bus(
    configured: SparkSession, bootstrap_servers: str, bus: str
) -> None:
    with completion_event(configured, "orders", data={"date": "2026-11-20"}) as completion:
        completion.data["rows"] = configured.range(7).count()
    record = only_record(bootstrap_servers, bus)
    assert record.header("ce_type") == "interlock.spark.application.succeeded"
    assert record.header("ce_source") == "/spark/test%20orders"
    assert record.header("ce_subject") == "orders"
    data = json.loads(record.value or b"")
    assert (data["date"], data["rows"]) == ("2026-11-20", 7)
    assert data["application"]["id"] == configured.sparkContext.applicationId
    assert data["application"]["duration_ms"] > 0


def test_a_job_that_fails_in_spark_is_one_failed_event_and_still_fails(
    configured: SparkSession, bootstrap_servers: str, bus: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException), completion_event(configured, "orders"):
        configured.range(7).select("no_such_column").collect()
    record = only_record(bootstrap_servers, bus)
    assert record.header("ce_type") == "interlock.spark.application.failed"
    error = json.loads(record.value or b"")["error"]
    assert error["class"].endswith("AnalysisException")
    assert "no_such_column" in error["message"]


def test_an_unreachable_broker_delays_a_job_by_its_timeout_and_changes_nothing_else(
    configured: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    configured.conf.set("spark.interlock.bootstrap.servers", NOBODY)
    configured.conf.set("spark.interlock.delivery.timeout", "1s")
    started = time.monotonic()
    with completion_event(configured, "orders"):
        rows = configured.range(7).count()
    assert rows == 7
    assert time.monotonic() - started < 10
    assert "completion event 'orders' was not sent; the job's result stands" in caplog.text
    assert NOBODY in caplog.text


def test_an_unreachable_broker_fails_a_job_that_requires_the_event(configured: SparkSession) -> None:
    configured.conf.set("spark.interlock.bootstrap.servers", NOBODY)
    configured.conf.set("spark.interlock.delivery.timeout", "1s")
    with pytest.raises(EmitError, match=NOBODY), completion_event(configured, "orders", required=True):
        pass


CONNECT = """
import sys
from pyspark.sql import SparkSession
from interlock.spark import completion_event

servers, bus = sys.argv[1:]
spark = (
    SparkSession.builder.remote("local[1]").appName("connected")
    .config("spark.ui.enabled", "false")
    .config("spark.interlock.bootstrap.servers", servers)
    .config("spark.interlock.bus", bus)
    .getOrCreate()
)
with completion_event(spark, "orders") as completion:
    completion.data["rows"] = spark.range(7).count()
    completion.data["session"] = spark.session_id
spark.stop()
"""


def test_a_spark_connect_session_sends_its_event_without_a_spark_context(
    bootstrap_servers: str, bus: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, bootstrap_servers, bus], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = only_record(bootstrap_servers, bus)
    assert record.header("ce_type") == "interlock.spark.application.succeeded"
    data = json.loads(record.value or b"")
    assert data["rows"] == 7
    assert data["session"]
    assert data["application"]["user"]
