"""A key that is a day in UTC, where the matchers read days of another time zone, is an import error (K40)."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, CronTriggerTimetable
from interlock import dag_run, day, event, month, week
from interlock.conditions import ConditionError
from interlock.operators import EventSensor

BERLIN = "Europe/Berlin"
OF_DAY = event("x", by=day("data.at", tz=BERLIN))
OF_RUN = dag_run("a", by=day("logical_date", tz=BERLIN))
OF_WEEK = event("x", by=week("data.at", tz=BERLIN))
OF_MONTH = event("x", by=month("data.at", tz=BERLIN))
BOTH = event("x", by=["subject", day("data.at", tz=BERLIN)])


def dag(zone: str = BERLIN, **more: Any) -> DAG:
    return DAG("d", schedule=CronTriggerTimetable("0 0 * * *", timezone=zone), **more)


def wait(condition: Any, key: Any, of: DAG | None = None, **more: Any) -> None:
    with of or dag():
        EventSensor(task_id="wait", condition=condition, key=key, **more)


IN_UTC = [
    (OF_DAY, "{{ ds }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_RUN, "{{ ds }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_DAY, "{{ ds_nodash }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_DAY, "{{ '%s' % ds }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_DAY, "{{ ts[:10] }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_DAY, "{{ logical_date | ds }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_DAY, "{{ logical_date | default(dag_run.run_after) | ds }}", 'tz="{zone}"'),
    (OF_DAY, "{{ logical_date.date() }}", 'day("{{ ts }}", tz="{zone}")'),
    (OF_DAY, "{{ logical_date.strftime('%d.%m.%Y') }}", None),
    (OF_DAY, "{{ macros.ds_add(ds, -1) }}", 'day("{{ ts }}", tz="{zone}", offset=-1)'),
    (OF_DAY, "{{ (logical_date + macros.timedelta(days=2)) | ds }}", 'tz="{zone}", offset=2)'),
    (OF_DAY, "{{ data_interval_start.to_date_string() }}", 'day("{{ data_interval_start }}", tz="{zone}")'),
    (OF_DAY, "{{ data_interval_end | ds }}", 'day("{{ data_interval_end }}", tz="{zone}")'),
    (OF_DAY, "{{ dag_run.run_after | ds }}", 'day("{{ dag_run.run_after }}", tz="{zone}")'),
    (OF_WEEK, "{{ logical_date.strftime('%G-W%V') }}", 'week("{{ ts }}", tz="{zone}")'),
    (OF_MONTH, "{{ ds[:7] }}", 'month("{{ ts }}", tz="{zone}")'),
    (BOTH, ["eu", "{{ ds }}"], 'day("{{ ts }}", tz="{zone}")'),
    (event("y", by="data.date") | OF_DAY, "{{ ds }}", 'day("{{ ts }}", tz="{zone}")'),
]


@pytest.mark.parametrize(("condition", "key", "give"), IN_UTC, ids=map(str, range(len(IN_UTC))))
def test_a_day_in_utc_for_days_of_another_zone_is_an_import_error_that_says_what_to_write(
    condition: Any, key: Any, give: str | None
) -> None:
    """It parsed. The run of midnight in Berlin took the events of the day before."""
    if give is None:  # it is no date for a key
        with pytest.raises(ConditionError, match="never equal"):
            wait(condition, key)
        return
    with pytest.raises(ConditionError, match=r"^EventSensor 'wait': key is .* in UTC, and by=") as raised:
        wait(condition, key)
    assert give.replace("{zone}", BERLIN) in str(raised.value)
    assert give.replace("{zone}", "UTC") in str(raised.value)


@pytest.mark.parametrize(
    "zone", ["Europe/London", "Atlantic/Azores", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"]
)
def test_a_day_in_utc_is_wrong_in_each_zone_that_has_another_day_at_some_hour(zone: str) -> None:
    of_zone = event("x", by=day("data.at", tz=zone))
    with pytest.raises(ConditionError, match=f"reads days in {zone}"):
        wait(of_zone, "{{ ds }}")
    wait(of_zone, day("{{ ts }}", tz=zone))
    wait(of_zone, "{{ logical_date.in_timezone('" + zone + "') | ds }}")


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT", "Africa/Abidjan"])
def test_a_day_in_utc_is_right_in_a_zone_that_has_the_days_of_utc(zone: str) -> None:
    wait(event("x", by=day("data.at", tz=zone)), "{{ ds }}")


def test_days_without_a_zone_are_those_of_the_zone_of_the_dag() -> None:
    of_dag = event("x", by=day("data.at"))
    wait(of_dag, "{{ ds }}", dag("UTC"))
    with pytest.raises(ConditionError, match="reads days in Europe/Berlin"):
        wait(of_dag, "{{ ds }}", dag())


@pytest.mark.parametrize(
    ("condition", "key"),
    [
        (OF_DAY, day("{{ ts }}", tz="UTC")),  # it says what is meant
        (OF_DAY, day("{{ ts }}")),
        (OF_DAY, "{{ logical_date.in_timezone('Europe/Berlin') | ds }}"),
        (OF_DAY, "{{ params.day }}"),
        (OF_DAY, "{{ params.day or ds }}"),
        (OF_DAY, "2026-11-20"),
        (OF_MONTH, "{{ logical_date.in_timezone('Europe/Berlin').strftime('%Y-%m') }}"),
        (event("x", by=day("data.number", tz=BERLIN, unit="d")), "{{ ds }}"),  # days in any zone
        (event("x", by="data.date"), "{{ ds }}"),
        (BOTH, ["{{ ds }}", day("{{ ts }}", tz=BERLIN)]),
    ],
)
def test_a_key_that_may_be_the_day_of_the_zone_is_no_error(condition: Any, key: Any) -> None:
    wait(condition, key)


def test_a_fail_on_and_each_mapped_key_are_looked_at_too() -> None:
    with pytest.raises(ConditionError, match="the day in UTC"):
        wait(event("y", by="data.date"), "{{ ds }}", fail_on=OF_DAY)
    with dag(), pytest.raises(ConditionError, match="the day in UTC"):
        EventSensor.partial(task_id="wait", condition=OF_DAY).expand(key=["2026-11-20", "{{ ds }}"])


def test_filters_of_the_dag_may_give_the_day_of_the_zone() -> None:
    wait(OF_DAY, "{{ logical_date | ds }}", dag(user_defined_filters={"ds": str}))


@pytest.mark.parametrize(
    "key", [day("{{ ts }}", tz=BERLIN), day("{{ ts }}"), ["a", day("2026-11-20T01:00:00Z")]]
)
@pytest.mark.parametrize("path", ["ds", "data.ds"])
def test_a_day_of_a_zone_for_the_ds_of_a_run_is_an_import_error(path: str, key: Any) -> None:
    """The run at midnight in Berlin waited for the run that begins a day later."""
    by: Any = path if isinstance(key, str) else ["subject", path]
    with pytest.raises(ConditionError, match="that is the day in Europe/Berlin, and by=") as raised:
        wait(dag_run("a", by=by), key)
    assert 'Write by=day("data.logical_date", tz="Europe/Berlin")' in str(raised.value)


def test_a_day_that_is_that_of_utc_or_is_read_from_other_events_is_no_error() -> None:
    of_ds = dag_run("a", by="ds")
    wait(of_ds, day("{{ ts }}"), dag("UTC"))
    wait(of_ds, day("{{ ts }}", tz="UTC"))
    wait(dag_run("a", by=day("data.logical_date", tz=BERLIN)), day("{{ ts }}"))
    wait(dag_run("a", by=day("logical_date", tz="UTC")), day("{{ ts }}"))  # it says what is meant
    wait(event("x", by="data.ds"), day("{{ ts }}"))
    EventSensor(task_id="alone", condition=of_ds, key=day("{{ ts }}"))  # its DAG is not known yet
