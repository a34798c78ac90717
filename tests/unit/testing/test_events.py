from __future__ import annotations

import pytest
from interlock import dag_run, spark_application, task_instance
from interlock.testing import dag_run_end, fires, spark_application_end, task_instance_end

AT = "2026-11-20T06:00:00Z"
DATE = "2026-11-20T00:00:00Z"


def test_the_end_of_a_run_is_what_a_matcher_for_it_takes() -> None:
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


def test_the_same_end_twice_is_one_event_and_one_after_a_clear_is_another() -> None:
    first, again = dag_run_end("ingest", at=AT), dag_run_end("ingest", at="2026-11-20T06:05:00Z")
    cleared = dag_run_end("ingest", at="2026-11-20T06:10:00Z", clear_number=1)
    assert len(fires(dag_run("ingest"), [first, again]).firings) == 1
    assert len(fires(dag_run("ingest"), [first, cleared]).firings) == 2


def test_the_end_of_a_task_instance_is_what_a_matcher_for_it_takes() -> None:
    skipped = task_instance("ingest", "load", state="skipped", by=["ds", "data.map_index"])
    end = task_instance_end("ingest", "load", "skipped", at=AT, logical_date=DATE, map_index=3)
    assert fires(skipped, [end]).firing.key == '["2026-11-20","3"]'
    assert not fires(skipped, [task_instance_end("ingest", "load", at=AT, logical_date=DATE)])


def test_the_end_of_a_spark_application_is_what_a_matcher_for_it_takes() -> None:
    orders = spark_application("orders", by="data.date")
    tried = fires(orders, [spark_application_end("orders", at=AT, data={"date": "20261120"})])
    assert tried.firing.key == "2026-11-20"
    assert not fires(orders, [spark_application_end("orders", "failed", at=AT, data={"date": "20261120"})])


def test_a_state_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="one of success, failed"):
        dag_run_end("ingest", "succeeded", at=AT)
