"""`EventSensor`: invalid arguments, its trigger, and what it returns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk.observability import stats
from interlock import Event, absent, dag_run, day, event, sequence
from interlock.conditions import AllOf, Condition, ConditionError
from interlock.engine.errors import UnreachableError
from interlock.engine.records import ActionRecord, FiringRecord, Registration
from interlock.operators import EventSensor
from interlock.operators import wait as module
from interlock.operators.wait import _identity
from interlock.testing import dag_run_end, wait_of
from interlock.triggers.payload import Payload

from tests.kit.state_store import StateStore, task_instance

SOLO = event("x")
PAIR = event("x", by="data.day") & event("y", by="data.day")
MIXED = event("x", by="data.day") & event("y")
DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def sensor(condition: Any = SOLO, **arguments: Any) -> EventSensor:
    return EventSensor(task_id="wait", condition=condition, **arguments)


def context(logical_date: datetime | None = DAY, run_after: datetime = DAY + 24 * HOUR) -> Any:
    return {
        "ti": task_instance(task_id="wait"),
        "dag_run": SimpleNamespace(logical_date=logical_date, run_after=run_after, clear_number=0),
        "task_state_store": StateStore(),
    }


def deferred(task: EventSensor, given: Any = None) -> dict[str, Any]:
    """Returns the kwargs of the trigger that the task defers to."""
    with pytest.raises(TaskDeferred) as raised:
        task.execute(given or context())
    assert raised.value.method_name == "execute_complete"
    assert raised.value.timeout is None
    kwargs: dict[str, Any] = raised.value.trigger.serialize()[1]
    return kwargs


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


# -- resumed

FORM = {"specversion": "1.0", "id": "1", "source": "/s", "type": "x", "data": {"rows": 3}}
OVER = Payload(outcome="timeout", registration_keys=("i:n",)).to_json()
AWAY = UnreachableError("the broker is away")


def payload(**changes: Any) -> dict[str, Any]:
    given = {"outcome": "met", "events": {"x": [FORM]}, "origins": {}, **changes}
    firing = FiringRecord(id="f", key="d", fired_at="t", **given)
    action = ActionRecord(subscription="s", incarnation="i", state="fired", firing=firing)
    return Payload.of_firing(action, ("i:n",)).to_json()


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(module, "acknowledge", lambda config, action, keys: calls.append((action, keys)))
    monkeypatch.setattr(module, "remove_registration", lambda config, keys: calls.append((None, keys)))
    return calls


@pytest.fixture(autouse=True)
def asked_why_not_met(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def why_not_met(config: Any, *arguments: Any) -> str:
        calls.append(arguments)
        return "y: nothing"

    monkeypatch.setattr("interlock.engine.admin.explaining.why_not_met", why_not_met)
    return calls


def test_a_firing_is_acknowledged_and_returned(acknowledged: list[Any]) -> None:
    result = sensor().execute_complete(context(), payload())
    assert result == {
        "version": 1,
        "firing_id": "f",
        "outcome": "met",
        "key": "d",
        "fired_at": "t",
        "events": {"x": [FORM]},
        "recorded": {"x": []},
        "missing": [],
    }
    [(action, keys)] = acknowledged
    assert (action.firing.id, keys) == ("f", ("i:n",))


def test_an_acknowledged_firing_is_counted_by_the_metrics_of_the_worker(
    acknowledged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(stats, "incr", lambda name, count=1, *, tags: counted.append((name, count, tags)))
    sensor().execute_complete(context(), payload())
    assert counted == [("interlock.acknowledged", 1, {"bus": "interlock", "deployment": "airflow"})]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, AirflowFailException),
        ({"on_expired": "skip"}, AirflowSkipException),
        ({"soft_fail": True}, AirflowSkipException),
        ({"on_expired": "succeed"}, None),
    ],
)
def test_when_the_condition_expires_the_task_follows_on_expired(
    acknowledged: list[Any], arguments: dict[str, Any], error: type[Exception] | None
) -> None:
    given = payload(outcome="expired", missing=["y"], timer_ms=7)
    task = sensor(PAIR.expires(after="2h"), key="d", **arguments)
    if error is None:
        result = task.execute_complete(context(), given)
        assert (result["outcome"], result["missing"]) == ("expired", ["y"])
    else:
        with pytest.raises(error, match="missing: y"):
            task.execute_complete(context(), given)
    assert len(acknowledged) == 1  # whatever the task did with its firing


def test_an_event_reduced_to_its_reference_is_returned_as_well(acknowledged: list[Any]) -> None:
    result = sensor().execute_complete(context(), payload(events={"x": [{"dataref": "kafka:t/0/1"}]}))
    assert result["events"] == {"x": [{"dataref": "kafka:t/0/1"}]}


ANY_ERROR = pytest.mark.parametrize(
    "error",
    [
        AWAY,
        AirflowNotFoundException("the conn_id 'kafka_default' isn't defined"),
        AirflowFailException("of a secrets backend"),
        RuntimeError("of the client"),
    ],
    ids=lambda error: type(error).__name__,
)


def raiser(error: BaseException) -> Any:
    def raises(*_: object) -> None:
        raise error

    return raises


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The task's log."""
    written: list[str] = []

    def write(level: str, text: str, *arguments: Any) -> None:
        written.append(f"{level}: {text % arguments}")

    log = {level: partial(write, level) for level in ("info", "warning", "error")}
    monkeypatch.setattr(EventSensor, "log", SimpleNamespace(**log))
    return written


