"""The report of an archive with known latencies, in a real local Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interlock.conditions import event
from interlock.engine import records as engine
from interlock.events import kafka
from interlock.events.event import Event
from interlock.events.plain import TYPE as PLAIN
from interlock.spark.pipeline import PipelineError, job
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.layout import Folder, write_folder
from interlock.spark.pipeline.report.figures import Figures
from interlock.spark.pipeline.report.making import make_report
from interlock.spark.pipeline.report.registrations import in_force, incarnations
from interlock.spark.pipeline.rows import TopicRow

from tests.integration.spark.conftest import LOCAL, SUBMIT
from tests.integration.spark.pipeline.report_log import (
    ANY_OPS,
    BOTH,
    CART,
    LIMITED,
    OPS,
    ORDERS,
    RATES,
    T0,
    Log,
    rows_in,
    wait,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = T0 + 86_400_000


def a_day() -> Log:
    """Ten waits of `daily` and one of each special kind; the expected figures are computed by hand."""
    log = Log()
    for n in range(1, 11):
        at = T0 + n * 60_000
        made = log.registered(at - 30_000, wait("daily", f"run/{n}"), BOTH, key="2026-11-20")
        # orders are emitted 50 ms, 100 ms, ... late; the clock of rates is 5 ms ahead
        orders = log.event(ORDERS, at, time_ms=at - 50 * n)
        rates = log.event(RATES, at + 1000, time_ms=at + 1005)
        fired = at + 1000 + 10 * n
        log.firing(made, {"orders": orders, "rates": rates}, fired, fired + 1000 * n if n < 10 else None)
        log.removed(fired + 11_000, made)
    # looks back: its event came an hour before the wait began
    early = log.event(ORDERS, T0, time_ms=T0)
    made = log.registered(T0 + 3_600_000, wait("backfill", "r", "ready", 7), BOTH | event(ORDERS))
    log.firing(made, {"orders": early}, T0 + 3_600_040, T0 + 3_600_540)
    # expired, 25 ms after it was due
    made = log.registered(T0, wait("limited"), LIMITED, key="2026-11-20")
    log.firing(
        made,
        {},
        T0 + 3_600_025,
        T0 + 3_601_025,
        outcome="expired",
        missing=["orders", "rates"],
        timer_ms=T0 + 3_600_000,
    )
    # a dispatcher: one run is created, an administrator removes the other firing
    made = log.registered(T0 - 10**9, "airflow/dispatch/settle", ANY_OPS, kind="durable")
    for n, acked in ((1, 700), (3, None)):
        ops = log.event(OPS, T0 + n * 1000, subject=f"s{n}")
        fired = T0 + n * 1000 + 5 * n
        action = log.firing(made, {"ops": ops}, fired, None if acked is None else fired + acked, key=f"s{n}")
    log.append("action", T0 + 600_000, action.key, None)
    # cleared: its second firing replaces the first, which is never acknowledged
    for n in (1, 2):
        made = log.registered(T0 + n * 1000, wait("cleared"), BOTH, key="2026-11-20", generation=n)
        parts = {"rates": log.event(RATES, T0 + n * 1000 + 100, time_ms=T0 + n * 1000 + 105)}
        log.firing(made, parts, T0 + n * 1000 + 200, T0 + n * 1000 + 300 if n == 2 else None)
    # compaction had left only its last record, and no registration
    gone = engine.Registration.of(wait("old"), event("gone"), None, T0)
    log.firing(gone, {"rates": rates}, None, T0 + 5000)
    for n in range(3):
        log.event(CART, T0 + n)
    log.append("action", T0, b"later", b'{"v": 99, "all": "is different"}')
    log.append("action", T0, b"damaged", b"{")
    lease = engine.LeaseRecord(deployment="airflow", incarnations=["a"], host="h")
    log.append("subscription", T0, b"lease/host:1/0", engine.encode_json(lease))
    log.append("subscription", T0, engine.BUS_KEY, engine.encode_json(engine.BusRecord(partitions=1)))
    return log


def archived(spark: SparkSession, folder: Path, records: Sequence[TopicRow]) -> str:
    """An archive of these records, written as by the archive job."""
    write_folder(rows_in(spark, records), Files(spark, str(folder)), Folder(0, 0, ""))
    return str(folder)


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    return archived(spark, tmp_path_factory.mktemp("archive"), a_day().records)


class Made:
    """A report and its written tables."""

    def __init__(self, spark: SparkSession, folder: Path, figures: Figures) -> None:
        self.spark = spark
        self.folder = folder
        self.figures = figures

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row.asDict(True) for row in self.spark.read.parquet(str(self.folder / name)).collect()]

    def row(self, name: str, **wanted: Any) -> dict[str, Any]:
        [found] = [row for row in self.rows(name) if all(row[key] == value for key, value in wanted.items())]
        return found


@pytest.fixture(scope="module")
def made(spark: SparkSession, archive: str, tmp_path_factory: pytest.TempPathFactory) -> Made:
    output = tmp_path_factory.mktemp("report")
    return Made(spark, output, make_report(spark, archive, str(output), now_ms=NOW))


def spread(row: dict[str, Any], span: str) -> list[int | None]:
    return [row[f"{span}_{name}_ms"] for name in ("p50", "p90", "p99", "max")]


def test_latencies_of_a_dag_are_those_computed_by_hand(made: Made) -> None:
    daily = made.row("latencies_by_dag", dag="daily")
    assert (daily["waiter"], daily["task"]) == ("wait", "ready")
    counts = [daily[name] for name in ("firings", "met", "expired", "acknowledged", "open")]
    assert counts == [10, 10, 0, 9, 1]
    # 10, 20, ... 100 ms from the second event on; 1 ... 9 s to the acknowledgement
    assert spread(daily, "event_to_firing") == [50, 90, 100, 100]
    assert spread(daily, "firing_to_resume") == [5000, 9000, 9000, 9000]
    assert (daily["event_to_firing_count"], daily["firing_to_resume_count"]) == (10, 9)


def test_the_latency_of_a_wait_that_looks_back_counts_from_its_start_not_from_the_event(made: Made) -> None:
    backfill = made.row("firings", dag="backfill")
    assert (backfill["run"], backfill["task"], backfill["map_index"]) == ("r", "ready", 7)
    assert (backfill["event_to_firing_ms"], backfill["firing_to_resume_ms"]) == (40, 500)
    assert backfill["decided_by"] is None


def test_the_latency_of_an_expiry_counts_from_its_due_time_and_the_missing_labels_are_listed(
    made: Made,
) -> None:
    [expired] = made.rows("expired")
    assert (expired["dag"], expired["task"], expired["key"]) == ("limited", "ready", "2026-11-20")
    assert expired["missing"] == ["orders", "rates"]
    lacking = {(row["dag"], row["label"]): row["expired"] for row in made.rows("lacking")}
    assert lacking == {("limited", "orders"): 1, ("limited", "rates"): 1}
    assert made.row("latencies_by_dag", dag="limited")["expired"] == 1
    assert made.row("firings", dag="limited")["event_to_firing_ms"] == 25


def test_a_dispatcher_is_named_by_its_dag(made: Made) -> None:
    settle = made.row("latencies_by_dag", waiter="dispatch")
    assert (settle["dag"], settle["task"], settle["firings"]) == ("settle", None, 2)
    assert spread(settle, "event_to_firing") == [5, 15, 15, 15]
    assert spread(settle, "firing_to_resume") == [700, 700, 700, 700]


def test_a_firing_is_open_when_it_is_the_last_record_of_its_key(made: Made) -> None:
    """A removed firing is not open, nor one whose task was cleared and fired again."""
    [row] = made.rows("unacknowledged")
    assert (row["dag"], row["run"], row["key"]) == ("daily", "run/10", "2026-11-20")
    cleared = made.row("latencies_by_dag", dag="cleared")
    assert (cleared["firings"], cleared["acknowledged"], cleared["open"]) == (2, 1, 0)


def test_a_latency_is_null_when_its_start_was_compacted_before_it_was_archived(made: Made) -> None:
    old = made.row("firings", dag="old")
    assert (old["event_to_firing_ms"], old["firing_to_resume_ms"], old["condition_id"]) == (None, None, None)
    assert old["acked_ms"] == T0 + 5000
    unknown = made.row("latencies_by_condition", condition_id=None)
    assert (unknown["firings"], unknown["event_to_firing_count"]) == (1, 0)


def test_conditions_are_text_and_the_waits_of_one_are_counted_together(made: Made) -> None:
    both = made.row("latencies_by_condition", condition=str(BOTH))
    assert (both["dags"], both["firings"]) == (2, 12)
    assert spread(both, "event_to_firing") == [60, 100, 100, 100]
    assert made.row("conditions", condition=str(BOTH))["registrations"] == 12


def test_types_have_the_firings_they_completed_and_how_long_they_were_held(made: Made) -> None:
    rates, orders = (made.row("latencies_by_type", type=each) for each in (RATES, ORDERS))
    # `old` has rates too; two of `cleared` are 100 ms late
    assert (rates["firings"], rates["completed"]) == (13, 12)
    assert spread(rates, "event_to_firing") == [60, 100, 100, 100]
    assert (orders["firings"], orders["completed"]) == (11, 0)
    assert spread(orders, "event_to_firing") == [None] * 4
    # 1,010 ... 1,100 ms, and an hour for the wait that looked back
    assert spread(orders, "held") == [1060, 1100, 3_600_040, 3_600_040]


def test_the_delay_of_a_producer_counts_from_the_events_own_time(made: Made) -> None:
    orders, rates = (made.row("producers", type=each) for each in (ORDERS, RATES))
    # 50 ... 500 ms, and one with none
    assert (orders["source"], orders["events"], orders["ahead"]) == ("/shop", 11, 0)
    assert spread(orders, "delay") == [250, 450, 500, 500]
    assert (rates["ahead"], spread(rates, "delay")) == (12, [-5, -5, -5, -5])
    assert {row["type"] for row in made.rows("producers")} == {ORDERS, RATES}  # others have no time


def test_types_nobody_waits_for_are_those_that_no_matcher_could_accept(made: Made) -> None:
    [nobody] = made.rows("unwaited_types")
    assert (nobody["type"], nobody["events"], nobody["first_ms"], nobody["last_ms"]) == (CART, 3, T0, T0 + 2)


def test_volume_is_by_day_and_type(made: Made) -> None:
    volume = {(str(row["date"]), row["type"]): row["events"] for row in made.rows("volume")}
    assert volume == {
        ("2026-11-20", ORDERS): 11,
        ("2026-11-20", RATES): 12,
        ("2026-11-20", CART): 3,
        ("2026-11-20", OPS): 2,
    }


def test_totals_count_unreadable_records_apart(made: Made) -> None:
    figures = made.figures
    assert (figures.events, figures.types, figures.unreadable_actions) == (28, 4, 2)
    assert (figures.first_ms, figures.last_ms) == (T0, T0 + 601_000)
    assert [figures.overall[name] for name in ("firings", "expired", "acknowledged", "open")] == [
        17,
        1,
        14,
        1,
    ]
    assert made.figures.summary()["types_nobody_waits_for"] == 1
    page = (made.folder / "report.html").read_text()
    assert "Not included: 2 records of firings" in page
    assert page.count("<svg") == 9


def test_a_range_has_its_events_and_firings_and_their_later_acknowledgements(
    spark: SparkSession, archive: str, tmp_path: Path
) -> None:
    # the fifth and sixth wait of `daily`; the sixth is acknowledged after the end
    since, until = T0 + 5 * 60_000, T0 + 6 * 60_000 + 1500
    figures = make_report(spark, archive, str(tmp_path), since_ms=since, until_ms=until, now_ms=NOW)
    made = Made(spark, tmp_path, figures)
    assert (figures.events, figures.overall["firings"], figures.overall["acknowledged"]) == (4, 2, 2)
    assert spread(made.row("latencies_by_dag", dag="daily"), "event_to_firing") == [50, 60, 60, 60]
    # earlier conditions count only if they are in force in the range
    assert {row["condition"] for row in made.rows("conditions")} == {str(BOTH), str(LIMITED), str(ANY_OPS)}


def test_a_condition_is_in_force_until_it_is_removed(spark: SparkSession) -> None:
    log = Log()
    over = log.registered(T0, wait("over"), event(ORDERS))
    log.removed(T0 + 1000, over)
    left = log.registered(T0, wait("left"), event(RATES))
    log.removed(T0 + 1000, left, leftover=True)  # removes nothing
    log.registered(T0 + 5000, wait("later"), event(OPS))
    found = incarnations(rows_in(spark, log.records))
    conditions_in_force = in_force(found, T0 + 1500, T0 + 5000).collect()
    assert [row.incarnation for row in conditions_in_force] == [left.incarnation]
    assert {row.in_force_until for row in found.collect()} == {T0 + 1000, None}


def test_plain_topics_are_distinguished_and_a_matcher_without_a_type_hides_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Regression: one matcher without a type blinded "types nobody waits for"; plain topics were one type."""
    log = Log()
    log.registered(T0, wait("any"), event(subject="x"))
    plain = log.registered(T0, wait("plain"), event(PLAIN, source="orders", label="orders"))
    log.registered(T0, wait("of a source"), event(source="/rates", label="rates"))
    made = [
        Event.of(PLAIN, topic, id=str(n), data={}) for n, topic in enumerate(("orders", "users", "users"))
    ]
    made.append(Event.of(RATES, "/rates", id="r", data={}))
    records = [log.append("event", T0 + n, *kafka.encode(each)) for n, each in enumerate(made)]
    log.event(CART, T0 + 60_000)
    log.firing(plain, {"orders": (made[0], records[0])}, T0 + 10)
    archive = archived(spark, tmp_path / "archive", log.records)
    report = Made(
        spark, tmp_path / "report", make_report(spark, archive, str(tmp_path / "report"), now_ms=NOW)
    )
    unwaited = {(row["type"], row["topic"]): row["events"] for row in report.rows("unwaited_types")}
    assert unwaited == {(PLAIN, "users"): 2, (CART, None): 1}
    assert report.figures.without_type == 1
    volume = {(row["type"], row["topic"]): row["events"] for row in report.rows("volume")}
    assert volume == {(PLAIN, "orders"): 1, (PLAIN, "users"): 2, (RATES, None): 1, (CART, None): 1}
    kinds = {(row["type"], row["topic"], row["completed"]) for row in report.rows("latencies_by_type")}
    assert kinds == {(PLAIN, "orders", 1)}
    assert report.figures.step_ms == 60_000
    moments = {(row["start_ms"], row["type"]): row["events"] for row in report.figures.table("moments").rows}
    minute = T0 - T0 % 60_000
    assert moments == {
        (minute, "topic orders"): 1,
        (minute, "topic users"): 2,
        (minute, RATES): 1,
        (minute + 60_000, CART): 1,
    }


