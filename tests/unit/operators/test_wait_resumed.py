"""`EventSensor` after its trigger: what it returns, `fail_on`, expiry and timeout."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow.sdk.observability import stats
from airflow.sdk.serde import deserialize, serialize
from interlock import Event, absent, event, fetch
from interlock.conditions import Condition, ConditionError
from interlock.engine.errors import UnreachableError
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.engine.records.sizes import MAX_FIRING_BYTES
from interlock.operators import EventSensor
from interlock.operators import wait as module
from interlock.operators.wait import _identity
from interlock.triggers.payload import Payload

from tests.unit.operators.waiting import DAY, HOUR, PAIR, context, deferred, sensor

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


@pytest.mark.parametrize(
    "data",
    [
        {"__classname__": "pathlib.Path", "__version__": 1, "__data__": "/x"},
        {"rows": [{"__id__": 7}]},
        {"__type": "dict", "__var": {"rows": 3}},
        [{"a": {"__type": "no.such.Class", "__var": 1}}],
    ],
)
def test_an_event_whose_data_has_names_that_xcom_reserves_reaches_the_next_task(
    acknowledged: list[Any], data: Any
) -> None:
    """The kind of apache/airflow#47348: XCom refuses such a dict, or reads it as another value."""
    given = payload(events={"x": [{**FORM, "data": data}], "y": [FORM]})
    read = deserialize(serialize(sensor().execute_complete(context(), given)))
    [form] = read["events"]["x"]  # type: ignore[index]
    assert Event.from_json_dict(form).payload == data
    assert read["events"]["y"] == [FORM]  # type: ignore[index]
    assert fetch(form).payload == data


def test_a_result_with_names_that_xcom_reserves_is_not_larger_than_any_other(acknowledged: list[Any]) -> None:
    origins = {"x": [{"topic": "t", "partition": 2, "offset": 5, "timestamp_ms": 0}]}
    given = payload(events={"x": [{**FORM, "data": {"__id__": "x" * 40_000}}]}, origins=origins)
    result = sensor().execute_complete(context(), given)
    assert len(json.dumps(result)) <= MAX_FIRING_BYTES
    assert result["events"]["x"][0]["dataref"] == "kafka:t/2/5"


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
