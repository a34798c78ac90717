"""The figures of a backtest's deliveries: what a person needs before switching a sink on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from .....engine.delivery.shown_path import shown_path
from .sink import SinkQuestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .....engine.delivery.sinks import SinkRecord
    from .table import Deliveries

SECOND_MS, MINUTE_MS, DAY_MS = 1_000, 60_000, 86_400_000
USUAL_HEADER_BYTES: Final = 8 * 1024  # servers often refuse more
_MOST_DAYS: Final = 366
_MOST_REASONS: Final = 20
_FIRST: Final = 10
_FIRST_COLUMNS: Final = (
    "fired_ms", "lane", "id", "type", "source", "subject", "key", "body_bytes", "firing_id",
)  # fmt: skip


@dataclass(frozen=True)
class Peak:
    """The span with the most deliveries, the earliest of several. lane: of which lane; None: of all."""

    start_ms: int
    deliveries: int
    lane: str | None = None


@dataclass(frozen=True)
class Day:
    """A day (UTC) with deliveries. bytes: of bodies."""

    start_ms: int
    deliveries: int
    bytes: int


@dataclass(frozen=True)
class Outage:
    """The worst outage of a length. waiting: the most firings at its end. in_a_lane: of one lane; None if
    lanes are not known, or no firing waits for another.

    given_up: how many of the waiting ones are too old by then. catch_up_ms: the least time until the others
    are sent, for the answer time; None without one.
    """

    outage_ms: int
    waiting: int
    in_a_lane: int | None
    given_up: int
    answer_ms: int | None
    catch_up_ms: int | None


@dataclass(frozen=True)
class DeliveryFigures:
    """The figures of the deliveries to one sink. sink: its settings.

    deliveries: how many requests are made; refused: {reason: firings for which none is}. lanes: None for the
    order `none`, and if lanes are not known. days: with deliveries, the earliest ones; days_left_out: how
    many more. average_a_day: over all days from the first delivery to the last. answer_within_ms: see
    `answer_within_ms`. large_headers: requests with more than 8 KiB of them. with_references: requests with
    events whose data do not fit. without_reply: firings whose reply would be refused. first: the first
    deliveries, as rows of the table.
    """

    sink: Mapping[str, Any]
    deliveries: int
    refused: Mapping[str, int]
    types: Mapping[str, int]
    lanes: int | None
    busiest_lane: Peak | None
    days: Sequence[Day]
    days_left_out: int
    average_a_day: float
    peak_day: Day | None
    peak_minute: Peak | None
    peak_second: Peak | None
    peak_lane_minute: Peak | None
    answer_within_ms: int | None
    body_bytes: int
    largest_body: int
    largest_headers: int
    large_headers: int
    with_references: int
    without_reply: int
    outage: Outage | None
    first: Sequence[Mapping[str, Any]]

    @staticmethod
    def of(deliveries: Deliveries) -> DeliveryFigures:
        """The figures; computes the deliveries if necessary."""
        from pyspark.sql import functions as f

        asked, rows = deliveries.asked, deliveries.rows
        sink = asked.record
        sent = rows.where("refused is null")
        whole = sent.agg(
            f.count("*").alias("n"),
            f.coalesce(f.sum("body_bytes"), f.lit(0)).alias("bytes"),
            f.coalesce(f.max("body_bytes"), f.lit(0)).alias("largest"),
            f.coalesce(f.max("header_bytes"), f.lit(0)).alias("headers"),
            f.count_if(f.col("header_bytes") > USUAL_HEADER_BYTES).alias("large_headers"),
            f.count_if(f.col("references") > 0).alias("with_references"),
            f.count_if(f.col("hops") <= 0).alias("without_reply"),
        ).collect()[0]
        daily = _counted(sent, DAY_MS)
        days = [Day(*row) for row in daily.orderBy("start_ms").limit(_MOST_DAYS).collect()]
        span = daily.agg(
            f.count("*").alias("n"), f.min("start_ms").alias("first"), f.max("start_ms").alias("last")
        ).collect()[0]
        has_lanes = sink.order == "key" or (sink.order == "partition" and asked.partitions is not None)
        by_lane = sent.groupBy("lane").agg(f.count("*").alias("n"), f.min("fired_ms").alias("start_ms"))
        minute = _peak(sent, MINUTE_MS)
        lane_minute = _peak(sent, MINUTE_MS, "lane") if has_lanes else None
        busiest = by_lane.orderBy(f.desc("n"), "lane").head() if has_lanes else None
        peak_day = daily.orderBy(f.desc("n"), "start_ms").head()
        return DeliveryFigures(
            sink={
                "subscription": sink.subscription,
                "conn_id": sink.connection,
                "path": shown_path(sink.path),
                "send": sink.send,
                "format": sink.format,
                "order": sink.order,
                "max_in_flight": sink.max_in_flight,
                "replies": sink.replies,
            },
            deliveries=whole.n,
            refused=_counts(rows.where("refused is not null"), "refused"),
            types=_counts(sent, "type"),
            lanes=by_lane.count() if has_lanes else None,
            busiest_lane=None if busiest is None else Peak(busiest.start_ms, busiest.n, busiest.lane),
            days=days,
            days_left_out=span.n - len(days),
            average_a_day=whole.n / ((span.last - span.first) // DAY_MS + 1) if span.n else 0.0,
            peak_day=None if peak_day is None else Day(*peak_day),
            peak_minute=minute,
            peak_second=_peak(sent, SECOND_MS),
            peak_lane_minute=lane_minute,
            answer_within_ms=None if minute is None else answer_within_ms(minute, lane_minute, sink),
            body_bytes=whole.bytes,
            largest_body=whole.largest,
            largest_headers=whole.headers,
            large_headers=whole.large_headers,
            with_references=whole.with_references,
            without_reply=whole.without_reply if sink.replies else 0,
            outage=None if asked.outage_ms is None else _outage(sent, asked, asked.outage_ms, has_lanes),
            first=[
                row.asDict()
                for row in sent.orderBy("fired_ms", "lane", "firing_id")
                .limit(_FIRST)
                .select(*_FIRST_COLUMNS)
                .collect()
            ],
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def _counted(sent: DataFrame, span_ms: int, *by: str) -> DataFrame:
    """(start_ms, n, bytes, ...by) of each span with deliveries."""
    from pyspark.sql import functions as f

    start = f.expr(f"fired_ms - pmod(fired_ms, {span_ms}) as start_ms")
    counted = sent.groupBy(start, *by).agg(f.count("*").alias("n"), f.sum("body_bytes").alias("bytes"))
    return counted.select("start_ms", "n", "bytes", *by)


def _peak(sent: DataFrame, span_ms: int, *by: str) -> Peak | None:
    from pyspark.sql import functions as f

    found = _counted(sent, span_ms, *by).orderBy(f.desc("n"), "start_ms", *by).head()
    return None if found is None else Peak(found.start_ms, found.n, *(found[name] for name in by))


def _counts(rows: DataFrame, column: str) -> dict[str, int]:
    """{value: rows} of the most frequent values."""
    from pyspark.sql import functions as f

    found = rows.groupBy(column).agg(f.count("*").alias("n")).orderBy(f.desc("n"), column)
    return {row[column]: row["n"] for row in found.limit(_MOST_REASONS).collect()}


def answer_within_ms(minute: Peak, lane_minute: Peak | None, sink: SinkRecord) -> int:
    """The longest answer time with which one deliverer sends the deliveries of the peak minute in a minute.

    lane_minute: that of the busiest lane. An answer after the sink's `timeout_s` is a failed try.
    """
    one_after_another = -(-minute.deliveries // sink.max_in_flight)
    if lane_minute is not None:
        one_after_another = max(one_after_another, lane_minute.deliveries)
    return min(MINUTE_MS // one_after_another, int(sink.retry.timeout_s * 1000))


def _outage(sent: DataFrame, asked: SinkQuestion, outage_ms: int, has_lanes: bool) -> Outage:
    sink, answer_ms = asked.record, asked.answer_ms
    waiting = _most_within(sent, outage_ms)
    in_a_lane = _most_within(sent, outage_ms, "lane") if has_lanes else None
    give_up_ms = int(sink.retry.give_up_after_s * 1000)
    given_up = _most_within(sent, outage_ms - give_up_ms) if outage_ms > give_up_ms else 0
    catch_up_ms = None
    if answer_ms is not None:
        left, left_in_a_lane = waiting, in_a_lane
        if given_up:  # only what is younger is still sent
            left = _most_within(sent, give_up_ms)
            left_in_a_lane = _most_within(sent, give_up_ms, "lane") if has_lanes else None
        # All of them, so many at a time; and those of the lane one after another.
        catch_up_ms = max(-(-left // sink.max_in_flight), left_in_a_lane or 0) * answer_ms
    return Outage(outage_ms, waiting, in_a_lane, given_up, answer_ms, catch_up_ms)


def _most_within(sent: DataFrame, span_ms: int, *by: str) -> int:
    """The most deliveries of any span of this length, whole seconds at its edges. by: of each of these alone.

    One task reads the counts of seconds, in their order; it holds those of one span.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    seconds = _counted(sent, SECOND_MS, *by)
    spans = (
        Window.partitionBy(*(by or [f.lit(0)]))
        .orderBy("start_ms")
        .rangeBetween(SECOND_MS - max(span_ms, SECOND_MS), 0)
    )
    found = seconds.select(f.sum("n").over(spans).alias("n")).agg(f.max("n").alias("n")).collect()[0]
    return found.n or 0
