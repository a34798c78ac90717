"""What docs/use/migrating.md writes in place of Airflow's operators does what they did, and what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from interlock import Event
from interlock.testing import dag_run_end, record, runs_of, wait_of

PAGE = (Path(__file__).parents[3] / "docs" / "use" / "migrating.md").read_text()
AFTER = dict(re.findall(r"```python\n# after: (\w+)\n(.*?)```", PAGE, re.DOTALL))
MIDNIGHT = "2026-11-20T00:00:00Z"


def after(name: str) -> dict[str, Any]:
    """The names that the block defines."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(AFTER[name], name, "exec"), names)
    return names


def sent(kind: str, at: str, **data: Any) -> Event:
    return Event.of(f"com.example.{kind}", "/s", id=f"{kind} {at}", time=f"2026-11-20T{at}:00Z", data=data)


def test_an_external_run_of_the_day_before_ends_the_wait_well_or_fails_it() -> None:
    wait = wait_of(after("ExternalTaskSensor")["report"], "rates", logical_date=MIDNIGHT)

    def end(state: str, day: int) -> Event:
        date = f"2026-11-{day}T00:00:00Z"
        return dag_run_end(
            "rates_ingest", state, run_id=f"r{day}", logical_date=date, at="2026-11-20T02:00:00Z"
        )

    assert wait.given([end("success", 20), end("failed", 18)]).state == "deferred"
    assert wait.given([end("success", 19)]).state == "success"
    failed = wait.given([end("failed", 19)])
    assert (failed.state, failed.outcome) == ("failed", "fail_on"), str(failed)
    assert wait.given([], until="2026-11-20T06:00:00Z").outcome == "timeout"


def test_an_event_of_the_day_before_ends_the_wait_of_the_next_day() -> None:
    [block] = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "as emitted" in text]
    names: dict[str, Any] = {}
    exec(compile(block, "emitted", "exec"), names)
    wait = wait_of(names["emitted"], "rates", logical_date=MIDNIGHT)
    assert wait.given([sent("rates.published", "01:00", date="2026-11-19")]).state == "success"
    assert wait.given([sent("rates.published", "01:00", date="2026-11-20")]).state == "deferred"


def test_a_message_of_a_plain_topic_ends_the_wait() -> None:
    wait = wait_of(after("AwaitMessageSensor")["orders"], "done", logical_date=MIDNIGHT)
    new, done = (
        record("raw_orders", {"status": status}, at="2026-11-20T06:00:00Z", offset=offset)
        for offset, status in enumerate(("new", "done"))
    )
    assert wait.given([new]).state == "deferred"
    assert wait.given([new, done]).output["events"]["order"][0]["data"] == {"status": "done"}  # type: ignore[index]


def test_each_message_starts_a_run() -> None:
    orders = [
        record("raw_orders", {"status": status, "id": n}, at="2026-11-20T06:00:00Z", offset=n)
        for n, status in enumerate(("done", "new", "done"))
    ]
    runs = runs_of(after("AwaitMessageTriggerFunctionSensor")["listen"], orders)
    assert [(run.dag_id, run.conf) for run in runs] == [
        ("settle", {"order": "0"}),
        ("settle", {"order": "2"}),
    ]


def test_the_producer_emits_and_waits_for_the_run_that_its_event_starts() -> None:
    names = after("TriggerDagRunOperator")
    [run] = runs_of(names["on_rates"], [sent("rates.published", "01:00", day="2026-11-20")])
    assert (run.dag_id, run.conf, str(run.logical_date)[:10]) == (
        "report",
        {"day": "2026-11-20"},
        "2026-11-20",
    )
    reported = wait_of(names["ingest"], "reported", logical_date=MIDNIGHT)
    ended = dag_run_end("report", run_id=run.run_id, logical_date=MIDNIGHT, at="2026-11-20T01:10:00Z")
    assert reported.given([ended]).state == "success"


def test_each_date_of_which_both_came_starts_a_run() -> None:
    both = [
        sent("orders.done", "01:00", date="2026-11-19"),
        sent("rates.published", "01:01", date="2026-11-20"),
        sent("orders.done", "01:02", date="2026-11-20"),
    ]
    [run] = runs_of(after("assets")["report"], both)
    assert str(run.logical_date)[:10] == "2026-11-20"