@ANY_ERROR
@pytest.mark.parametrize("where", ["connection", "acknowledgement"])
def test_the_task_keeps_its_firing_whatever_the_acknowledgement_raises(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], error: Exception, where: str
) -> None:
    monkeypatch.setattr(stats, "incr", lambda *_, **__: pytest.fail("it is not acknowledged"))
    if where == "connection":
        monkeypatch.setattr(module.BaseHook, "get_connection", raiser(error))
    else:
        monkeypatch.setattr(module, "acknowledge", raiser(error))
    task = sensor(soft_fail=True)
    assert task.resume_execution("execute_complete", {"event": payload()}, context())["firing_id"] == "f"
    [warning] = [line for line in lines if line.startswith("warning: ")]
    assert "firing f could not be acknowledged" in warning
    assert str(error) in warning
    assert "retention removes the firing later" in warning


@ANY_ERROR
def test_the_task_times_out_whatever_its_clean_up_raises(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], error: Exception
) -> None:
    monkeypatch.setattr(module.BaseHook, "get_connection", raiser(error))
    with pytest.raises(AirflowSensorTimeout):
        sensor().resume_execution("execute_complete", {"event": OVER}, context())
    expected = f"The registration could not be removed. It expires by itself. {type(error).__name__}"
    assert f"warning: {expected}" in "\n".join(lines)


@pytest.mark.parametrize(
    ("soft_fail", "error", "message"),
    [(False, AirflowSensorTimeout, "was not met within 7 s"), (True, AirflowSkipException, "soft_fail")],
)
@pytest.mark.parametrize("away", [False, True])
def test_at_the_timeout_the_task_fails_or_is_skipped_and_its_registration_is_removed(
    monkeypatch: pytest.MonkeyPatch,
    acknowledged: list[Any],
    soft_fail: bool,
    error: type[Exception],
    message: str,
    away: bool,
) -> None:
    if away:
        monkeypatch.setattr(module, "remove_registration", raiser(AWAY))
    task = sensor(timeout=7, soft_fail=soft_fail)
    with pytest.raises(error, match=message):
        task.resume_execution("execute_complete", {"event": OVER}, context())
    assert acknowledged == ([] if away else [(None, ("i:n",))])


