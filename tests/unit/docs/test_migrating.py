"""What docs/use/migrating.md writes in place of Airflow's operators does what they did, and what it says."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk import DAG, CronTriggerTimetable
from interlock import Event, count, dag_run, day, event, hour
from interlock.operators import EventSensor
from interlock.testing import dag_run_end, record, runs_of, task_instance_end, wait_of

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


def test_an_external_run_of_the_same_logical_date_ends_the_wait() -> None:
    wait = wait_of(after("SameDate")["report"], "rates", logical_date=MIDNIGHT)
    ends = {
        day: dag_run_end("rates_ingest", logical_date=f"2026-11-{day}T00:00:00Z", at="2026-11-20T02:00:00Z")
        for day in (19, 20)
    }
    assert wait.given([ends[19]]).state == "deferred"
    assert wait.given([ends[20]]).state == "success"


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


@pytest.mark.parametrize(
    "first", [date(2026, 3, 26), date(2026, 10, 22), date(2026, 6, 1), date(2026, 12, 1)]
)
def test_over_both_changes_of_londons_clock_the_run_of_the_day_before_and_no_other_ends_the_wait(
    first: date,
) -> None:
    """A report of execution_delta: of seven runs of a DAG in London, four waited for another run or none."""
    report = after("ExternalTaskSensor")["report"]
    starts = [midnight(first + timedelta(days=n), "Europe/London") for n in range(9)]
    ends = [
        dag_run_end(
            "rates_ingest", logical_date=start.isoformat(), at=(start + timedelta(hours=1)).isoformat()
        )
        for start in starts
    ]
    for n in range(1, 8):
        wait = wait_of(report, "rates", logical_date=starts[n], start=starts[-1])
        assert wait.given([ends[n - 1]]).state == "success"
        assert wait.given([end for end in ends if end is not ends[n - 1]]).state == "deferred"


@pytest.mark.parametrize(
    ("zone", "hour"), [("Europe/Berlin", 0), ("Pacific/Auckland", 12), ("America/Los_Angeles", 23)]
)
@pytest.mark.parametrize("awaited_hour", [0, 6, 23])
def test_in_a_zone_the_business_day_is_that_of_the_zone_at_any_hour_of_it(
    zone: str, hour: int, awaited_hour: int
) -> None:
    """A report of {{ ds }}: at midnight in Berlin, and at half past twelve in Auckland, it is another day."""
    start = datetime(2026, 11, 20, hour, 30, tzinfo=ZoneInfo(zone))
    timetable = CronTriggerTimetable(f"30 {hour} * * *", timezone=zone)
    named = {"by": day("logical_date", tz=zone)}, day("{{ ts }}", tz=zone)
    of_the_dag = {"by": day("logical_date")}, day("{{ ts }}")
    for by, key in (named, of_the_dag):
        with DAG("report", schedule=timetable) as dag:
            EventSensor(task_id="rates", condition=dag_run("rates_ingest", **by), key=key)
        wait = wait_of(dag, "rates", logical_date=start, start=start + timedelta(days=2))
        ends = {
            number: dag_run_end(
                "rates_ingest",
                logical_date=datetime(2026, 11, number, awaited_hour, tzinfo=ZoneInfo(zone)).isoformat(),
                at=(start + timedelta(hours=20)).isoformat(),
            )
            for number in (19, 20, 21)
        }
        assert wait.key == "2026-11-20"
        assert wait.given([ends[20]]).state == "success"
        assert wait.given([ends[19], ends[21]]).state == "deferred"


def test_twenty_three_hours_a_rerun_and_a_run_by_hand_are_not_all_hours_of_the_day() -> None:
    wait = wait_of(after("counts")["daily_totals"], "all_hours", logical_date="2026-11-21T02:00:00Z")
    ends = [hourly(number) for number in range(24)]
    rerun = hourly(5, clear_number=1)
    by_hand = hourly(5, minute=17, run_type="manual")
    assert wait.key == "2026-11-20"
    assert wait.given(ends).state == "success"
    assert wait.given([*ends[:23], rerun, by_hand]).state == "deferred"
    assert wait.given([*ends[:7], *ends[8:], rerun, by_hand, hourly(0, 21)]).state == "deferred"
    assert wait.given([*ends[:23], rerun, by_hand, ends[23]]).state == "success"


def test_a_run_by_hand_counts_for_the_hour_of_its_time_unless_only_scheduled_runs_count() -> None:
    """What the page says of a run that somebody starts by hand in the missing hour."""
    ends = [hourly(number) for number in range(24) if number != 13]
    by_hand = hourly(13, minute=31, run_type="manual")
    wait = wait_of(after("counts")["daily_totals"], "all_hours", logical_date="2026-11-21T02:00:00Z")
    assert wait.given([*ends, by_hand]).state == "success"
    scheduled = event(
        "interlock.airflow.dag_run.succeeded",
        subject="hourly",
        where="data.run_type == 'scheduled'",
        by=day("data.logical_date", tz="UTC"),
    )
    with DAG("daily_totals", schedule="0 2 * * *") as dag:
        hours = count(scheduled, 24, distinct=hour("data.logical_date", tz="UTC"))
        EventSensor(task_id="all_hours", condition=hours, key=day("{{ ts }}", tz="UTC", offset=-1))
    wait = wait_of(dag, "all_hours", logical_date="2026-11-21T02:00:00Z")
    assert wait.given([*ends, by_hand]).state == "deferred"
    assert wait.given([*ends, by_hand, hourly(13)]).state == "success"


def hourly(number: int, day_of_month: int = 20, minute: int = 0, **given: Any) -> Event:
    moment = f"2026-11-{day_of_month}T{number:02}:{minute:02}"
    return dag_run_end("hourly", logical_date=f"{moment}:00Z", at=f"{moment}:59Z", **given)


def test_the_three_mapped_instances_count_once_each() -> None:
    wait = wait_of(after("counts")["join"], "all_instances", logical_date=MIDNIGHT)

    def end(index: int, clear_number: int = 0, date: str = MIDNIGHT) -> Event:
        at = f"2026-11-20T0{1 + clear_number}:0{index}:00Z"
        return task_instance_end(
            "etl", "load", logical_date=date, map_index=index, clear_number=clear_number, at=at
        )

    assert wait.given([end(0), end(1), end(1, 1)]).state == "deferred"
    assert wait.given([end(0), end(1), end(2, date="2026-11-19T00:00:00Z")]).state == "deferred"
    assert wait.given([end(0), end(1), end(1, 1), end(2)]).state == "success"


@pytest.mark.parametrize("monday", [date(2026, 11, 23), date(2026, 3, 30), date(2026, 10, 26)])
def test_seven_daily_runs_of_the_week_in_berlin_and_its_file_end_the_wait(monday: date) -> None:
    """Also in the weeks in which the clocks change."""
    at_six = (midnight(monday, "Europe/Berlin") + timedelta(hours=6)).isoformat()
    wait = wait_of(after("counts")["weekly_report"], "the_week", logical_date=at_six)

    def end(number: int, clear_number: int = 0) -> Event:
        start = midnight(monday - timedelta(days=7 - number), "Europe/Berlin")
        at = start + timedelta(hours=3 + clear_number)
        return dag_run_end(
            "daily", logical_date=start.isoformat(), at=at.isoformat(), clear_number=clear_number
        )

    def file(number: int) -> Event:
        day = (monday - timedelta(days=7 - number)).isoformat()
        return Event.of("com.example.file.arrived", "/s", id=day, time=at_six, data={"day": day})

    week = [end(number) for number in range(7)]
    assert wait.given([*week, file(3)]).state == "success"
    assert wait.given([*week[:6], end(5, 1), file(3)]).state == "deferred"
    assert wait.given([*week[:6], end(-1), end(7), file(3)]).state == "deferred"
    assert wait.given([*week, file(-1), file(7)]).state == "deferred"


def test_a_business_date_that_is_emitted_is_the_one_waited_for() -> None:
    [block] = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "as in_berlin" in text]
    names: dict[str, Any] = {}
    exec(compile(block, "in_berlin", "exec"), names)
    wait = wait_of(names["in_berlin"], "rates", logical_date="2026-11-19T23:00:00Z")
    assert wait.given([sent("rates.published", "05:00", date="2026-11-20")]).state == "success"
    assert wait.given([sent("rates.published", "05:00", date="2026-11-19")]).state == "deferred"


def midnight(day: date, zone: str) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)


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
