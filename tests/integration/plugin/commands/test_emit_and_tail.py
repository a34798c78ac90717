"""`airflow interlock emit` and `tail` on a bus."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest


def test_an_emitted_event_is_where_the_output_says_and_tail_shows_it_by_its_matcher(
    interlock: Any, bench: Any
) -> None:
    emitted = [
        interlock("emit", "com.shop.done", "--source", "/shop", "--id", name, "--key", "eu", "--data", data)
        for name, data in (
            ("a", '{"date": "2026-11-20", "rows": 0}'),
            ("b", '{"date": "20261120", "rows": 7}'),
        )
    ]
    first, second = (ran.rows()[0] for ran in emitted)
    assert (first["source"], first["id"], first["topic"]) == ("/shop", "a", bench.config.topic("event"))
    assert first["partition"] == second["partition"]
    matcher = 'event("com.shop.done", where="data.rows > 0", by="data.date")'
    whole = json.loads(interlock("tail", matcher, "--since", "1h", "--limit", 1, "--data").out)
    assert (whole["offset"], whole["key"]) == (second["offset"], "2026-11-20")
    assert whole["event"]["data"]["rows"] == 7
    table = interlock("tail", "--since", "1h", "--limit", 2, output="table").out.splitlines()
    assert [line.split()[2:5] for line in table] == [["com.shop.done", "/shop", name] for name in ("a", "b")]


def test_tail_shows_what_was_there_by_time_over_all_partitions(interlock: Any, bench: Any) -> None:
    emitted = [bench.emit("x", id=str(number), partitionkey=f"k{number % 7}") for number in range(30)]
    assert {delivery.partition for delivery in emitted} == {0, 1}
    printed = interlock("tail", "--since", "1h", "--limit", 30).out.splitlines()
    stamps = [json.loads(line)["timestamp_ms"] for line in printed]
    assert stamps == sorted(stamps)
    assert len(stamps) == 30


def test_tail_without_follow_prints_what_exists_and_stops(interlock: Any, bench: Any) -> None:
    """`tail --since 1h --limit 8` with 7 events waited for ever."""
    assert "0 events; there are no more." in interlock("tail", "--no-follow").err
    for number in range(7):
        bench.emit("x", id=str(number), partitionkey=f"k{number}")
    ended = interlock("tail", "--since", "1h", "--no-follow", "--limit", 8)
    assert len(ended.out.splitlines()) == 7
    assert "7 events; there are no more." in ended.err
    assert len(interlock("tail", "--no-follow", "--limit", 3).out.splitlines()) == 3


def test_an_event_that_is_not_valid_is_refused_by_name_and_not_written(interlock: Any, bench: Any) -> None:
    refused = interlock("emit", "com.shop.done", "--time", "at noon")
    assert (refused.code, "time" in refused.err) == (1, True)
    assert bench.records("event") == []


@pytest.mark.long
def test_tail_ends_cleanly_at_a_signal_and_leaves_nothing_behind(bench: Any) -> None:
    connection = {"conn_type": "kafka", "extra": dict(bench.config.client)}
    with subprocess.Popen(
        [sys.executable, "-m", "airflow", "interlock", "tail", "--since", "1h", "--output", "json"]
        + ["--bus", bench.config.name],
        env={**os.environ, "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection)},
        stdout=subprocess.PIPE,
        text=True,
    ) as tail:
        try:
            bench.emit("x", id="seen")
            assert tail.stdout is not None
            assert json.loads(tail.stdout.readline())["event"]["id"] == "seen"
            tail.send_signal(signal.SIGINT)
            assert (tail.stdout.read(), tail.wait(20)) == ("", 0)
        finally:
            tail.kill()
