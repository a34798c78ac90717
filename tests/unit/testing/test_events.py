from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from interlock import Event, count, dag_run, event, spark_application, task_instance
from interlock.events.schemas import data_schema
from interlock.spark import CompletionError
from interlock.testing import dag_run_end, fires, record, spark_application_end, task_instance_end

AT = "2026-11-20T06:00:00Z"
DATE = "2026-11-20T00:00:00Z"


def test_dag_run_matches_dag_run_end() -> None:
    succeeded = dag_run("ingest", by="ds")
    tried = fires(succeeded, [dag_run_end("ingest", at=AT, logical_date=DATE)])
    assert tried.firing.key == "2026-11-20"
    assert tried.firing.fired_at.hour == 6
    for other in (
        dag_run_end("ingest", "failed", at=AT, logical_date=DATE),
        dag_run_end("other", at=AT, logical_date=DATE),
        dag_run_end("ingest", at=AT),  # without a date
    ):
        assert not fires(succeeded, [other])
    partition = fires(
        dag_run("ingest", by="partition_key"), [dag_run_end("ingest", at=AT, partition_key="eu")]
    )
    assert partition.firing.key == "eu"


def test_a_repeat_is_the_same_event_and_one_after_a_clear_is_another() -> None:
    first, again = (dag_run_end("ingest", at=at, logical_date=DATE) for at in (AT, "2026-11-20T06:05:00Z"))
    cleared = dag_run_end("ingest", at="2026-11-20T06:10:00Z", logical_date=DATE, clear_number=1)
    assert len(fires(dag_run("ingest"), [first, again]).firings) == 1
    assert len(fires(dag_run("ingest"), [first, cleared]).firings) == 2


OTHER_DATE, LATER = "2026-11-21T00:00:00Z", "2026-11-20T06:05:00Z"


@pytest.mark.parametrize(
    "runs",
    [
        [{"at": AT, "logical_date": DATE}, {"at": AT, "logical_date": OTHER_DATE}],
        [{"at": AT, "partition_key": "eu"}, {"at": AT, "partition_key": "us"}],
        [{"at": AT, "partition_key": "eu"}, {"at": LATER, "partition_key": "eu"}],
        [{"at": AT}, {"at": LATER}],
        [{"at": AT, "run_id": "a"}, {"at": AT, "run_id": "b"}],
    ],
    ids=["dates", "partitions", "one partition twice", "moments", "run ids"],
)
def test_different_runs_have_different_events(runs: list[dict[str, str]]) -> None:
    two_runs = count(dag_run("ingest"), 2)
    assert fires(two_runs, [dag_run_end("ingest", **run) for run in runs])
    two_tasks = count(task_instance("ingest", "load"), 2)
    assert fires(two_tasks, [task_instance_end("ingest", "load", **run) for run in runs])


def test_the_default_run_id_is_like_airflows() -> None:
    def named(**given: Any) -> tuple[object, object]:
        payload: Any = dag_run_end("ingest", at=AT, **given).payload
        return payload["run_id"], payload["run_type"]

    assert named(logical_date=DATE) == ("scheduled__2026-11-20T00:00:00+00:00", "scheduled")
    assert named() == ("manual__2026-11-20T06:00:00+00:00", "manual")
    backfill = named(logical_date=DATE, run_type="backfill")
    assert backfill == ("backfill__2026-11-20T00:00:00+00:00", "backfill")
    assert named(run_id="r", run_type="asset_triggered") == ("r", "asset_triggered")


def test_task_instance_matches_task_instance_end() -> None:
    skipped = task_instance("ingest", "load", state="skipped", by=["ds", "data.map_index"])
    end = task_instance_end("ingest", "load", "skipped", at=AT, logical_date=DATE, map_index=3)
    assert fires(skipped, [end]).firing.key == '["2026-11-20","3"]'
    assert not fires(skipped, [task_instance_end("ingest", "load", at=AT, logical_date=DATE)])


def test_spark_application_matches_spark_application_end() -> None:
    orders = spark_application("orders", by="data.date")
    tried = fires(orders, [spark_application_end("orders", at=AT, data={"date": "20261120"})])
    assert tried.firing.key == "2026-11-20"
    assert not fires(orders, [spark_application_end("orders", "failed", at=AT, data={"date": "20261120"})])


def test_different_spark_applications_have_different_events() -> None:
    both = count(spark_application("orders", by="data.region"), 2)
    eu, us = {"region": "eu"}, {"region": "us"}
    unkeyed = count(event("interlock.spark.application.succeeded"), 2)
    first = spark_application_end("orders", at=AT, data=eu)
    assert fires(unkeyed, [first, spark_application_end("orders", at=AT, data=us)])
    assert fires(both, [first, spark_application_end("orders", at=LATER, data=eu)])
    assert first.id == spark_application_end("orders", at=AT, data=eu).id
    one = [spark_application_end("orders", at=at, data=eu, application_id="a") for at in (AT, LATER)]
    assert not fires(both, one)


def test_a_failed_spark_application_has_its_error_and_its_airflow_task() -> None:
    payload: Any = spark_application_end(
        "orders", "failed", at=AT, error=("a.B", "no rows"), airflow={"dag_id": "daily"}
    ).payload
    assert payload["error"] == {"class": "a.B", "message": "no rows"}
    assert payload["airflow"] == {"dag_id": "daily"}
    with pytest.raises(ValueError, match="only 'failed' has an error"):
        spark_application_end("orders", at=AT, error=("a.B", "no rows"))


@pytest.mark.parametrize("key", ["airflow", "application", "error"])
def test_data_with_reserved_names_is_refused_as_in_a_spark_job(key: str) -> None:
    with pytest.raises(CompletionError, match=f"'{key}'.*choose another key"):
        spark_application_end("orders", at=AT, data={key: "mine"})


@pytest.mark.parametrize(
    "end",
    [
        *(dag_run_end("ingest", state, at=AT) for state in ("success", "failed")),
        dag_run_end("ingest", at=AT, logical_date=DATE, partition_key="eu"),
        *(task_instance_end("ingest", "load", state, at=AT) for state in ("success", "failed", "skipped")),
        *(spark_application_end("orders", state, at=AT, data={"a": 1}) for state in ("succeeded", "failed")),
        spark_application_end("orders", at=AT, airflow={"dag_id": "daily", "try_number": 1}),
    ],
    ids=lambda end: end.type,
)
def test_the_data_are_what_their_schema_says(end: Event) -> None:
    schema = data_schema(end.type)
    jsonschema.validate(end.payload, schema, jsonschema.Draft202012Validator)
    assert end.attributes["dataschema"] == schema["$id"]
    assert end.attributes["time"] == AT


def test_an_invalid_state_is_an_error() -> None:
    with pytest.raises(ValueError, match="one of 'success', 'failed'"):
        dag_run_end("ingest", "succeeded", at=AT)


def test_a_record_without_a_value_is_a_tombstone_as_kafka_has_it() -> None:
    """It was JSON's null, so no test could show what a topic with tombstones does (debezium/debezium#421)."""
    at = "2026-11-20T06:00:00Z"
    tombstone, null = record("orders", None, at=at, key="7"), record("orders", b"null", at=at, key="7")
    assert (tombstone.data, tombstone.datacontenttype) == (None, None)
    assert (null.data, null.datacontenttype) == (b"null", "application/json")
    assert fires(event(source="orders"), [tombstone])
    assert fires(event(source="orders", where="data == null"), [tombstone])
    assert not fires(event(source="orders", by="data.day"), [tombstone])