def test_the_registration_is_removed_before_the_worker_reads_events(
    monkeypatch: pytest.MonkeyPatch, acknowledged: list[Any]
) -> None:
    class Killed(BaseException):
        """Stands for the end of the process."""

    monkeypatch.setattr("interlock.engine.admin.explaining.why_not_met", raiser(Killed()))
    with pytest.raises(Killed):
        sensor(timeout=7).execute_complete(context(), OVER)
    assert acknowledged == [(None, ("i:n",))]


# -- fail_on

FAILED = event("z", by="data.day", label="z")


def failed_payload() -> dict[str, Any]:
    return payload(events={"fail_on: z": [FORM]})


def test_fail_on_is_registered_with_the_condition_under_its_expiry_and_key() -> None:
    kwargs = deferred(sensor(PAIR.expires(after="2h"), fail_on=FAILED, key="d"))
    registered = Condition.from_json(kwargs["condition"])
    assert registered == (event("z", by="data.day", label="fail_on: z") | PAIR).expires(after="2h")
    assert kwargs["key"] == "d"


@pytest.mark.parametrize(
    ("fail_on", "message"),
    [
        ("z", "fail_on is a str; give a condition"),
        (FAILED.expires(after="1h"), "applies to a whole condition"),
        (FAILED.ordered(), "applies to a whole condition"),
        (~FAILED, "~ needs a window"),
        (absent(FAILED, "1h", armed_by="subscription"), "is not possible here"),
        (event("z", by=("data.day", "subject")), "read keys of"),
    ],
    ids=str,
)
def test_a_fail_on_that_does_not_fit_the_condition_is_an_import_error(fail_on: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        sensor(PAIR, fail_on=fail_on, key="d")
    with pytest.raises(ConditionError, match="'fail_on: x': the prefix 'fail_on: ' is reserved"):
        sensor(event("x", label="fail_on: x"))


def test_fail_on_with_a_key_of_its_own_needs_one_given() -> None:
    with pytest.raises(ConditionError, match="reads no key, but"):
        sensor(PAIR, fail_on=event("z"))
    deferred(sensor(PAIR, fail_on=event("z"), key="d"))


def test_a_wait_whose_fail_on_was_met_fails_without_a_retry_and_names_the_event(
    acknowledged: list[Any],
) -> None:
    with pytest.raises(AirflowFailException, match="was met by x from /s, id 1"):
        sensor(PAIR, fail_on=FAILED, key="d").execute_complete(context(), failed_payload())
    assert len(acknowledged) == 1


def test_a_wait_that_fails_says_the_spark_error_and_the_airflow_task(
    acknowledged: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Reference: a fail_on failure showed a hash instead of the Spark error and the Airflow task."""
    data = {
        "error": {"class": "ValueError", "message": "no rows\n\x1b[2K for 2026-11-20"},
        "airflow": {"dag_id": "ingest", "task_id": "orders", "run_id": "manual__1", "try_number": 2},
    }
    given = payload(events={"fail_on: z": [{**FORM, "data": data}]})
    with pytest.raises(AirflowFailException) as caught:
        sensor(PAIR, fail_on=FAILED, key="d").execute_complete(context(), given)
    assert str(caught.value) == (
        "fail_on was met by x from /s, id 1 (ValueError: no rows\\n\\x1b[2K for 2026-11-20;"
        " Airflow task ingest.orders, run manual__1, try 2)."
    )


def test_a_wait_whose_fail_on_was_met_is_skipped_with_soft_fail(acknowledged: list[Any]) -> None:
    task = sensor(PAIR, fail_on=FAILED, key="d", soft_fail=True)
    with pytest.raises(AirflowSkipException):
        task.resume_execution("execute_complete", {"event": failed_payload()}, context())


def test_a_firing_of_fail_on_fails_its_task_even_if_the_dag_has_no_fail_on_any_more(
    acknowledged: list[Any],
) -> None:
    with pytest.raises(AirflowFailException):
        sensor(PAIR, key="d").execute_complete(context(), failed_payload())


def test_an_expiry_does_not_mention_fail_on(acknowledged: list[Any], asked_why_not_met: list[Any]) -> None:
    origins = {"x": [{"timestamp_ms": 0}], "fail_on: a": [{"timestamp_ms": 0}]}
    events = {"x": [FORM], "fail_on: a": [FORM]}
    missing = ["fail_on: b", "y"]
    given = payload(outcome="expired", events=events, origins=origins, missing=missing, timer_ms=7)
    task = sensor(PAIR.expires(after="2h"), fail_on=FAILED, key="d", on_expired="succeed")
    result = task.execute_complete(context(), given)
    assert (list(result["events"]), result["missing"]) == (["x"], ["y"])
    [(condition, key, since_ms, until_ms)] = asked_why_not_met
    assert (condition, key, until_ms) == (PAIR.expires(after="2h"), "d", 7)
    assert since_ms == int((DAY - 24 * HOUR).timestamp() * 1000)


def test_events_that_do_not_fit_into_the_firing_are_counted(acknowledged: list[Any]) -> None:
    forms = [{**FORM, "id": str(n)} for n in range(1000)]
    origins = [{"topic": "b-event", "partition": 3, "offset": n, "timestamp_ms": n} for n in range(1000)]
    given = payload(events={"x": forms}, origins={"x": origins})
    result = sensor().execute_complete(context(), given)
    assert len(json.dumps(result)) <= 48 * 1024
    assert len(result["events"]["x"]) + result["left_out"]["x"] == 1000
    assert result["events"]["x"][0]["dataref"] == "kafka:b-event/3/0"


# -- timeout


def timeout_of(task: EventSensor, given: Any) -> datetime:
    return datetime.fromisoformat(deferred(task, given)["timeout_at"])


def test_with_a_failing_state_store_the_timeout_starts_at_this_try() -> None:
    given = context()
    given["task_state_store"] = None
    before = datetime.now(UTC)
    assert timeout_of(sensor(timeout=60), given) >= before + timedelta(seconds=60)
    assert deferred(sensor(timeout=60), given)["instance"] is None


@pytest.mark.parametrize("way", ["soft_fail", "never_fail"])
def test_never_fail_skips_a_resumed_wait_that_would_fail(way: str, acknowledged: list[Any]) -> None:
    task = sensor(**{way: True})
    with pytest.raises(AirflowSkipException):
        task.resume_execution("execute_complete", {"event": OVER}, context())


@pytest.mark.parametrize("away", [False, True])
def test_at_its_end_the_log_has_near_misses_or_why_they_are_unknown(
    acknowledged: list[Any], monkeypatch: pytest.MonkeyPatch, away: bool, lines: list[str]
) -> None:
    if away:
        monkeypatch.setattr("interlock.engine.admin.explaining.why_not_met", raiser(AWAY))
    with pytest.raises(AirflowSensorTimeout):
        sensor(PAIR, key="d", timeout=7).execute_complete(context(), OVER)
    failed = "The search for events that nearly matched failed: the broker is away"
    assert (failed if away else "info: y: nothing") in "\n".join(lines)


def test_the_log_says_of_a_tombstone_that_it_is_one_and_forges_no_line() -> None:
    """A null value on a listed topic met a plain matcher, and its author got no hint (compacted topics)."""
    form = {"type": "org.apache.kafka.record", "source": "orders", "id": "0/7", "subject": "a\u202eb"}
    assert _identity(form) == "org.apache.kafka.record from orders, id 0/7, a tombstone, which has no data"
    assert "tombstone" not in _identity({**form, "datacontenttype": "application/json"})
    assert _identity({"type": "t", "source": "/s\u202e\u2028", "id": "1"}) == r"t from /s\u202e\u2028, id 1"
