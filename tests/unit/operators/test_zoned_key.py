"""Keys that are a day, hour, week or month of a time zone in the arguments of tasks (K31, K34, K38)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable, MultipleCronTriggerTimetable
from airflow.serialization.serialized_objects import DagSerialization
from interlock import day, event, hour, month, week
from interlock.conditions import ConditionError
from interlock.operators import EmitEventOperator, EventSensor, dispatch_dag
from interlock.operators.time_zone import zone_of
from interlock.testing import wait_of

DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAIR = event("x", by="data.day") & event("y", by="data.day")


def sensor(condition: Any, **arguments: Any) -> EventSensor:
    return EventSensor(task_id="wait", condition=condition, **arguments)


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("by", "key", "earlier"),
    [
        (day("data.d", tz=BERLIN), day("{{ ts }}", tz=BERLIN), timedelta(hours=27)),
        (day("data.d", tz=BERLIN, offset=3), "2026-11-20", timedelta(days=3, hours=27)),
        (week("data.d", tz=BERLIN), week("{{ ts }}", tz=BERLIN, offset=-1), timedelta(days=14, hours=3)),
        (month("data.d", tz=BERLIN), month("{{ ts }}", tz=BERLIN, offset=1), timedelta(days=31, hours=3)),
        ([hour("data.d", tz=BERLIN), "subject"], [hour("{{ ts }}", tz=BERLIN), "eu"], timedelta(hours=2)),
    ],
)
def test_a_wait_for_a_period_looks_back_to_its_beginning(by: Any, key: Any, earlier: timedelta) -> None:
    """Six days of a week's runs end before the run of its last day begins."""
    with DAG("d", schedule="@daily") as dag:
        sensor(event("x", by=by), key=key)
    assert wait_of(dag, "wait", logical_date=DAY).since == DAY - 24 * HOUR - earlier


@pytest.mark.parametrize(
    ("key", "computed"),
    [
        (day("{{ ts }}", tz=BERLIN), "2026-11-20"),
        (day("{{ ts }}"), "2026-11-20"),
        (day("{{ logical_date }}", offset=-1), "2026-11-19"),
        (day("{{ ts_nodash_with_tz }}"), "2026-11-20"),
        (day("{{ ts }}", tz="UTC"), "2026-11-19"),
        (week("{{ ts }}"), "2026-W47"),
        (month("{{ dag_run.run_after }}"), "2026-11"),
        (hour("{{ ts }}"), "2026-11-19T23:00:00Z"),
    ],
)
def test_a_key_is_the_day_of_the_run_in_a_time_zone(key: str, computed: str) -> None:
    """K31, K38: a run at midnight in Berlin; without tz= the zone is that of the DAG's timetable."""
    with DAG("d", schedule=CronTriggerTimetable("0 0 * * *", timezone=BERLIN)) as dag:
        sensor(event("x", by=day("data.d")) | event("y", by="data.d"), key=key)
    wait = wait_of(dag, "wait", logical_date="2026-11-19T23:00:00Z")
    whole = event("x", by=day("data.d", tz=BERLIN)) | event("y", by="data.d")
    assert (wait.key, wait.whole) == (computed, whole)
    msgspec.msgpack.encode(DagSerialization.to_dict(dag))  # as the DAG processor sends it


MIDNIGHT = CronTriggerTimetable("0 0 * * *", timezone=BERLIN)


@pytest.mark.parametrize(
    "schedule",
    [
        MultipleCronTriggerTimetable("0 0 * * *", "0 6 * * *", timezone=BERLIN),
        AssetOrTimeSchedule(timetable=MIDNIGHT, assets=[Asset("rates")]),
        AssetOrTimeSchedule(
            timetable=MultipleCronTriggerTimetable("0 0 * * *", timezone=BERLIN), assets=[Asset("rates")]
        ),
    ],
    ids=["several crons", "assets or a cron", "assets or several crons"],
)
def test_the_zone_is_that_of_the_timetables_in_a_timetable(schedule: Any) -> None:
    """K38: such a timetable has no zone itself, and the DAG's own is UTC."""
    with DAG("d", schedule=schedule) as dag:
        sensor(event("x", by=day("data.d")), key=day("{{ ts }}"))
    wait = wait_of(dag, "wait", logical_date="2026-11-19T23:00:00Z")
    assert (wait.key, wait.whole) == ("2026-11-20", event("x", by=day("data.d", tz=BERLIN)))
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert zone_of(read) == BERLIN


