"""Completion events of a real local Spark on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events.errors import EmitError
from interlock.events.schemas import data_schema
from interlock.plugin.broker import LocalBroker
from interlock.spark import completion_event

from local.airflow import free_port
from local.topics import Record, read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOBODY = "127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture
def configured(spark: SparkSession, bootstrap_servers: str, bus: str) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.interlock.bootstrap.servers", bootstrap_servers)
    session.conf.set("spark.interlock.bus", bus)
    return session


def events_of(bootstrap_servers: str, bus: str) -> dict[str, list[dict[str, Any]]]:
    """{type without its prefix: data} of all events, validated by their schemas."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in read_all(bootstrap_servers, f"{bus}-event"):
        kind = record.header("ce_type") or ""
        jsonschema.validate(record.json(), data_schema(kind))
        found.setdefault(kind.removeprefix("interlock.spark."), []).append(record.json())
    return found


def only_record(bootstrap_servers: str, bus: str) -> Record:
    (record,) = read_all(bootstrap_servers, f"{bus}-event")
    return record


def test_a_job_that_succeeds_is_one_event_on_the_bus(
    configured: SparkSession, bootstrap_servers: str, bus: str
) -> None:
    with completion_event(configured, "orders", data={"date": "2026-11-20"}, until="block") as completion:
        completion.data["rows"] = configured.range(7).count()
    record = only_record(bootstrap_servers, bus)
    assert record.header("ce_type") == "interlock.spark.application.succeeded"
    assert record.header("ce_source") == "/spark/integration%20tests"
    assert record.header("ce_subject") == "orders"
    data = json.loads(record.value or b"")
    assert (data["date"], data["rows"]) == ("2026-11-20", 7)
    assert data["application"]["id"] == configured.sparkContext.applicationId
    assert data["application"]["duration_ms"] > 0


def test_a_job_that_fails_in_spark_is_one_failed_event_and_still_fails(
    configured: SparkSession, bootstrap_servers: str, bus: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException), completion_event(configured, "orders", until="block"):
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
    with completion_event(configured, "orders", until="block"):
        rows = configured.range(7).count()
    assert rows == 7
    assert time.monotonic() - started < 10
    assert "completion event 'orders' was not sent; the job's outcome does not change" in caplog.text
    assert NOBODY in caplog.text


def test_an_unreachable_broker_fails_a_job_that_requires_the_event(configured: SparkSession) -> None:
    configured.conf.set("spark.interlock.bootstrap.servers", NOBODY)
    configured.conf.set("spark.interlock.delivery.timeout", "1s")
    with (
        pytest.raises(EmitError, match=NOBODY),
        completion_event(configured, "orders", required=True, until="block"),
    ):
        pass


def test_kafka_that_is_away_during_the_job_and_returns_gets_every_event_and_the_job_does_not_wait(
    configured: SparkSession, own_broker: LocalBroker, tmp_path: Path
) -> None:
    _on(configured, own_broker)
    with completion_event(configured, "orders", until="block"):
        configured.range(7).write.parquet(str(tmp_path / "a"))
        own_broker.kill()
        configured.range(5).write.parquet(str(tmp_path / "b"))
        configured.range(3).write.parquet(str(tmp_path / "c"))
        own_broker.start()
    found = events_of(own_broker.bootstrap_servers, "away")
    paths = {each["query"]["written"]["path"] for each in found["query.succeeded"]}
    assert paths == {f"file:{tmp_path / name}" for name in "abc"}
    [ended] = found["application.succeeded"]
    assert ended["written"]["rows"] == 15


