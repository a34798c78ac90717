"""The programs of Prometheus with which alert rules, dashboard and StatsD's names are tested."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any

import pytest

from tests.kit.metrics import ROOT

TOOLS = ROOT / ".build" / "tools"
MONITORING = ROOT / "plugin" / "monitoring"


def program(name: str) -> str:
    """The path of promtool, prometheus or statsd_exporter: of .build/tools, else on PATH."""
    found = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        target = "statsd_exporter" if name == "statsd_exporter" else "promtool"
        pytest.fail(f"no {name} in .build/tools or on PATH: run `make {target}`")
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    return found


def queries() -> list[tuple[str, str]]:
    """The title of its panel and the expression of each query of the dashboard, with values for variables."""
    values = {"$__rate_interval": "1m", "$deployment": ".+", "$bus": ".+"}
    return [
        (panel["title"], re.sub(r"\$\w+", lambda name: values[name[0]], target["expr"]))
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    ]


def names_in(text: str) -> set[str]:
    """The metrics of Interlock in a PromQL expression, without the suffix of a histogram's buckets."""
    return {name.removesuffix("_bucket") for name in re.findall(r"\bairflow_interlock_\w+", text)}


def name_of(metric: str, kind: str) -> str:
    """The name of a metric in Prometheus, through OpenTelemetry and through StatsD with statsd.yaml."""
    suffix = {"counter": "_total", "gauge": "", "timing": "_milliseconds"}[kind]
    return f"airflow_{metric.replace('.', '_')}{suffix}"
