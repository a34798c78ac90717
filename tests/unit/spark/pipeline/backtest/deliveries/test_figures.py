"""Figures of deliveries that need no Spark."""

from __future__ import annotations

import pytest
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.spark.pipeline.backtest.deliveries.figures import Peak, answer_within_ms


@pytest.mark.parametrize(
    ("deliveries", "of_a_lane", "timeout_s", "found"),
    [
        (64, None, 60, 30_000),
        (64, 4, 60, 15_000),
        (65, None, 60, 20_000),  # 32 at a time make three rounds
        (2, None, 3600, 60_000),  # not 16 minutes, with which the minute's deliveries take 16 minutes
        (2, 1, 30, 30_000),  # a later answer is a failed try
    ],
)
def test_the_answer_time_sends_the_peak_minute_in_a_minute_and_without_failed_tries(
    deliveries: int, of_a_lane: int | None, timeout_s: float, found: int
) -> None:
    sink = SinkRecord(
        subscription=subscription_of("airflow", "ship"),
        connection="crm",
        max_in_flight=32,
        retry=Retry(timeout_s=timeout_s),
    )
    lane = None if of_a_lane is None else Peak(0, of_a_lane, "key a")
    assert answer_within_ms(Peak(0, deliveries), lane, sink) == found
