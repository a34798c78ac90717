"""A key of a wait that no event can have, or that fails in each run, is an import error (K39)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk import DAG, CronTriggerTimetable
from interlock import dag_run, day, event, hour, month, week
from interlock.conditions import ConditionError
from interlock.operators import EventSensor, dispatch_dag
from interlock.testing import wait_of
from interlock.triggers.asset import ConditionTrigger

BERLIN = "Europe/Berlin"
ANY = event("x", by="data.d")
LOGICAL = dag_run("a", by="logical_date")
DS = dag_run("a", by="ds")
OF_DAY = dag_run("a", by=day("logical_date", tz=BERLIN))
OF_WEEK = dag_run("a", by=week("logical_date", tz=BERLIN))
OF_MONTH = dag_run("a", by=month("logical_date", tz=BERLIN))
OF_HOUR = dag_run("a", by=hour("logical_date", tz=BERLIN))
OF_KOLKATA = dag_run("a", by=hour("logical_date", tz="Asia/Kolkata"))
NAMED = event("x", subject="eu", by="subject")
BOTH = event("x", by=["subject", day("data.d", tz=BERLIN)])


def wait(condition: Any, key: Any, dag: DAG | None = None, **more: Any) -> None:
    with dag or DAG("d", schedule=CronTriggerTimetable("0 0 * * *", timezone=BERLIN)):
        EventSensor(task_id="wait", condition=condition, key=key, **more)


NEVER = [
    (LOGICAL, "{{ ds }}", r'Write key="\{\{ ts \}\}" for exactly this time, or by=day'),
    (LOGICAL, "2026-11-20", "for exactly this time"),
    (LOGICAL, date(2026, 11, 20), "for exactly this time"),
    (LOGICAL, day("{{ ts }}"), "for exactly this time"),
    (DS, "{{ ts }}", r'Write key="\{\{ ds \}\}" for days in UTC'),
    (OF_DAY, "{{ ts }}", r'Write key=day\("\{\{ ts \}\}", tz="Europe/Berlin"\)'),
    (OF_DAY, "{{ logical_date }}", "Write key=day"),
    (OF_DAY, "{{ data_interval_end.isoformat() }}", "Write key=day"),
    (OF_DAY, "{{ ts_nodash }}", "Write key=day"),
    (OF_DAY, "{{ ds }}T00:00:00Z", "Write key=day"),
    (OF_DAY, "{{ macros.ds_format(ds, '%Y-%m-%d', '%Y-%m') }}", "Write key=day"),
    (OF_DAY, "{{ ds[:7] }}", "Write key=day"),
    (OF_DAY, hour("{{ ts }}", tz=BERLIN), "Write key=day"),
    (OF_DAY, "eu", "Write key=day"),
    (OF_DAY, datetime(2026, 11, 20, tzinfo=UTC), "Write key=day"),
    (OF_WEEK, day("{{ ts }}", tz=BERLIN), r'Write key=week\("\{\{ ts \}\}", tz="Europe/Berlin"\)'),
    (OF_WEEK, "{{ dag_run.run_after | ds_nodash }}", "Write key=week"),
    (OF_WEEK, 20261120, "Write key=week"),
    (OF_MONTH, week("{{ params.x }}", tz=BERLIN), "Write key=month"),
    (OF_HOUR, day("{{ ts }}", tz=BERLIN), "Write key=hour"),
    (OF_HOUR, "2026-11-20T05:30:00Z", r'Write key=hour\("\{\{ ts \}\}", tz="Europe/Berlin"\)'),
    (OF_HOUR, hour("{{ ts }}", tz="Asia/Kolkata"), "Write key=hour"),
    (OF_KOLKATA, "2026-11-20T05:00:00Z", "Write key=hour"),
    (NAMED, "us", 'reads "eu": they are never equal. Give this value'),
    (NAMED, "{{ ds }}", "Give this value"),
    (BOTH, ["{{ params.market }}", "{{ ts }}"], "Write key=day"),
]  # fmt: skip
MAY = [
    (ANY, "{{ ds }}"),
    (LOGICAL, "{{ ts }}"),
    (LOGICAL, "{{ logical_date - macros.timedelta(days=1) }}"),
    (LOGICAL, hour("{{ ts }}", tz=BERLIN)),
    (DS, "{{ ds_nodash }}"),
    (DS, "{{ macros.ds_add(ds, -3) }}"),
    (OF_DAY, "{{ logical_date.in_timezone('Europe/Berlin') | ds }}"),
    (OF_DAY, "{{ dag_run.conf['day'] }}"),
    (OF_DAY, "{{ dag_run.conf['day'] if dag_run.conf is defined else ts }}"),
    (OF_DAY, "{{ ti.xcom_pull('x') }}"),
    (OF_DAY, "{{ var.value.day }}"),
    (OF_DAY, "{{ ts.replace('T00:00:00+00:00', '') }}"),
    (OF_DAY, "{{ ts if logical_date.month == 7 else ts }}"),
    (OF_DAY, "20261120"),
    (OF_DAY, date(2026, 11, 20)),
    (OF_WEEK, "{{ ds[:4] }}-W{{ params.week }}"),
    (OF_HOUR, "{{ ts }}"),
    (OF_HOUR, "2026-11-20T05:00:00Z"),
    (OF_HOUR, hour("{{ ts }}")),
    (OF_KOLKATA, "2026-11-20T05:30:00Z"),
    (OF_KOLKATA, hour("{{ ts }}", tz="Australia/Darwin")),
    (NAMED, "{{ params.market }}"),
    (NAMED, "eu"),
    (DS | LOGICAL, "{{ ds }}"),
    (BOTH, ["eu", day("{{ ts }}")]),
]


@pytest.mark.parametrize(("condition", "key", "write"), NEVER, ids=map(str, range(len(NEVER))))
def test_a_key_that_no_event_can_have_is_an_import_error_that_says_what_to_write(
    condition: Any, key: Any, write: str
) -> None:
    """They parsed, and waited for ever."""
    with pytest.raises(
        ConditionError, match=f"^EventSensor 'wait': key is .*they are never equal.*{write}|{write}"
    ):
        wait(condition, key)


@pytest.mark.parametrize(("condition", "key"), MAY, ids=map(str, range(len(MAY))))
def test_a_key_that_an_event_may_have_is_no_error(condition: Any, key: Any) -> None:
    wait(condition, key)


def test_a_fail_on_that_never_has_the_key_is_an_import_error() -> None:
    with pytest.raises(ConditionError, match="they are never equal"):
        wait(DS, "{{ ds }}", fail_on=LOGICAL)
    wait(DS, "{{ ds }}", fail_on=dag_run("b", by="ds"))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (day("{{ yesterday_ds }}", tz=BERLIN), "is given a day in UTC.*give the moment"),
        (day("{{ next_ds_nodash }}", tz=BERLIN), "is given a day in UTC.*give the moment"),
        (
            day("{{ data_interval_end.to_date_string() }}", tz=BERLIN),
            "fails in each run: .*a date has no time",
        ),
        (day("{{ data_interval_end.to_date_string() }}"), "fails in each run: .*a date has no time"),
        (week("{{ ts[:10] }}", tz=BERLIN), "fails in each run: .*a date has no time"),
        (day("{{ ts_nodash }}", tz=BERLIN), "fails in each run: .*not a time with a zone"),
        (hour("{{ ts[:19] }}", tz=BERLIN), "fails in each run: .*not a time with a zone"),
        (day("{{ logical_date.int_timestamp }}", tz=BERLIN), 'fails in each run: .*numbers need unit="s"'),
        (day("2026-11-20", tz=BERLIN), "it fails: .*a date has no time"),
    ],
)
def test_a_key_that_fails_in_each_run_is_an_import_error(key: str, message: str) -> None:
    """They parsed, and each run failed."""
    with pytest.raises(ConditionError, match=message):
        wait(ANY, key)
    with (
        DAG("d", schedule=CronTriggerTimetable("0 0 * * *", timezone=BERLIN)),
        pytest.raises(ConditionError, match=message),
    ):
        EventSensor.partial(task_id="wait", condition=ANY).expand(key=["a", key])


@pytest.mark.parametrize(
    "key",
    [
        day("{{ data_interval_end.to_date_string() }}", tz="UTC"),
        day("{{ logical_date.int_timestamp }}", tz=BERLIN, unit="s"),
        day("{{ dag_run.conf['at'] }}", tz=BERLIN),
    ],
)
def test_a_key_that_some_run_can_have_is_no_error(key: str) -> None:
    wait(ANY, key)


def test_a_day_without_a_zone_in_a_dag_with_a_fixed_offset_is_an_import_error() -> None:
    def fixed() -> DAG:
        return DAG(
            "d", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))
        )

    with pytest.raises(ConditionError, match="names no time zone: give tz="):
        wait(ANY, day("{{ ts }}"), fixed())
    wait(ANY, day("{{ ts }}", tz=BERLIN), fixed())
    EventSensor(task_id="alone", condition=ANY, key=day("{{ ts }}"))  # its DAG is not known yet


def test_filters_and_macros_of_the_dag_may_give_another_key() -> None:
    wait(OF_WEEK, "{{ logical_date | ds }}", DAG("d", schedule=None, user_defined_filters={"ds": str}))
    wait(OF_WEEK, "{{ ds }}", DAG("d", schedule=None, user_defined_macros={"ds": "2026-W47"}))
    other_signs = DAG("d", schedule=None, jinja_environment_kwargs={"variable_start_string": "<<"})
    wait(OF_WEEK, "{{ ds }}", other_signs)


@pytest.mark.parametrize(
    "make",
    [
        lambda condition: EventSensor(task_id="wait", condition=condition),
        lambda condition: dispatch_dag("d", condition=condition, trigger_dag_id="t"),
        lambda condition: ConditionTrigger("n", condition),
        lambda condition: EventSensor.partial(task_id="wait", condition=condition).expand(bus=["b"]),
    ],
    ids=["wait", "dispatch", "trigger", "mapped"],
)
def test_parts_that_never_have_the_same_key_are_an_import_error(make: Callable[[Any], object]) -> None:
    with pytest.raises(ConditionError, match="these keys are never equal"):
        make(DS & LOGICAL)


@pytest.mark.parametrize(
    ("condition", "given", "expected_text"),
    [
        (OF_DAY, "2026-11-20T00:00:00Z", "reads a day such as 2026-11-20: they are never equal"),
        (OF_DAY, "20.11.2026", "reads a day such as 2026-11-20: they are never equal"),
        (OF_MONTH, "2026-11-20", "reads a month such as 2026-11: they are never equal"),
        (
            OF_HOUR,
            "2026-11-20T05:30:00Z",
            "at which an hour begins in Europe/Berlin, such as 2026-11-20T05:00:00Z: they are never equal",
        ),
        (OF_KOLKATA, "2026-11-20T05:00:00Z", "in Asia/Kolkata, such as 2026-11-20T05:30:00Z"),
        (LOGICAL, "2026-11-20", "for exactly this time"),
        (LOGICAL & ANY, "today", "for exactly this time"),
    ],
)
def test_a_rendered_key_that_no_event_can_have_fails_the_task(
    condition: Any, given: str, expected_text: str
) -> None:
    """It was known only in the run; the task waited until its timeout."""
    dag = DAG("d", schedule=None)
    wait(condition, "{{ dag_run.conf['key'] }}", dag)
    with pytest.raises(ConditionError, match=f"the key .* was rendered to '{given}': .*{expected_text}"):
        wait_of(dag, "wait", logical_date="2026-11-20T00:00:00Z", conf={"key": given})


def test_a_rendered_key_that_an_event_may_have_is_waited_for() -> None:
    dag = DAG("d", schedule=None)
    wait(OF_DAY, "{{ dag_run.conf['key'] }}", dag)
    waiting = wait_of(dag, "wait", logical_date="2026-11-20T00:00:00Z", conf={"key": "20261120"})
    assert waiting.key == "2026-11-20"
