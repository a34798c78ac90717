"""Completion events of DAG runs and tasks: the same from every emitter, and valid by their schema."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from interlock import Condition, Event, dag_run, task_instance
from interlock.conditions import rehearse
from interlock.events import schemas
from interlock.events.completions import DagRun, DagRunCompletion, TaskInstanceCompletion
from interlock.events.schemas import data_schema, urn
from interlock.events.taxonomy import (
    EMITTED,
    SPARK_APPLICATION_STARTED,
    SPARK_QUERY_TYPES,
    SPARK_STREAMING_QUERY_TYPES,
)

NIGHT = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
RUN = DagRun(
    deployment="fin ance",
    dag_id="daily",
    run_id="scheduled__2026-11-20",
    run_type="scheduled",
    run_after=NIGHT,
    logical_date=NIGHT,
    data_interval_start=NIGHT,
    data_interval_end=NIGHT + timedelta(days=1),
    partition_key="eu",
    clear_number=2,
)
RUN_END = DagRunCompletion(
    run=RUN, state="success", started_at=NIGHT, ended_at=NIGHT + timedelta(seconds=1.5)
)
TASK_END = TaskInstanceCompletion(
    run=RUN, task_id="load.rows", map_index=-1, try_number=2, max_tries=3, state="failed", started_at=NIGHT,
    ended_at=None,
)  # fmt: skip
DATELESS = replace(
    RUN, logical_date=None, data_interval_start=None, data_interval_end=None, partition_key=None
)


def spark_event(outcome: str) -> Event:
    from interlock.spark.completion.application import Application

    application = Application(
        id="app-1", name="etl", user="spark", attempt=None, session=None, started_at=NIGHT, spark_version="4"
    )
    data: dict[str, Any] = {"date": "2026-11-20", "application": application.to_data(NIGHT)}
    data["airflow"] = {"dag_id": "daily", "run_id": "r", "task_id": "t", "try_number": 1, "map_index": -1}
    if outcome == "failed":
        data["error"] = {"class": "ValueError", "message": "no"}
    return Event.of(f"interlock.spark.application.{outcome}", "/spark/etl", subject="orders", data=data)


EVENTS = [
    RUN_END.event(),
    replace(RUN_END, state="failed", run=DATELESS).event(),
    TASK_END.event(),
    replace(TASK_END, state="success", map_index=4, run=DATELESS).event(),
    replace(TASK_END, state="skipped", try_number=0, started_at=None).event(),
    spark_event("succeeded"),
    spark_event("failed"),
]


def test_the_event_of_a_dag_run_has_all_that_matchers_read() -> None:
    event = RUN_END.event()
    assert event.type == "interlock.airflow.dag_run.succeeded"
    assert (event.source, event.subject) == ("/fin%20ance/daily", "daily")
    assert (event.attributes["ds"], event.attributes["time"]) == ("2026-11-20", "2026-11-20T23:30:01.500000Z")
    assert event.payload == {
        "deployment": "fin ance",
        "dag_id": "daily",
        "run_id": "scheduled__2026-11-20",
        "run_type": "scheduled",
        "logical_date": "2026-11-20T23:30:00Z",
        "ds": "2026-11-20",
        "data_interval_start": "2026-11-20T23:30:00Z",
        "data_interval_end": "2026-11-21T23:30:00Z",
        "run_after": "2026-11-20T23:30:00Z",
        "partition_key": "eu",
        "clear_number": 2,
        "state": "success",
        "started_at": "2026-11-20T23:30:00Z",
        "ended_at": "2026-11-20T23:30:01.500000Z",
    }


def test_the_event_of_a_task_instance_names_task_and_map_index() -> None:
    event = TASK_END.event()
    assert event.type == "interlock.airflow.task_instance.failed"
    assert (event.source, event.subject) == ("/fin%20ance/daily/load.rows", "daily/load.rows")
    assert event.time is None
    payload: Any = event.payload
    assert (payload["task_id"], payload["map_index"], payload["try_number"]) == ("load.rows", -1, 2)
    assert payload["logical_date"] == "2026-11-20T23:30:00Z"


def test_a_run_without_a_logical_date_has_no_day() -> None:
    event = replace(RUN_END, run=DATELESS).event()
    payload: Any = event.payload
    assert payload["logical_date"] is payload["ds"] is None
    assert "ds" not in event.attributes


def test_the_day_is_that_of_utc_as_airflows_ds() -> None:
    east = replace(RUN, logical_date=datetime(2026, 11, 21, 0, 30, tzinfo=timezone(timedelta(hours=1))))
    assert (east.day, east.to_data()["logical_date"]) == ("2026-11-20", "2026-11-20T23:30:00Z")


def test_emitter_and_time_do_not_change_the_id() -> None:
    assert replace(RUN_END, ended_at=None, started_at=None).id == RUN_END.id
    assert replace(TASK_END, ended_at=NIGHT, try_number=3).id == TASK_END.id


def test_each_distinguishing_member_is_in_the_id() -> None:
    different = [
        RUN_END,
        replace(RUN_END, state="failed"),
        *(
            replace(RUN_END, run=replace(RUN, **{name: value}))
            for name, value in (("deployment", "x"), ("dag_id", "x"), ("run_id", "x"), ("clear_number", 3))
        ),
        TASK_END,
        replace(TASK_END, state="success"),
        replace(TASK_END, task_id="x"),
        replace(TASK_END, map_index=0),
        replace(TASK_END, max_tries=5),
        replace(TASK_END, run=replace(RUN, run_id="x")),
    ]
    assert len({end.id for end in different}) == len(different)


def test_a_clear_of_another_task_of_the_run_does_not_change_a_tasks_event() -> None:
    assert replace(TASK_END, run=replace(RUN, clear_number=9)).event() == TASK_END.event()


def fired(ends: list[Event], condition: Condition) -> list[list[str]]:
    """Returns the event ids of each firing of a dispatch; a wait would have only the first."""
    found = rehearse(condition, [(event, NIGHT + timedelta(seconds=n)) for n, event in enumerate(ends)])
    return [[part.match.event.id for part in firing.taking_part] for firing in found]


def test_a_repeated_event_fires_once_and_one_after_a_clear_fires_again() -> None:
    condition = dag_run("daily")
    cleared = replace(RUN_END, run=replace(RUN, clear_number=3))
    ends = [RUN_END.event(), RUN_END.event(), cleared.event(), cleared.event(), RUN_END.event()]
    assert fired(ends, condition) == [[RUN_END.id], [cleared.id]]


def test_a_retry_of_a_task_fires_once_and_a_clear_fires_again() -> None:
    condition = task_instance("daily", "load.rows", state="failed")
    tries = [replace(TASK_END, try_number=n, max_tries=m) for n, m in ((1, 1), (2, 1), (3, 3))]
    assert fired([end.event() for end in tries], condition) == [[tries[0].id], [tries[2].id]]


def test_ids_stay_as_they_were_published() -> None:
    """A listener and a reconcile of different versions must agree."""
    assert RUN_END.id == "fe7a878a4941084800fae765847091bb"
    assert TASK_END.id == "0fd0475fad3166892de7241fc84738f9"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_the_data_are_what_their_schema_says(event: Event) -> None:
    schema = data_schema(event.type)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(event.payload, schema, jsonschema.Draft202012Validator)
    if "dataschema" in event.attributes:
        assert event.attributes["dataschema"] == schema["$id"]
        assert isinstance(event.payload, dict)
        assert set(schema["required"]) == set(schema["properties"]) == set(event.payload)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_a_schema_refuses_data_that_lack_a_member(event: Event) -> None:
    schema, payload = data_schema(event.type), event.payload
    assert isinstance(payload, dict)
    for name in schema["required"]:
        less = {key: value for key, value in payload.items() if key != name}
        with pytest.raises(jsonschema.ValidationError, match=f"'{name}' is a required property"):
            jsonschema.validate(less, schema)


def test_every_type_that_interlock_emits_has_a_schema_and_every_schema_a_type() -> None:
    running = {SPARK_APPLICATION_STARTED, *SPARK_QUERY_TYPES.values(), *SPARK_STREAMING_QUERY_TYPES.values()}
    assert {event.type for event in EVENTS} == set(EMITTED) - running  # tested in tests/unit/spark
    ids = {data_schema(each)["$id"] for each in EMITTED}
    kept = {urn(path.stem) for path in Path(schemas.__file__).parent.glob("*.json")}
    assert ids == kept
