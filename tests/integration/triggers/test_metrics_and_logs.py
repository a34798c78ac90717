"""What a triggerer reports about its engine through Airflow: OpenTelemetry metrics, and a log in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pytest
from interlock import Event
from interlock.events import Emitter

from tests.kit.metrics import documented

from .collector import Collector, Point

DAY = "2024-06-03"
PREFIX = "airflow."  # Airflow's, [metrics] otel_prefix
# Of an engine that took over partitions and fired for one wait; other metrics count what did not happen.
REPORTED = {
    "sum": {"consumed", "matched", "stepped", "fired", "transactions", "delivered"},
    "gauge": {
        "recovery_time",
        "partitions",
        "unread_partitions",
        "unread_topics",
        "open_keys",
        "registrations",
        "late_timers",
        "source_lag",
        "trigger_lag",
        "retention_used",
    },
    "exponential_histogram": {"transaction_time", "firing_latency"},
}


@pytest.fixture
def collector(site: Any) -> Iterator[Collector]:
    """The one triggerer sends its metrics here, and logs JSON; afterwards there is one as before."""
    with Collector() as collector:
        site.airflow.kill_triggerer()
        site.airflow.start_triggerer(
            environment={**collector.environment, "AIRFLOW__LOGGING__JSON_LOGS": "True"}
        )
        yield collector
        site.airflow.kill_triggerer()
        site.airflow.start_triggerer()


@pytest.mark.long
def test_metrics_as_documented_reach_a_collector_and_log_lines_have_fields(
    site: Any, collector: Collector, eventually: Any
) -> None:
    run_id = site.deferred("pair", logical_date=datetime.fromisoformat(DAY).replace(tzinfo=UTC))
    with Emitter(site.bus.client, site.bus.topic("event")) as emitter:
        for half in ("first.half", "second.half"):
            emitter.emit(Event.of(half, "/test", data={"day": DAY}))
    assert site.api.wait_for_run("pair", run_id, timeout_s=180) == "success"

    def ours() -> list[Point]:
        return [p for p in list(collector.points) if p.name.startswith(f"{PREFIX}interlock.")]

    wanted = {(f"{PREFIX}interlock.{name}", kind) for kind, names in REPORTED.items() for name in names}
    eventually("all of them came", lambda: wanted <= {(p.name, p.kind) for p in ours()}, deadline_s=90)
    kinds = {"sum": "counter", "gauge": "gauge", "exponential_histogram": "timing"}
    table = documented()
    assert {p.name: kinds[p.kind] for p in ours()}.items() <= {
        PREFIX + n: k for n, k in table.items()
    }.items()
    tags = {"bus": site.bus.name, "deployment": site.bus.deployment}
    assert [p for p in ours() if not p.attributes.items() >= tags.items()] == []
    assert [p for p in ours() if (p.kind == "gauge") != ("hostname" in p.attributes)] == []
    assert max(p.value for p in ours() if p.name == f"{PREFIX}interlock.fired") == 1

    name = site.airflow._triggerers[-1]
    lines = site.airflow.processes.log_path(name).read_text().splitlines()
    logged = [json.loads(line) for line in lines if '"interlock.engine"' in line]
    if not logged:  # Airflow 3.3.0, whose triggerer logs text all the same
        assert version("apache-airflow-core") == "3.3.0"
        owned = r"Engine (\S+) owns [1-9].* \[interlock\.engine\] bus=(\S+) engine=(\S+)"
        [found] = [match for line in lines if (match := re.search(owned, line))][-1:]
        assert (found[2], found[3]) == (site.bus.name, found[1])
        return
    [owns] = [line for line in logged if re.match(r"Engine \S+ owns [1-9]", line["event"])][-1:]
    assert owns["bus"] == site.bus.name
    assert owns["event"].startswith(f"Engine {owns['engine']} owns")
