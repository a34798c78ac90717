"""Reads every example as Airflow does, and runs its wait or dispatcher and the tasks after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from interlock import Event
from interlock.conditions import rehearse
from interlock.spark.pipeline import job as job_file
from interlock.testing import (
    WaitingTask,
    dag_run_end,
    dags_in,
    fires,
    record,
    runs_of,
    spark_application_end,
    wait_of,
)
from interlock.triggers.asset import ConditionTrigger

FOLDER = Path(__file__).parents[3] / "dags_examples"
MIDNIGHT = "2026-11-20T00:00:00Z"
DAY = {"date": "2026-11-20"}


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    return dags_in(FOLDER)


def sent(kind: str, at: str, /, source: str = "/s", subject: str | None = None, **data: Any) -> Event:
    time = f"2026-11-{at}:00Z" if "T" in at else f"2026-11-20T{at}:00Z"
    return Event.of(f"com.example.{kind}", source, id=f"{kind} {at}", subject=subject, time=time, data=data)


def wait(dags: dict[str, DAG], dag_id: str, task_id: str, **run: Any) -> WaitingTask:
    return wait_of(dags[dag_id], task_id, **({"logical_date": MIDNIGHT} | run))


def call(dags: dict[str, DAG], dag_id: str, task_id: str, *arguments: Any) -> Any:
    """Calls the function of a task of the DAG."""
    task: Any = dags[dag_id].get_task(task_id)
    return task.python_callable(*arguments)


def test_every_example_file_has_dags(dags: dict[str, DAG]) -> None:
    files = {path.name for path in FOLDER.glob("*.py")} - {"spark_job.py"}
    assert {Path(dag.fileloc).name for dag in dags.values()} == files


def test_and_with_expiry_reports_when_both_came_and_alerts_with_the_missing_labels(
    dags: dict[str, DAG],
) -> None:
    ready = wait(dags, "and_with_expiry", "ready")
    orders, rates = sent("orders.done", "05:00", **DAY, rows=7), sent("rates.published", "04:00", **DAY)
    met = ready.given([orders, rates])
    assert (met.state, met.outcome) == ("success", "met"), str(met)
    assert call(dags, "and_with_expiry", "decide", met.output) == "report"
    assert call(dags, "and_with_expiry", "report", met.output) == "2026-11-20: 7 orders"

    too_early = sent("rates.published", "02:00", **DAY)
    expired = ready.given([too_early, orders], until="2026-11-20T06:00:00Z")
    assert (expired.state, expired.outcome) == ("success", "expired"), str(expired)
    assert call(dags, "and_with_expiry", "decide", expired.output) == "alert"
    assert call(dags, "and_with_expiry", "alert", expired.output) == "2026-11-20: no rates"


def test_n_of_m_continues_with_two_markets_of_its_day(dags: dict[str, DAG]) -> None:
    two = wait(dags, "n_of_m", "two_closed")
    tse, nyse = (sent("market.closed", "06:00", source=f"/markets/{name}", **DAY) for name in ("tse", "nyse"))
    assert two.given([tse]).state == "deferred"
    other_day = sent("market.closed", "06:00", source="/markets/lse", date="2026-11-19")
    assert two.given([tse, other_day]).state == "deferred"
    met = two.given([tse, nyse])
    assert call(dags, "n_of_m", "value_positions", met.output) == ["nyse", "tse"]


def test_ship_orders_delivers_an_order_that_is_paid_and_packed(dags: dict[str, DAG]) -> None:
    operator: Any = dags["ship_orders"].get_task("deliver")
    paid, packed = (sent(f"order.{what}", "06:00", order="7") for what in ("paid", "packed"))
    other = sent("order.packed", "06:30", order="8")
    assert [firing.key for firing in rehearse(operator.condition, [paid, other, packed])] == ["7"]
    assert (operator.conn_id, operator.path) == ("shipping", "/orders")


def test_announce_report_sends_on_the_completion_event_of_a_report(dags: dict[str, DAG]) -> None:
    operator: Any = dags["announce_report"].get_task("deliver")
    ended, other = (
        Event.of(
            "interlock.spark.application.succeeded",
            "/s",
            id=subject,
            subject=subject,
            time=MIDNIGHT,
            data=DAY,
        )
        for subject in ("daily_report", "orders")
    )
    [firing] = rehearse(operator.condition, [other, ended])
    assert firing.key == DAY["date"]
    assert (operator.conn_id, operator.path) == ("report_readers", "/reports")


def test_absence_alert_starts_a_run_for_each_silence_of_each_station(dags: dict[str, DAG]) -> None:
    beats = [
        sent("station.alive", at, subject=station)
        for station, at in [("north", "06:00"), ("south", "06:05"), ("north", "06:09"), ("south", "06:30")]
    ]
    runs = runs_of(dags["absence_alert"], beats, until="2026-11-20T06:35:00Z")
    assert [(run.conf["station"], run.at.strftime("%H:%M")) for run in runs] == [
        ("south", "06:15"),
        ("north", "06:19"),
    ]
    assert (runs[0].dag_id, runs[0].note) == ("alert", "south is silent")
    assert call(dags, "alert", "alert", *runs[0].conf.values()) == (
        "south has been silent since 2026-11-20T06:05:00.000+00:00"
    )


def test_absence_alert_works_with_heartbeats_without_time(dags: dict[str, DAG]) -> None:
    """Events emitted with Interlock's operator or command have none."""
    beat = Event.of("com.example.station.alive", "/s", id="1", subject="north")
    [runs] = runs_of(dags["absence_alert"], [(beat, "2026-11-20T06:00:00Z")], until="2026-11-20T06:35:00Z")
    assert runs.conf == {"station": "north", "silent_since": "2026-11-20T06:00:00.000+00:00"}


