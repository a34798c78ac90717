"""The fixtures in a separate test session, as authors of DAGs use them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DOCUMENTED = dict(
    re.findall(
        r"```python\n# (\S+\.py)\n(.*?)```",
        (Path(__file__).parents[3] / "docs" / "use" / "testing.md").read_text(),
        re.DOTALL,
    )
)
FILES = {
    **DOCUMENTED,
    "pytest.ini": "[pytest]\ninterlock_dags_folder = flows\n",
    "flows/report.py": """
from airflow.sdk import DAG
from interlock import event
from interlock.operators import EventSensor

orders = event("com.shop.orders.done", by="data.date", label="orders")
with DAG("report", schedule="@daily"):
    EventSensor(task_id="ready", condition=orders, key="{{ ds }}")
    EventSensor(task_id="the_next_day", condition=orders, key="{{ macros.ds_add(ds, 1) }}")
""",
    "test_mistakes.py": """
from interlock import Event

def test_another_day(interlock_wait):
    wait = interlock_wait("report", "the_next_day", logical_date="2026-11-20T00:00:00Z")
    day = {"date": "2026-11-20"}
    orders = Event.of("com.shop.orders.done", "/shop", time="2026-11-20T06:00:00Z", data=day)
    result = wait.given([orders])
    assert result.state == "success", str(result)

def test_typing_slip(interlock_wait):
    interlock_wait("reprot", "ready", logical_date="2026-11-20T00:00:00Z")
""",
}


def test_the_example_in_the_docs_passes_and_a_failing_test_shows_the_report(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    session = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert "2 failed, 2 passed" in session.stdout, session.stdout
    assert "No DAG 'reprot'; there are report" in session.stdout
    assert "key 2026-11-20 here, 2026-11-21 wanted" in session.stdout, session.stdout