@pytest.mark.parametrize(
    "key",
    [
        day("{{ ds }}"),
        day("{{ds}}", tz=BERLIN),
        week("{{ macros.ds_add(ds, -7) }}", tz=BERLIN),
        ["a", day("{{ run_after | ds }}")],
    ],
)
def test_a_day_in_utc_is_no_key_of_a_time_zone(key: Any) -> None:
    """K34: an import error of the DAG file."""
    parts = key if isinstance(key, list) else [key]
    by = ["subject", "data.d"][-len(parts) :] if len(parts) > 1 else "data.d"
    with pytest.raises(ConditionError, match=r"is given a day in UTC.*give the moment"):
        sensor(event("x", by=by), key=key)


def test_a_key_of_a_time_zone_that_nobody_names_is_an_error() -> None:
    """K38: a DAG whose zone is only an offset has none to give."""
    with pytest.raises(ConditionError, match="names no time zone"):
        sensor(event("x", by=day("data.d")), key="d")
    with (
        DAG("d", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone(HOUR))),
        pytest.raises(ConditionError, match="names no time zone"),
    ):
        sensor(event("x", by="data.d"), key=day("{{ ts }}"))


def test_a_mapped_wait_takes_the_zone_of_its_dag_too() -> None:
    with DAG("d", schedule=CronTriggerTimetable("0 0 * * *", timezone=BERLIN)) as dag:
        waits = EventSensor.partial(task_id="wait", condition=event("x", by=day("data.d")))
        waits.expand(key=[day("{{ ts }}"), day("{{ ts }}", offset=-1)])
    msgspec.msgpack.encode(DagSerialization.to_dict(dag))
    wait = wait_of(dag, "wait", logical_date="2026-11-19T23:00:00Z", map_index=1)
    assert (wait.key, wait.condition) == ("2026-11-19", event("x", by=day("data.d", tz=BERLIN)))


def test_a_key_of_a_time_zone_in_the_default_arguments_of_a_dag_is_a_key() -> None:
    with DAG("d", schedule=None, default_args={"key": day("{{ ts }}", tz=BERLIN)}) as dag:
        EventSensor(task_id="wait", condition=event("x", by=day("data.d", tz=BERLIN)))
    msgspec.msgpack.encode(DagSerialization.to_dict(dag))
    assert wait_of(dag, "wait", logical_date="2026-11-19T23:00:00Z").key == "2026-11-20"


@pytest.mark.parametrize(
    "make",
    [
        lambda text: EmitEventOperator(task_id="emit", type="x", data={"day": text}),
        lambda text: EmitEventOperator(task_id="emit", type="x", subject=text),
        lambda text: dispatch_dag("d", condition=PAIR, trigger_dag_id="t", conf={"day": text}),
    ],
    ids=["data", "subject", "conf"],
)
def test_a_key_of_a_time_zone_elsewhere_is_an_import_error_that_says_what_to_write(
    make: Callable[[str], object],
) -> None:
    """Its text would be emitted, or handed to a run, as it is."""
    with pytest.raises(ValueError, match=r"in_timezone\('Europe/Berlin'\) \| ds"):
        make(day("{{ ts }}", tz=BERLIN))


@pytest.mark.parametrize(
    "waits",
    [
        lambda: sensor(event("x", by=["subject", day("data.d")]), key=["a", day("{{ ts }}")]),
        lambda: EventSensor.partial(task_id="wait", key=day("{{ ts }}")).expand(
            condition=[event("x", by=day("data.d"))]
        ),
        lambda: EventSensor.partial(task_id="wait", condition=event("x", by=day("data.d"))).expand_kwargs(
            [{"key": day("{{ ts }}")}]
        ),
    ],
    ids=["a composite key", "partial", "expand_kwargs"],
)
def test_the_dag_processor_can_send_a_dag_with_a_key_of_a_time_zone(waits: Callable[[], object]) -> None:
    """It encodes a DAG as msgpack by msgspec, which refuses subclasses of str: the file would vanish."""
    with DAG("d", schedule=CronTriggerTimetable("0 0 * * *", timezone=BERLIN)) as dag:
        waits()
    msgspec.msgpack.encode(DagSerialization.to_dict(dag))