def test_sequence_takes_the_steps_in_their_order_only(dags: dict[str, DAG]) -> None:
    run = {"logical_date": None, "run_after": MIDNIGHT, "conf": {"batch": "b7"}}
    approved = wait(dags, "sequence", "approved", **run)
    assert approved.key == "b7"
    steps = [("batch.uploaded", {}), ("batch.scanned", {"clean": True}), ("batch.approved", {})]

    def story(*times: str) -> list[Event]:
        return [sent(kind, at, batch="b7", **data) for (kind, data), at in zip(steps, times, strict=True)]

    end = "2026-11-20T12:00:00Z"
    assert approved.given(story("06:00", "07:00", "08:00"), until=end).state == "success"
    assert approved.given(story("06:00", "08:00", "07:00"), until=end).state == "deferred"
    rejected = sent("batch.rejected", "07:30", batch="b7")
    result = approved.given([*story("06:00", "07:00", "08:00"), rejected], until=end)
    assert (result.state, result.outcome) == ("failed", "fail_on"), str(result)


def test_plain_topic_takes_the_record_that_says_done(dags: dict[str, DAG]) -> None:
    done = wait(dags, "plain_topic", "order_done")

    def order(status: str, rows: int, offset: int) -> Event:
        value = {"status": status, "rows": rows, "day": "20261120"}
        return record("raw_orders", value, at="2026-11-20T05:00:00Z", offset=offset)

    assert done.given([order("new", 5, 1), order("done", 0, 2)]).state == "deferred"
    result = done.given([order("new", 5, 1), order("done", 5, 3)])
    assert result.output is not None, str(result)
    assert result.output["events"]["order"][0]["id"] == "0/3"


def test_settle_on_trades_starts_one_run_for_each_trade_that_two_markets_have_confirmed(
    dags: dict[str, DAG],
) -> None:
    confirmed = [
        sent("trade.confirmed", at, subject=market, trade=trade)
        for at, trade, market in [
            ("06:00", "t1", "nyse"),
            ("06:01", "t2", "tse"),
            ("06:02", "t1", "lse"),
            ("06:03", "t2", "nyse"),
            ("06:04", "t3", "lse"),
        ]
    ]
    runs = runs_of(dags["settle_on_trades"], confirmed)
    assert [(run.conf["trade"], run.conf["markets"]) for run in runs] == [
        ("t1", "lse,nyse"),
        ("t2", "nyse,tse"),
    ]
    assert {run.dag_id for run in runs} == {"settle"}
    assert [run.run_id for run in runs] == [f"dispatch__{run.conf['firing']}" for run in runs]


def test_asset_route_reads_the_days_of_all_asset_events(dags: dict[str, DAG]) -> None:
    schedule: Any = dags["asset_route"].schedule
    [asset] = schedule
    trigger = asset.watchers[0].trigger
    assert isinstance(trigger, ConditionTrigger)
    days = [
        sent("market.closed", "19T17:00", source="/markets/lse", date="2026-11-19"),
        sent("market.closed", "20T17:00", source="/markets/lse", **DAY),
    ]
    keys = [firing.key for firing in fires(trigger.condition, days).firings]
    events = [SimpleNamespace(extra={"payload": {"key": key}}) for key in keys]
    assert call(dags, "asset_route", "days", {asset: events}) == ["2026-11-19", "2026-11-20"]


