"""The backtest on Spark: the same firings as a loop of `step`; the output of the job."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from interlock.conditions import parse
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.layout import read
from interlock.spark.pipeline.backtest.backtest import Backtest, Log
from interlock.spark.pipeline.backtest.matching import matches_of
from interlock.spark.pipeline.backtest.order import in_order
from interlock.spark.pipeline.backtest.question import Question
from interlock.spark.pipeline.backtest.tables import MATCHED
from interlock.spark.pipeline.jobs import backtest as job
from interlock.spark.pipeline.rows import SCHEMA, day_of, type_key

from bench.backtest.log import write
from tests.unit.conditions.property.runs import examples
from tests.unit.spark.pipeline.backtest import logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000
SINK = '{"dag_id": "ship", "conn_id": "crm"}'
ORDERS = "event('com.example.orders.done', by='data.order', label='orders')"
RATES = "event('com.example.rates.published', by='data.order', label='rates')"


def rows(spark: SparkSession, case: logs.Case) -> DataFrame:
    """A log as rows of the archive."""
    return spark.createDataFrame(
        [
            {
                "kind": "event",
                "date": day_of(each.stamp_ms),
                "type_key": type_key(each.event.type),
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "appended_ms": each.stamp_ms,
                "timestamp_type": int(case.ascending),
                "id": each.event.id,
                "source": each.event.source,
                "type": each.event.type,
                "subject": each.event.subject,
                "attributes": dict(each.event.attributes),
                "data": each.event.data,
            }
            for each in case.entries
        ],
        SCHEMA,
    ).repartition(3)


def fired(found: Iterable[Any]) -> list[logs.Fired]:
    return logs.fired([{**row.asDict(recursive=True), "kind": "firing"} for row in found])


@examples(5)
@given(case=logs.cases().filter(lambda case: len(case.entries) > 12))
def test_the_backtest_fires_as_a_loop_of_step_does(spark: SparkSession, case: logs.Case) -> None:
    log = Log.of(rows(spark, case), case.end_ms)
    asked = Backtest(spark, case.question, log)
    try:
        assert fired(asked.firings.collect()) == logs.loop(case)
        pending = {(row["key"], *row["missing"]) for row in asked.pending.collect()}
    finally:
        asked.close()
    folded = logs.folded(case)
    assert pending == {(row["key"], *row["missing"]) for row in folded if row["kind"] == "pending"}


def test_rows_are_ordered_by_key_with_the_least_timestamp_from_each_on(spark: SparkSession) -> None:
    given_rows = [  # key, stamp, topic, partition, offset; a stamp of the second partition goes backwards
        ("k", 10, "t", 0, 0),
        ("k", 30, "t", 0, 1),
        ("k", 20, "t", 1, 0),
        ("k", 12, "t", 1, 1),
        ("k", 25, "t", 1, 2),
        ("j", 5, "t", 1, 3),
    ]
    matches = spark.createDataFrame([(*row, *(None,) * 7) for row in given_rows], MATCHED)
    ordered = in_order(matches.repartition(3), ascending=False)
    found = [(row.key, row.stamp_ms, row.least_ms) for row in ordered.collect()]
    wanted = [("k", 10, 10), ("k", 20, 12), ("k", 12, 12), ("k", 25, 25), ("k", 30, 30)]
    assert [row for row in found if row[0] == "k"] == wanted
    assert [row for row in found if row[0] == "j"] == [("j", 5, 5)]


def test_few_matches_of_many_events_are_folded_in_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, events=2000, keys=100)
    found = Log.of(read(spark, str(tmp_path)))
    condition = parse("event('com.example.orders.done', by='data.order')")
    asked = Backtest(spark, Question.of(condition, near_misses=0), replace(found, events=10_000_000))
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # like some clusters' defaults
    try:
        assert asked.firings.count() > 500
        assert asked.results.rdd.getNumPartitions() <= 2
    finally:
        asked.close()


def test_only_the_columns_and_types_that_matchers_read_are_fetched(
    spark: SparkSession, archive: Path
) -> None:
    question = Question.of(parse("event('com.example.orders.done', by='subject')"))
    log = Log.of(read(spark, str(archive)))
    spark.conf.set("spark.sql.maxMetadataStringLength", 10_000)  # otherwise the plan is truncated
    try:
        plan = str(matches_of(question, log.rows)._jdf.queryExecution().executedPlan().toString())
    finally:
        spark.conf.unset("spark.sql.maxMetadataStringLength")
    [partitions] = re.findall(r"PartitionFilters: \[.*?\]", plan)
    assert "lower(type_key" in partitions
    [schema] = re.findall(r"ReadSchema: .*", plan)
    assert "attributes" in schema
    assert "data:" not in schema
    assert "value:" not in schema


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    write(folder, events=2000, keys=100)
    return folder


@pytest.fixture
def answered(spark: SparkSession, archive: Path, tmp_path: Path) -> Any:
    """Runs the job with these arguments; returns (summary as JSON, path of its output)."""

    def run(*arguments: str) -> tuple[dict[str, Any], str]:
        output = str(tmp_path / "output")
        what = job.parse(["--archive", str(archive), "--output", output, *arguments])
        return json.loads(json.dumps(job.run(spark, what).to_json())), output

    return run


def test_the_job_writes_firings_pending_keys_and_near_misses_and_a_summary(
    spark: SparkSession, answered: Any
) -> None:
    condition = f"({ORDERS[:-1]}, where='data.amount > 100') & {RATES}).expires(after='6h')"
    result, output = answered("--condition", condition)
    firings, pending = spark.read.parquet(f"{output}/firings"), spark.read.parquet(f"{output}/pending")
    before = result["before"]
    assert result["events"] == 2000
    assert firings.where("outcome = 'met'").count() == before["met"] > 0
    assert firings.where("outcome = 'expired'").count() == before["expired"] > 0
    assert pending.count() == before["pending"] > 0
    met = firings.where("outcome = 'met'").head()
    assert met is not None
    assert [part["label"] for part in met["events"]] == ["orders", "rates"]
    assert met["fired_ms"] == max(part["appended_ms"] for part in met["events"])
    misses = spark.read.parquet(f"{output}/near_misses").collect()
    assert [(row["label"], row["why"]) for row in misses] == [("orders", "term")] * 5
    [reason] = before["reasons"]
    assert {row["count"] for row in misses} == {reason["count"]}
    assert before["near_misses"] == reason["count"] > 5


def test_the_figures_of_deliveries_are_those_of_their_table(spark: SparkSession, answered: Any) -> None:
    sink = '{"dag_id": "ship", "conn_id": "crm", "max_in_flight": 2, "retry": {"give_up_after_s": 3600}}'
    condition = f"({ORDERS} & {RATES}).expires(after='6h')"
    wanted = ("--deliver", sink, "--outage", "3h", "--answer-time", "250ms")
    result, output = answered("--condition", condition, *wanted)
    before, found = result["before"], result["before"]["deliveries"]
    rows = spark.read.parquet(f"{output}/deliveries").collect()
    assert len(rows) == found["deliveries"] == before["met"] + before["expired"] > 500
    assert found["refused"] == {}
    types = Counter(row.type for row in rows)
    assert found["types"] == types
    assert {*types} == {"interlock.firing.met", "interlock.firing.expired"}
    assert found["body_bytes"] == sum(row.body_bytes for row in rows)
    assert found["largest_body"] == max(row.body_bytes for row in rows)
    assert found["largest_headers"] == max(row.header_bytes for row in rows)

    lanes = Counter(row.lane for row in rows)
    assert found["lanes"] == len(lanes)
    assert found["busiest_lane"]["lane"] == lanes.most_common(1)[0][0] == "key order-hot"
    days = Counter(row.fired_ms // DAY_MS * DAY_MS for row in rows)
    assert {day["start_ms"]: day["deliveries"] for day in found["days"]} == days
    assert found["peak_day"]["deliveries"] == max(days.values())
    assert found["average_a_day"] == len(rows) / ((max(days) - min(days)) // DAY_MS + 1)
    minutes, seconds = (Counter(row.fired_ms // span * span for row in rows) for span in (60_000, 1_000))
    of_lane = Counter((row.lane, row.fired_ms // 60_000) for row in rows)
    most, most_of_lane = max(minutes.values()), max(of_lane.values())
    peaks = ("peak_minute", "peak_second", "peak_lane_minute")
    assert [found[name]["deliveries"] for name in peaks] == [most, max(seconds.values()), most_of_lane]
    assert found["peak_minute"]["start_ms"] == min(at for at, count in minutes.items() if count == most)
    assert found["answer_within_ms"] == min(60_000 // max(-(-most // 2), most_of_lane), 30_000)

    waiting = most_within(seconds, 3 * 3_600)
    by_lane = [Counter(r.fired_ms // 1000 * 1000 for r in rows if r.lane == lane) for lane in lanes]
    in_a_lane = max(most_within(each, 3 * 3_600) for each in by_lane)
    # What fired more than an hour before the end is given up, and not sent afterwards.
    left, left_in_a_lane = most_within(seconds, 3_600), max(most_within(each, 3_600) for each in by_lane)
    assert found["outage"] == {
        "outage_ms": 3 * 3_600_000,
        "waiting": waiting,
        "in_a_lane": in_a_lane,
        "given_up": most_within(seconds, 2 * 3_600),
        "answer_ms": 250,
        "catch_up_ms": max(-(-left // 2), left_in_a_lane) * 250,
    }
    assert [row["id"] for row in found["first"]] == [
        row.id for row in sorted(rows, key=lambda row: (row.fired_ms, row.lane, row.firing_id))[:10]
    ]


def most_within(seconds: Mapping[int, int], span_s: int) -> int:
    """The most deliveries in so many seconds."""
    starts = [*seconds]
    return max(sum(seconds[at] for at in starts if start - span_s * 1000 < at <= start) for start in starts)


@pytest.mark.long
def test_a_comparison_counts_firings_that_are_gone_new_moved_and_the_same(
    spark: SparkSession, answered: Any
) -> None:
    result, output = answered(
        "--condition",
        f"({ORDERS} & {RATES}).expires(after='6h')",
        "--compare",
        f"({ORDERS} & {RATES}).expires(after='5h')",
    )
    changes = spark.read.parquet(f"{output}/changes")
    counts = {row["change"]: row["count"] for row in changes.groupBy("change").count().collect()}
    assert counts == result["changes"]
    assert set(counts) == {"same", "moved", "gone", "new"}
    of_both = counts["same"] + counts["moved"]
    assert of_both + counts["gone"] == result["before"]["met"] + result["before"]["expired"]
    assert of_both + counts["new"] == result["after"]["met"] + result["after"]["expired"]
    moved = changes.where("change = 'moved'").head()
    assert moved is not None
    assert moved["fired_ms"] - moved["after_ms"] == 3_600_000


def test_a_wait_for_a_key_ends_with_its_first_firing(spark: SparkSession, answered: Any) -> None:
    arguments = ("--condition", f"{ORDERS} & {RATES}", "--key", "order-hot", "--since", "2026-11-19T00:00Z")
    _, output = answered(*arguments)
    [firing] = spark.read.parquet(f"{output}/firings").collect()
    assert firing["key"] == "order-hot"
    assert min(part["appended_ms"] for part in firing["events"]) >= 1_795_046_400_000


@pytest.mark.long
def test_a_wait_without_a_key_ends_with_the_earliest_firing_of_all(
    spark: SparkSession, answered: Any
) -> None:
    condition = f"{ORDERS} & {RATES}"
    _, output = answered("--condition", condition)
    earliest = min(row["fired_ms"] for row in spark.read.parquet(f"{output}/firings").collect())
    result, output = answered("--condition", condition, "--once", "--overwrite")
    [firing] = spark.read.parquet(f"{output}/firings").collect()
    assert firing["fired_ms"] == earliest
    assert (result["before"]["met"], result["before"]["pending"]) == (1, 0)
    assert spark.read.parquet(f"{output}/pending").count() == 0

    never = f"{condition} & event('no.such', by='subject')"
    result, output = answered("--condition", never, "--once", "--overwrite")
    assert (result["before"]["met"], result["before"]["pending"] > 0) == (0, True)


@pytest.mark.long
def test_an_existing_output_is_replaced_only_with_overwrite(answered: Any) -> None:
    first, _ = answered("--condition", ORDERS)
    with pytest.raises(PipelineError, match="--overwrite"):
        answered("--condition", RATES)
    second, _ = answered("--condition", RATES, "--overwrite")
    assert first["before"]["met"] != second["before"]["met"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--condition", "event('a') &", "--archive", "x"], "line 1"),
        (["--archive", "x"], "give either --condition or --condition-from"),
        (["--condition", "event('a')", "--key", "k", "--archive", "x"], "no matcher reads one"),
        (["--condition", "event('a')", "--since", "soon", "--archive", "x"], "--since"),
        (["--condition", "event('a')"], "--archive --kafka"),
        (["--condition", "event('a')", "--outage", "1h", "--archive", "x"], "--outage needs a sink"),
        (["--condition", "event('a')", "--deliver", "{}", "--archive", "x"], "required field `dag_id`"),
        (
            ["--condition", "event('a')", "--deliver", SINK, "--answer-time", "1s", "--archive", "x"],
            "--answer-time needs --outage",
        ),
        (["--condition", "event('a')", "--deliver-from", "a:b", "--archive", "x"], "leave out --condition"),
        (["--condition", "event('a')", "--deliver", SINK, "--once", "--archive", "x"], "leave out --once"),
    ],
)
def test_wrong_arguments_end_the_job_with_2_and_a_message(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        job.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
