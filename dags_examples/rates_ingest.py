"""rates_ingest: an ordinary DAG that writes a file, and emits an event with its last task."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from airflow.sdk import DAG, Param, task
from interlock.operators import EmitEventOperator
from spark_job import DATA


@task.short_circuit
def ingest(day: str, data: str, dry_run: str) -> bool:
    """Writes the rates of a date, computed from the date. A dry run announces nothing."""
    number = date.fromisoformat(day).toordinal()
    rates = {"EUR": 1_000_000, "JPY": 5_500 + number * 31 % 700, "USD": 850_000 + number * 37 % 90_000}
    path = Path(data, "rates", f"{day}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"date": day, "currency": name, "millionths": rate} for name, rate in rates.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return dry_run != "True"


with DAG(
    "rates_ingest",
    schedule=None,
    tags=["interlock"],
    params={
        "business_date": Param(
            None, type=["null", "string"], description="announced instead of the run's date"
        ),
        "dry_run": Param(False, type="boolean", description="write the file, announce nothing"),
    },
):
    announce = EmitEventOperator(
        task_id="announce",
        type="com.example.rates.published",
        subject="rates",
        data={"date": "{{ params.business_date or ds }}", "output": DATA + "/rates/{{ ds }}.jsonl"},
    )
    ingest("{{ ds }}", DATA, "{{ params.dry_run }}") >> announce
