"""`EventSensor`: invalid arguments, and the trigger to which it defers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk import DAG
from interlock import Event, absent, dag_run, day, event, sequence
from interlock.conditions import AllOf, Condition, ConditionError
from interlock.engine.records import Registration
from interlock.testing import dag_run_end, wait_of

from tests.unit.operators.waiting import DAY, HOUR, PAIR, SOLO, context, deferred, sensor

MIXED = event("x", by="data.day") & event("y")


# -- invalid arguments


@pytest.mark.parametrize(
    "condition",
    [
        PAIR.expires(after="2h"),
        SOLO.quiet("5m"),
        absent(SOLO, "10m"),
        (SOLO & ~event("y")).within("1h"),
        sequence(SOLO, event("y")),
        (SOLO | event("y")).ordered(),
    ],
    ids=str,
)
def test_a_condition_with_timers_can_be_waited_for(condition: Condition) -> None:
    key = {"key": "d"} if condition.keyed else {}
    assert deferred(sensor(condition, **key))["condition"] == condition.to_json()


def test_a_key_may_be_another_tasks_output_or_any_value_with_a_canonical_form() -> None:
    with DAG("d", schedule=None):
        from airflow.sdk import task

        @task
        def day() -> str:
            return "20261120"

        waits = sensor(PAIR, key=day())
    assert waits.upstream_task_ids == {"day"}
    for rendered in ("20261120", 20261120, date(2026, 11, 20)):
        waits = sensor(PAIR, key=rendered)
        assert deferred(waits)["key"] == "2026-11-20"
    waits.key = ["2026-11-20", "eur"]
    with pytest.raises(ConditionError, match="for each path"):
        waits.execute(context())


def test_a_composite_key_is_a_list_with_a_value_for_each_path() -> None:
    condition = event("x", by=("data.day", "subject"))
    kwargs = deferred(sensor(condition, key=["20261120", "eur"]))
    assert kwargs["key"] == '["2026-11-20","eur"]'
    for key in ("2026-11-20", ["2026-11-20"], ["2026-11-20", "eur", "x"]):
        with pytest.raises(ConditionError, match="for each path"):
            sensor(condition, key=key)
    task = sensor(condition, key=["{{ ds }}", "eur"])
    task.key = ["2026-11-20", None]
    with pytest.raises(ConditionError, match=r"rendered to \['2026-11-20', None\]"):
        task.execute(context())


@pytest.mark.parametrize("condition", [None, "x", lambda event: True, [SOLO], {"v": 1}])
def test_something_else_than_a_condition_is_an_error_that_names_the_task(condition: Any) -> None:
    with pytest.raises(ConditionError, match=r"'wait'.*interlock\.event\(\)"):
        sensor(condition)


def test_a_condition_that_json_does_not_preserve_is_an_error() -> None:
    class Special(AllOf):
        def to_json(self) -> dict[str, object]:
            return SOLO.to_json()

    with pytest.raises(ConditionError, match=r"'wait'.*changes when it is written as JSON"):
        sensor(Special(SOLO, event("y")))


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"key": "d"}, ConditionError, "a key is given"),
        ({"condition": MIXED}, ConditionError, "reads no key, but"),
        ({"key": None}, ConditionError, "key is .*None is not a key"),
        ({"condition": PAIR, "key": None}, ConditionError, "key is .*None is not a key"),
        ({"condition": PAIR, "key": ["a", None]}, ConditionError, "key is .*None is not a key"),
        ({"deferrable": False}, ValueError, "deferrable=False is not supported"),
        ({"since": datetime(2026, 11, 20)}, ValueError, "no time zone"),  # noqa: DTZ001
        ({"lookback": 24}, ValueError, "lookback is .*give a timedelta"),
        ({"lookback": "24h"}, ValueError, "lookback is .*give a timedelta"),
        ({"lookback": -HOUR}, ValueError, "lookback is .*give a timedelta"),
        ({"since": DAY, "lookback": HOUR}, ValueError, "since and lookback both set the earliest"),
        ({"on_expired": "retry"}, ValueError, "'fail', 'skip', 'succeed'"),
    ],
)
def test_invalid_arguments_are_import_errors_that_name_the_task(
    arguments: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=f"'wait'.*{sentence}"):
        sensor(**arguments)


@pytest.mark.parametrize("rendered", [None, "", "None"])
@pytest.mark.parametrize("condition", [PAIR, MIXED])
def test_a_key_that_renders_to_nothing_fails_its_task_and_names_the_template(
    condition: Any, rendered: Any
) -> None:
    task = sensor(condition, key="{{ params.day }}")
    task.key = rendered
    with pytest.raises(ConditionError, match=r"the key '\{\{ params.day \}\}' was rendered to"):
        task.execute(context())


BLANKS = ["\n{{ ds }}\n\n", "{{ ds }} ", "{{ 'eu' }}\t", ["eu", " {{ ts }}"]]


@pytest.mark.parametrize("key", BLANKS)
def test_a_key_with_white_space_around_it_fails_the_task(key: Any) -> None:
    """The kind of apache/airflow#28280: it waited until its timeout, for a key that no event has."""
    keyed = event("x", by="data.d") if isinstance(key, str) else event("x", by=["data.r", "data.d"])
    with DAG("d", schedule="@daily") as dag:
        sensor(keyed, key=key)
    with pytest.raises(ConditionError, match=r"was rendered to .*: white space around a key is part of it"):
        wait_of(dag, "wait", logical_date=DAY)


