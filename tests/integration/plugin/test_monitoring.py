"""Interlock's metrics through Airflow's own StatsD client, statsd_exporter and Prometheus."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from interlock.plugin.broker.ports import free_ports
from interlock.triggers.stats import initialised_stats

from tests.kit.asking import status
from tests.kit.metrics import documented, published
from tests.kit.prometheus import MONITORING, name_of, program, queries

# It answers only while alerts fire.
OF_ALERTS: Final = {"Alerts"}


class Prometheus:
    """A Prometheus that scrapes each second, with the alert rules."""

    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self._get("query", query=expression)["result"]  # type: ignore[no-any-return]

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, what: str, **arguments: str) -> dict[str, Any]:
        answer = httpx.get(f"http://127.0.0.1:{self.port}/api/v1/{what}", params=arguments, timeout=10).json()
        assert answer["status"] == "success", answer
        found: dict[str, Any] = answer["data"]
        return found


def running(command: list[str], log: Path) -> ExitStack:
    """Runs a program until the stack is closed."""
    stack = ExitStack()
    file = stack.enter_context(log.open("w"))
    process = stack.enter_context(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
    stack.callback(process.terminate)
    return stack


@pytest.fixture
def prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> Iterator[Prometheus]:
    """Airflow's metrics of this process go through statsd_exporter, with statsd.yaml, to Prometheus."""
    of_statsd, of_exporter, of_prometheus = free_ports(3)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "scrape_configs": [
            {"job_name": "statsd", "static_configs": [{"targets": [f"127.0.0.1:{of_exporter}"]}]}
        ],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    exporter = [
        program("statsd_exporter"),
        f"--statsd.mapping-config={MONITORING / 'statsd.yaml'}",
        f"--statsd.listen-udp=127.0.0.1:{of_statsd}",
        "--statsd.listen-tcp=",
        f"--web.listen-address=127.0.0.1:{of_exporter}",
    ]
    server = [
        program("prometheus"),
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{of_prometheus}",
    ]
    for name, value in {
        "STATSD_ON": "True",
        "STATSD_HOST": "127.0.0.1",
        "STATSD_PORT": str(of_statsd),
        "STATSD_INFLUXDB_ENABLED": "True",
    }.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    with running(exporter, tmp_path / "exporter.log"), running(server, tmp_path / "prometheus.log"):
        eventually("the exporter listens", lambda: status(of_exporter, "/metrics") == 200)
        eventually("Prometheus is ready", lambda: status(of_prometheus, "/-/ready") == 200)
        yield Prometheus(of_prometheus)
    from airflow._shared.observability.metrics import stats as shared
    from airflow._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.observability import stats

    client: Any = shared._backend
    client.statsd.close()
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


@pytest.mark.long
def test_all_metrics_arrive_with_their_tags_and_each_query_of_the_dashboard_answers(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    airflows = initialised_stats()
    assert airflows is not None
    names = {metric: name_of(metric, kind) for metric, kind in documented().items()}

    def arrived() -> dict[str, set[str]]:
        """{name: its labels} in Prometheus; all is published once more for each look."""
        sent.append(published(monkeypatch, airflows).tags)
        found = prometheus.query('{__name__=~"airflow_interlock_.+"}')
        return {each["metric"]["__name__"].removesuffix("_bucket"): {*each["metric"]} for each in found}

    sent: list[dict[str, set[str]]] = []
    eventually("all metrics", lambda: arrived().keys() >= {*names.values()})
    labels = arrived()
    for metric, tags in sent[-1].items():
        assert labels[names[metric]] >= tags, metric
    for metric, kind in documented().items():
        assert ("hostname" in labels[names[metric]]) == (kind == "gauge"), metric

    def silent() -> list[str]:
        published(monkeypatch, airflows)
        return [title for title, query in queries() if title not in OF_ALERTS and not prometheus.query(query)]

    eventually("each query answers", lambda: silent() == [])
    assert {rule["health"] for rule in prometheus.rules()} == {"ok"}


@pytest.mark.long
def test_a_first_dead_letter_and_an_engine_that_is_gone_raise_their_alerts(
    prometheus: Prometheus, eventually: Callable[..., Any]
) -> None:
    """A counter that appeared with its first increase raised none."""
    metrics = initialised_stats()
    assert metrics is not None
    tags = {"bus": "b", "deployment": "d"}
    metrics.gauge("interlock.registrations", 4, tags=tags)
    metrics.incr("interlock.dead_lettered", 0, tags=tags)
    eventually("the counter", lambda: prometheus.query("airflow_interlock_dead_lettered_total"))
    metrics.incr("interlock.dead_lettered", 1, tags=tags)

    def raised() -> set[str]:
        return {rule["name"] for rule in prometheus.rules() if rule["state"] in ("pending", "firing")}

    eventually("both alerts", lambda: raised() == {"InterlockDeadLetters", "InterlockNoEngine"})