def test_failure_reaction_starts_a_run_for_each_failed_run(dags: dict[str, DAG]) -> None:
    ends = [
        dag_run_end("rates_ingest", "failed", run_id="r1", at=MIDNIGHT, logical_date=MIDNIGHT),
        dag_run_end("rates_ingest", "success", run_id="r2", at=MIDNIGHT, logical_date=MIDNIGHT),
        dag_run_end("orders_spark", "failed", run_id="r3", at=MIDNIGHT),
        dag_run_end("rates_ingest", "failed", run_id="r4", at="2026-11-20T01:00:00Z"),
    ]
    runs = runs_of(dags["failure_reaction"], ends)
    assert [run.conf["failed_run"] for run in runs] == ["r1", "r4"]
    assert call(dags, "clean_up", "clean_up", "r1") == "removed what r1 left"


def test_spark_completion_loads_what_the_job_wrote_and_fails_when_the_job_failed(
    dags: dict[str, DAG],
) -> None:
    orders = wait(dags, "spark_completion", "orders")
    output = {**DAY, "output": "/data/orders/2026-11-20"}
    done = orders.given([spark_application_end("orders", at="2026-11-20T05:00:00Z", data=output)])
    assert done.output is not None, str(done)
    assert done.output["events"]["orders"][0]["data"]["output"] == "/data/orders/2026-11-20"
    assert call(dags, "spark_completion", "load", "x") == "loaded x"
    assert dags["spark_completion"].get_task("load").upstream_task_ids == {"orders"}
    failed = orders.given([spark_application_end("orders", "failed", at="2026-11-20T05:00:00Z", data=DAY)])
    assert (failed.state, failed.outcome) == ("failed", "fail_on"), str(failed)


def test_data_backfill_finds_the_event_of_weeks_ago_and_computes_what_was_restated_again(
    dags: dict[str, DAG],
) -> None:
    late = wait(dags, "sales_report", "closed", logical_date="2026-11-02T00:00:00Z", start=MIDNIGHT)
    assert late.given([sent("sales.closed", "02T20:00", date="2026-11-02")]).at == late.start
    corrections = [
        sent("sales.restated", at, date=day, reason=reason)
        for at, day, reason in [
            ("06:00", "2026-11-02", "late bill"),
            ("06:05", "2026-11-02", "typing error"),
            ("06:06", "2026-11-03", "late bill"),
        ]
    ]
    runs = runs_of(dags["sales_restated"], corrections, until="2026-11-20T07:00:00Z")
    assert [(str(run.logical_date), run.note) for run in runs] == [
        ("2026-11-02 00:00:00+00:00", "restated: typing error"),
        ("2026-11-03 00:00:00+00:00", "restated: late bill"),
    ]
    assert call(dags, "sales_again", "compute", "2026-11-02") == "computed 2026-11-02"


def test_the_daily_report_of_the_demo_waits_for_the_job_and_the_rates(dags: dict[str, DAG]) -> None:
    ready = wait(dags, "daily_report", "ready")
    orders = spark_application_end("orders", at="2026-11-20T05:00:00Z", data=DAY)
    assert ready.given([orders]).state == "deferred"
    assert ready.given([orders, sent("rates.published", "04:00", **DAY)]).state == "success"


@pytest.mark.parametrize(
    ("dag_id", "task_id", "job"),
    [
        ("archive_events", "archive", "archive"),
        ("compact_archive", "compact", "archive-compact"),
        ("backtest_condition", "backtest", "backtest"),
        ("event_report", "report", "report"),
    ],
)
def test_a_dag_of_the_data_pipeline_submits_its_job_with_valid_arguments(
    dags: dict[str, DAG], dag_id: str, task_id: str, job: str
) -> None:
    """tests/integration/spark/pipeline/test_dags.py submits them."""
    task: Any = dags[dag_id].get_task(task_id)
    assert task.application == job_file(job)
    given = [each for each in task.application_args if each.startswith("--")]
    said = subprocess.run(
        [sys.executable, task.application, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert given
    assert [each for each in given if each not in said] == []