@pytest.mark.parametrize("key", ["2026-11-20 ", " 2026-W47", "eu\n", ["eu", "2026-11-20T00:00:00Z "]])
def test_a_fixed_key_with_white_space_around_it_is_an_import_error(key: Any) -> None:
    keyed = event("x", by="data.d") if isinstance(key, str) else event("x", by=["data.r", "data.d"])
    with pytest.raises(ConditionError, match=r"'wait': key is .*: white space around a key is part of it"):
        sensor(keyed, key=key)


def test_a_key_of_a_fixed_width_is_waited_for() -> None:
    assert deferred(sensor(event("x", by="data.d"), key="EUR  "))["key"] == "EUR  "


def test_a_part_of_a_key_that_renders_to_nothing_fails_its_task() -> None:
    task = sensor(event("x", by=("data.day", "subject")), key=["{{ params.day }}", "eur"])
    task.key = ["None", "eur"]
    with pytest.raises(ConditionError, match=r"rendered to \['None', 'eur'\]: this run has no such value"):
        task.execute(context())


def test_the_text_none_is_an_ordinary_key() -> None:
    assert deferred(sensor(PAIR, key="None"))["key"] == "None"


# -- deferring


def test_it_defers_to_a_trigger_with_its_arguments_and_no_secret() -> None:
    before = datetime.now(UTC)
    kwargs = deferred(sensor(PAIR, key="20261120", timeout=60, bus="b", kafka_conn_id="mine"))
    assert kwargs["subscription"] == "airflow/dag/run/wait"
    assert kwargs["condition"] == PAIR.to_json()
    assert kwargs["key"] == "2026-11-20"
    assert (kwargs["kafka_conn_id"], kwargs["bus"], kwargs["deployment"]) == ("mine", "b", "airflow")
    late = datetime.fromisoformat(kwargs["timeout_at"]) - before
    assert timedelta(seconds=60) <= late < timedelta(seconds=90)
    assert "x:1" not in str(kwargs)


@pytest.mark.parametrize(
    ("logical_date", "run_after", "key", "expected"),
    [
        (DAY, DAY + 24 * HOUR, "d", DAY - 24 * HOUR),
        (DAY, DAY - HOUR, "d", DAY - 25 * HOUR),
        (None, DAY, "d", DAY - 24 * HOUR),
        (DAY, DAY + 24 * HOUR, None, DAY + 24 * HOUR),
        (None, DAY, None, DAY),
    ],
    ids=["scheduled", "logical date ahead", "manual", "scheduled, no key", "manual, no key"],
)
def test_the_default_since(
    logical_date: datetime | None, run_after: datetime, key: str | None, expected: datetime
) -> None:
    given = {} if key is None else {"key": key}
    kwargs = deferred(sensor(PAIR, **given), context(logical_date, run_after))
    assert kwargs["since_ms"] == int(expected.timestamp() * 1000)