@pytest.mark.long
def test_kafka_that_leaves_during_the_job_for_good_costs_the_timeout_and_is_logged(
    configured: SparkSession, own_broker: LocalBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _on(configured, own_broker)
    configured.conf.set("spark.interlock.delivery.timeout", "2s")
    with completion_event(configured, "orders", until="block"):
        configured.range(7).write.parquet(str(tmp_path / "a"))
        own_broker.kill()
        configured.range(5).write.parquet(str(tmp_path / "b"))
    assert configured.read.parquet(str(tmp_path / "b")).count() == 5
    assert "completion event 'orders' was not sent; the job's outcome does not change" in caplog.text
    assert "not acknowledged by topic away-event" in caplog.text  # the query's event


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker that may be killed and restarted on the same port; with the bus `away`."""
    with LocalBroker(tmp_path / "broker", port=free_port()) as broker:
        create(BusConfig(name="away", client={"bootstrap.servers": broker.bootstrap_servers}), partitions=1)
        yield broker


def _on(session: SparkSession, broker: LocalBroker) -> None:
    session.conf.set("spark.interlock.bootstrap.servers", broker.bootstrap_servers)
    session.conf.set("spark.interlock.bus", "away")
    session.conf.set("spark.interlock.delivery.timeout", "60s")


def test_queries_that_write_have_events_with_their_writes_and_the_end_has_the_sum(
    configured: SparkSession, bootstrap_servers: str, bus: str, tmp_path: Path
) -> None:
    with completion_event(configured, "orders", data={"date": "2026-11-20"}, until="block"):
        configured.range(7).write.parquet(str(tmp_path / "a"))
        configured.range(5).count()  # writes nothing
        configured.range(3).write.parquet(str(tmp_path / "b"))
    found = events_of(bootstrap_servers, bus)
    assert {kind: len(each) for kind, each in found.items()} == {
        "query.succeeded": 2,
        "application.succeeded": 1,
    }
    first = found["query.succeeded"][0]
    assert first["date"] == "2026-11-20"
    assert first["query"]["written"]["path"] == f"file:{tmp_path / 'a'}"
    assert first["query"]["written"]["rows"] == 7
    assert first["query"]["written"]["bytes"] > 0
    written = found["application.succeeded"][0]["written"]
    assert (written["queries"], written["rows"]) == (2, 10)
    assert written["outputs"] == [f"file:{tmp_path / name}" for name in "ab"]


def test_a_write_that_shuffles_has_its_figures_too(
    configured: SparkSession, bootstrap_servers: str, bus: str, tmp_path: Path
) -> None:
    """Adaptive execution wraps its plan."""
    with completion_event(configured, "orders", until="block"):
        sevens = configured.range(70).selectExpr("id % 7 AS seven")
        sevens.groupBy("seven").count().write.parquet(str(tmp_path / "a"))
        sevens.repartition(2).write.parquet(str(tmp_path / "b"))
    found = events_of(bootstrap_servers, bus)
    rows = {
        each["query"]["written"]["path"]: each["query"]["written"]["rows"]
        for each in found["query.succeeded"]
    }
    assert rows == {f"file:{tmp_path / 'a'}": 7, f"file:{tmp_path / 'b'}": 70}
    assert found["application.succeeded"][0]["written"]["rows"] == 77


@pytest.mark.long
def test_a_query_in_nested_blocks_has_one_event_and_is_counted_in_both(
    configured: SparkSession, bootstrap_servers: str, bus: str, tmp_path: Path
) -> None:
    stream = configured.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()

    def run(name: str) -> None:
        configured.range(7).write.parquet(str(tmp_path / name))
        query = stream.writeStream.format("noop").queryName(name).trigger(availableNow=True).start()
        query.awaitTermination(60)

    with completion_event(configured, "outer", until="block"):
        run("before")
        for date in ("2026-11-19", "2026-11-20"):
            with completion_event(configured, "inner", data={"date": date}, until="block"):
                run(date)
        run("after")
    found = events_of(bootstrap_servers, bus)
    names = ["before", "2026-11-19", "2026-11-20", "after"]
    paths = [each["query"]["written"]["path"] for each in found["query.succeeded"]]
    assert paths == [f"file:{tmp_path / name}" for name in names]
    streams = [each["streaming_query"]["name"] for each in found["streaming_query.succeeded"]]
    assert streams == names
    assert [each.get("date") for each in found["query.succeeded"]] == [None, *names[1:3], None]
    ends = {each.get("date"): each["written"]["queries"] for each in found["application.succeeded"]}
    assert ends == {"2026-11-19": 1, "2026-11-20": 1, None: 4}


def test_the_end_of_a_stream_has_an_event_when_only_streams_are_configured(
    configured: SparkSession, bootstrap_servers: str, bus: str
) -> None:
    configured.conf.set("spark.interlock.events", "streaming")
    with completion_event(configured, "orders", until="block"):
        stream = configured.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        query = stream.writeStream.format("noop").queryName("rate").trigger(availableNow=True).start()
        query.awaitTermination(60)
    [ended] = events_of(bootstrap_servers, bus)["streaming_query.succeeded"]
    assert ended["streaming_query"]["name"] == "rate"


def test_a_failed_write_has_an_event_although_the_application_continues(
    configured: SparkSession, bootstrap_servers: str, bus: str, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    failing = configured.range(7).selectExpr("assert_true(id < 3, 'password=hunter2')")
    with completion_event(configured, "orders", until="block"), pytest.raises(PySparkException):
        failing.write.parquet(str(tmp_path / "a"))
    found = events_of(bootstrap_servers, bus)
    assert sorted(found) == ["application.succeeded", "query.failed"]
    [failed] = found["query.failed"]
    assert failed["error"]["class"].startswith("org.apache.spark.")
    assert "hunter2" not in json.dumps(found)


def test_a_session_emits_no_events_after_its_block(
    configured: SparkSession, bootstrap_servers: str, bus: str, tmp_path: Path
) -> None:
    with completion_event(configured, "orders", until="block"):
        pass
    configured.range(7).write.parquet(str(tmp_path / "a"))
    with completion_event(configured, "rates", until="block"):
        configured.range(7).write.parquet(str(tmp_path / "b"))
    found = events_of(bootstrap_servers, bus)
    [query] = found["query.succeeded"]
    assert query["query"]["written"]["path"].endswith("/b")


def test_events_of_streaming_queries_have_their_rows_and_failure(
    configured: SparkSession, bootstrap_servers: str, bus: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import functions as f

    configured.range(7).write.parquet(str(tmp_path / "in"))
    configured.conf.set("spark.interlock.started", "true")
    stream = configured.readStream.schema("id long").parquet(str(tmp_path / "in"))
    with completion_event(configured, "orders", until="block"):
        good = stream.writeStream.format("noop").queryName("good").trigger(availableNow=True).start()
        good.awaitTermination(60)
        failing = stream.select(f.assert_true(f.col("id") < 3))
        bad = failing.writeStream.format("noop").queryName("bad").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException):
            bad.awaitTermination(60)
    found = events_of(bootstrap_servers, bus)
    [succeeded], [failed] = found["streaming_query.succeeded"], found["streaming_query.failed"]
    assert (succeeded["streaming_query"]["name"], succeeded["streaming_query"]["rows"]) == ("good", 7)
    assert (failed["streaming_query"]["name"], "error" in failed) == ("bad", True)
    started = [each["streaming_query"]["name"] for each in found["streaming_query.started"]]
    assert started == ["good", "bad"]
    assert len(found["application.started"]) == len(found["application.succeeded"]) == 1


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
"""


def connected(source: str, bootstrap_servers: str, bus: str) -> None:
    """Runs this in its own process with a Spark Connect session, `spark`."""
    done = subprocess.run(
        [sys.executable, "/dev/stdin", bootstrap_servers, bus],
        input=CONNECT + source,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]


# An event of the stream is being delivered while its listener is removed.
RUNS_ON = """
import threading
from pyspark.sql.connect.streaming.query import StreamingQueryListenerBus

held, free = threading.Event(), threading.Event()
read, execute = StreamingQueryListenerBus.deserialize, spark.client.execute_command

def hold(event):
    held.set()
    free.wait(60)
    return read(event)

def then_free(*arguments):
    done = execute(*arguments)
    free.set()
    return done

StreamingQueryListenerBus.deserialize = staticmethod(hold)
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
with completion_event(spark, "orders"):
    query = stream.writeStream.format("noop").trigger(processingTime="0 seconds").start()
    assert held.wait(60)
    spark.client.execute_command = then_free
assert free.is_set()
query.stop()
spark.stop()
"""


@pytest.mark.long
def test_a_stream_that_outlives_its_block_does_not_block_a_spark_connect_job(
    bootstrap_servers: str, bus: str
) -> None:
    connected(RUNS_ON, bootstrap_servers, bus)
    assert len(events_of(bootstrap_servers, bus)["application.succeeded"]) == 1


TELLS = """with completion_event(spark, "orders") as completion:
    completion.data["rows"] = spark.range(7).count()
    completion.data["session"] = spark.session_id
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = stream.writeStream.format("noop").queryName("rate").trigger(availableNow=True).start()
    query.awaitTermination(60)
spark.stop()
"""


@pytest.mark.long
def test_a_spark_connect_session_emits_its_end_and_its_streams_without_a_spark_context(
    bootstrap_servers: str, bus: str
) -> None:
    connected(TELLS, bootstrap_servers, bus)
    found = events_of(bootstrap_servers, bus)
    [data] = found["application.succeeded"]
    assert data["rows"] == 7
    assert data["session"]
    assert data["application"]["user"]
    [stream] = found["streaming_query.succeeded"]
    assert stream["streaming_query"]["name"] == "rate"
