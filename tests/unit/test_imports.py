"""What an import costs: the heavy libraries are loaded when they are used, not before.

Airflow forks after it has loaded plugins and DAG files, Spark executors have no Airflow, and DAG files are
parsed often. Each import is tried in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SPARK_PROVIDER = "airflow.providers.apache.spark.operators"
CLIENTS = ("confluent_kafka", "pyspark", "py4j", "cloudevents", "aiohttp")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("interlock", (*CLIENTS, "airflow", "msgspec")),
        ("interlock.events", (*CLIENTS, "airflow")),
        ("interlock.conditions", (*CLIENTS, "airflow", "cel_expr_python", "lark")),
        ("interlock.conditions.nodes.calendar", (*CLIENTS, "airflow", "croniter")),
        ("interlock.spark", (*CLIENTS, "airflow")),
        ("interlock.plugin.provider", (*CLIENTS, "airflow", "msgspec")),
        ("interlock.plugin.commands", (*CLIENTS, "airflow", "msgspec")),
        ("interlock.operators", (SPARK_PROVIDER, "confluent_kafka", "pyspark", "py4j", "aiohttp")),
    ],
)
def test_an_import_loads_no_heavy_library(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_public_names_load_no_kafka_client_spark_or_airflow() -> None:
    code = (
        "import sys, interlock\n"
        "[getattr(interlock, name) for name in interlock.__all__]\n"
        f"print([name for name in {(*CLIENTS, 'airflow')!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