@pytest.mark.parametrize(
    ("arguments", "earlier"),
    [
        ({"condition": dag_run("a", offset=timedelta(days=7))}, timedelta(days=7)),
        ({"condition": dag_run("a", offset=timedelta(days=-7))}, timedelta(0)),
        ({"condition": dag_run("a", by="ds") & dag_run("b", by="ds", offset="3d")}, timedelta(days=3)),
        ({"condition": dag_run("a", dates={"2026-11-23": "2026-11-20", "2026-11-24": "2026-11-23"})},
         timedelta(days=3)),
        ({"condition": PAIR, "fail_on": event("z", by="data.day + 2d")}, timedelta(days=2)),
    ],
    ids=["offset", "negative", "one of two", "dates", "fail_on"],
)  # fmt: skip
def test_a_wait_looks_back_by_its_largest_offset(arguments: dict[str, Any], earlier: timedelta) -> None:
    since = DAY - 24 * HOUR - earlier
    by_time = "logical_date" in str(arguments["condition"])
    waiting = sensor(**arguments, key="{{ params.key }}")
    waiting.key = "2026-11-20T00:00:00Z" if by_time else "2026-11-20"  # as Airflow renders it in place
    assert deferred(waiting)["since_ms"] == int(since.timestamp() * 1000)


@pytest.mark.parametrize(
    ("key", "shown", "canonical"),
    [
        ("{{ dag_run.conf['customer'] }}", "19991231", "1999-12-31"),
        (19991231, "19991231", "1999-12-31"),
        ("{{ ts }}", "2026-11-20T00:00:00+00:00", "2026-11-20T00:00:00Z"),
        ("{{ ds }}", "2026-11-20", None),
        (day("{{ ts }}", tz="UTC"), "2026-11-20", None),
    ],
)
def test_a_task_returns_its_key_as_it_is_written(key: Any, shown: str, canonical: str | None) -> None:
    """K17: customer number 19991231 came out as the last day of 1999."""
    with DAG("d", schedule="@daily") as dag:
        sensor(event("x", by="data.k"), key=key)
    wait = wait_of(dag, "wait", logical_date=DAY, conf={"customer": "19991231"})
    assert wait.key == (canonical or shown)
    result = wait.given([Event.of("x", "/s", time=DAY + HOUR, data={"k": wait.key})])
    assert result.output is not None
    assert (result.output["key"], result.output.get("canonical_key")) == (shown, canonical)


def test_a_run_before_the_weekend_counts_for_mondays_wait() -> None:
    """It ended on Friday, three days before the day of the wait."""
    weekdays = dag_run("ledger", dates={"2026-11-23": "2026-11-20", "2026-11-24": "2026-11-23"})
    with DAG("d", schedule="@daily") as dag:
        sensor(weekdays, key="{{ ds }}")
    friday = dag_run_end("ledger", at="2026-11-20T06:30:00Z", logical_date="2026-11-20T00:00:00Z")
    wait = wait_of(dag, "wait", logical_date=datetime(2026, 11, 23, tzinfo=UTC))
    assert wait.given([friday]).state == "success"


def test_lookback_overrides_the_setting() -> None:
    long = timedelta(days=9)
    keyed = deferred(sensor(PAIR, key="d", lookback=long))
    unkeyed = deferred(sensor(PAIR, lookback=long), context(run_after=DAY))
    assert keyed["since_ms"] == unkeyed["since_ms"] == int((DAY - long).timestamp() * 1000)
    assert deferred(sensor(PAIR, key="d", lookback=0 * HOUR))["since_ms"] == int(DAY.timestamp() * 1000)


def test_the_look_back_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LOOKBACK_HOURS", "0")
    assert deferred(sensor(PAIR, key="d"))["since_ms"] == int(DAY.timestamp() * 1000)


def test_a_given_since_does_not_depend_on_the_run() -> None:
    since = datetime(2026, 1, 1, 1, tzinfo=timezone(HOUR))
    assert deferred(sensor(PAIR, key="d", since=since))["since_ms"] == int(since.timestamp() * 1000)


def test_every_try_registers_the_same_incarnation() -> None:
    def incarnation() -> str:
        kwargs = deferred(sensor(PAIR, key="d"))
        return Registration.of(kwargs["subscription"], PAIR, kwargs["key"], kwargs["since_ms"]).incarnation

    assert incarnation() == incarnation()


def test_a_look_back_beyond_the_calendar_counts_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dispatcher may give a run any logical date; the task ended in an OverflowError."""
    keyed = event("x", by="data.d")
    assert deferred(sensor(keyed, key="a"), context(datetime(1, 1, 1, tzinfo=UTC)))["since_ms"] == 0
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LOOKBACK_HOURS", str(24 * 365 * 2700))
    assert deferred(sensor(keyed, key="a"))["since_ms"] == 0
