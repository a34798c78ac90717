"""The page about waits: each row of its table has a test of its name, and its log is what a task logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.operators import EventSensor
from interlock.operators import wait as module
from interlock.triggers.payload import Payload

from tests.kit.state_store import StateStore, task_instance

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "use" / "waiting.md"
RUN = "scheduled__2026-11-20T00:00:00+00:00"
SECTION = re.compile(r"## What happens to a wait\n(.*?)In other situations", re.DOTALL)


def rows() -> list[str]:
    found = SECTION.search(PAGE.read_text())
    assert found is not None
    return [line.split("|")[1].strip() for line in found[1].splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", rows())
def test_each_row_of_the_table_has_a_test_of_its_name(row: str) -> None:
    name = "test_" + re.sub(r"\W+", "_", row.lower()).strip("_")
    pages = ("unit/operators", "integration/triggers")
    tests = [path.read_text() for page in pages for path in sorted((ROOT / "tests" / page).glob("test_*.py"))]
    assert any(f"def {name}_" in text for text in tests), f"no def {name}_..."


class Clock(datetime):
    """Stands where the page's task looks at the time."""

    current = datetime(2026, 11, 20, 6, 40, 55, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.current


def block(heading: str) -> Iterator[str]:
    """The lines of the first code block below a heading of the page."""
    found = re.search(rf"^## {heading}$.*?^```\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    yield from found[1].splitlines()


def firing() -> dict[str, Any]:
    """The payload of the firing that the page shows."""

    def event(kind: str, source: str, id_: str, time: str | None = None) -> dict[str, Any]:
        form = {
            "specversion": "1.0",
            "type": kind,
            "source": source,
            "id": id_,
            "data": {"date": "2026-11-20"},
        }
        return form if time is None else {**form, "time": time}

    def origin(partition: int, offset: int, at: datetime) -> dict[str, Any]:
        at_ms = round(at.timestamp() * 1000)
        return {"topic": "interlock-event", "partition": partition, "offset": offset, "timestamp_ms": at_ms}

    of_orders = event("com.shop.orders.done", "/shop", "orders-2026-11-20")
    of_rates = event("com.bank.rates.published", "/bank", "771", "2026-11-20T06:41:06.8Z")
    record = FiringRecord(
        id="7c1f0a52d4be49f08a3c6a1be2d97f10",
        outcome="met",
        key="2026-11-20",
        fired_at="2026-11-20T06:41:07.311+00:00",
        events={"orders": [of_orders], "rates": [of_rates]},
        origins={
            "orders": [origin(3, 20, datetime(2026, 11, 20, 6, 40, 58, 902_000, UTC))],
            "rates": [origin(5, 41, datetime(2026, 11, 20, 6, 41, 7, 204_000, UTC))],
        },
    )
    action = ActionRecord(subscription="s", incarnation="i", state="fired", firing=record)
    return Payload.of_firing(action, ()).to_json()


def test_the_log_that_the_page_shows_is_what_the_task_of_the_page_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[:1]
    names: dict[str, Any] = {}
    exec(code.replace("EventSensor(task_id", "task = EventSensor(task_id"), names)
    task: EventSensor = names["task"]
    task.key = "2026-11-20"
    written: list[str] = []
    log = SimpleNamespace(info=lambda text, *arguments: written.append(text % arguments), warning=print)
    monkeypatch.setattr(EventSensor, "log", log)
    monkeypatch.setattr(module, "datetime", Clock)
    monkeypatch.setattr(module, "acknowledge", lambda *_: None)
    extra = {"bootstrap.servers": "kafka.example.com:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")
    date = datetime(2026, 11, 20, tzinfo=UTC)
    context: Any = {
        "ti": task_instance(dag_id="daily_report", run_id=RUN, task_id="ready"),
        "dag_run": SimpleNamespace(logical_date=date, run_after=date + timedelta(days=1), clear_number=0),
        "task_state_store": StateStore(),
    }
    with pytest.raises(TaskDeferred):
        task.execute(context)
    monkeypatch.setattr(Clock, "current", datetime(2026, 11, 20, 6, 41, 17, 123_000, UTC))
    task.execute_complete(context, firing())
    assert written == list(block("What the log says"))
