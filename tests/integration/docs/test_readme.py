"""The commands of the README, typed one after the other into a real Airflow with a real broker."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local.airflow import MIGRATED, LocalAirflow, free_port

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
SETTINGS = {
    (
        "dag_processor",
        "refresh_interval",
    ): "300",  # Airflow's default: the file is found by the commands alone
    ("core", "dags_are_paused_at_creation"): "True",
}


def commands(section: str) -> list[list[str]]:
    """The blocks of commands in a section, each as its lines."""
    text = README.split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", text, re.DOTALL)
    return [block.splitlines() for block in blocks]


@pytest.mark.long
def test_the_commands_of_the_readme_work_as_they_are_typed(
    bootstrap_servers: str,
    unique_name: Callable[[str], str],
    eventually: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Nothing is waited for in between. `dags unpause` printed "No paused DAGs were found"."""
    dags = tmp_path / "dags"
    dags.mkdir()
    bus = {"AIRFLOW__INTERLOCK__BUS": unique_name("readme")}
    *_, connect = commands("Install")
    first, (receive, *post) = commands("Your first DAG")
    receiver = f"127.0.0.1:{free_port()}"
    with LocalAirflow(
        tmp_path / "home", dags, settings=SETTINGS, environment=bus, migrated=MIGRATED
    ) as airflow:

        def type_in(line: str) -> str:
            line = line.replace("127.0.0.1:9092", bootstrap_servers).replace("127.0.0.1:8085", receiver)
            ran = subprocess.run(
                ["bash", "-c", line], env=airflow.processes.environment, cwd=tmp_path,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            assert ran.returncode == 0, f"{line}\n{ran.stdout}"
            return ran.stdout

        for line in connect:
            type_in(line)
        [source, *_] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        (dags / "daily_report.py").write_text(source)
        for line in first:
            type_in(line)
        port = receiver.partition(":")[2]
        airflow.processes.start("receiver", [*receive.partition("#")[0].split(), "--port", port])

        def answers() -> bool:
            airflow.processes.check()
            return subprocess.run(["curl", "-sf", f"{receiver}/readyz"], check=False).returncode == 0

        eventually("the receiver is ready", answers)
        type_in("\n".join(post))

        def finished() -> bool:
            runs = airflow.api.runs("daily_report")
            return any(run["run_type"] == "manual" and run["state"] == "success" for run in runs)

        eventually("the run of the README has reported", finished, 300)