@pytest.mark.long
def test_an_empty_archive_gives_a_page_that_says_so(spark: SparkSession, tmp_path: Path) -> None:
    archive = archived(spark, tmp_path / "archive", [])
    figures = make_report(spark, archive, str(tmp_path / "report"), now_ms=NOW)
    assert figures.empty
    assert "Nothing to report" in (tmp_path / "report" / "report.html").read_text()
    assert spark.read.parquet(str(tmp_path / "report" / "firings")).count() == 0


def test_a_missing_archive_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no archive in"):
        make_report(spark, str(tmp_path / "nothing"), str(tmp_path / "report"), now_ms=NOW)


@pytest.mark.long
def test_the_job_prints_its_summary_as_one_json_object(archive: str, tmp_path: Path) -> None:
    confs = [f"--conf={name}={value}" for name, value in LOCAL.items()]
    command = [str(SUBMIT), *confs, job("report"), "--archive", archive, "--output", str(tmp_path / "report")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [*command, "--output-format", "json"], capture_output=True, text=True, env=environment
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    summary = json.loads(ran.stdout.splitlines()[-1])  # spark-submit prints the log there too
    assert (summary["firings"], summary["events"], summary["event_to_firing_max_ms"]) == (17, 28, 100)
    assert Path(summary["page"]).read_text().startswith("<!doctype html>")
