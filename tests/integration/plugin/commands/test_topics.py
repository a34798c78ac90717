"""`airflow interlock topics` as an administrator runs it, with the connection in Airflow's database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an `airflow` command in an Airflow of its own."""
    home = tmp_path_factory.mktemp("airflow-home")
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).parent / "airflow"), *arguments],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert run("db", "migrate").returncode == 0
    return run


def test_topics_are_made_and_checked_through_a_connection_of_the_database(
    airflow: Callable[..., subprocess.CompletedProcess[str]],
    bootstrap_servers: str,
    unique_name: Callable[[str], str],
) -> None:
    name = unique_name("bus")
    missing = airflow("interlock", "topics", "check", "--conn-id", "kafka_cli")
    assert missing.returncode == 1
    assert "kafka_cli" in missing.stderr
    extra = json.dumps({"bootstrap.servers": bootstrap_servers})
    assert (
        airflow("connections", "add", "kafka_cli", "--conn-type", "kafka", "--conn-extra", extra).returncode
        == 0
    )
    common = ("--conn-id", "kafka_cli", "--bus", name, "--output", "json")

    made = airflow("interlock", "topics", "create", *common, "--partitions", "2")
    assert made.returncode == 0, made.stderr
    rows = json.loads(made.stdout[made.stdout.index("[") :])
    assert {row["topic"] for row in rows} == {
        f"{name}-{kind}" for kind in ("event", "trigger", "state", "action", "subscription", "dead-letter")
    }
    assert {row["state"] for row in rows} == {"created"}

    again = airflow("interlock", "topics", "create", *common, "--partitions", "3")
    assert again.returncode == 1
    assert "have 2 partitions, not 3" in again.stderr
