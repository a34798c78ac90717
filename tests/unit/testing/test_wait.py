from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from interlock import ConditionError, Event, event
from interlock.operators import EmitEventOperator, EventSensor
from interlock.testing import WaitingTask, wait_of

pair = event("orders", by="data.date", label="orders") & event("rates", by="data.date", label="rates")
MIDNIGHT = "2026-11-20T00:00:00Z"


def sent(kind: str, at: str, day: str = "2026-11-20") -> Event:
    return Event.of(kind, "/s", id=f"{kind}-{at}", time=f"{at}:00Z", data={"date": day})


def wait(condition: Any = pair, run: dict[str, Any] | None = None, **arguments: Any) -> WaitingTask:
    with DAG("report", schedule=None) as dag:
        EventSensor(task_id="ready", condition=condition, **{"key": "{{ ds }}", **arguments})
    return wait_of(dag, "ready", **({"logical_date": MIDNIGHT} if run is None else run))


def test_the_key_is_rendered_for_the_logical_date_and_since_is_the_sensors() -> None:
    waiting = wait(key="{{ ds_nodash }}")
    assert waiting.key == "2026-11-20"
    assert waiting.since == datetime(2026, 11, 19, tzinfo=UTC)
    assert waiting.subscription == "airflow/report/testing/ready"
    assert 'waits for event(type="orders"' in str(waiting)


def test_when_the_condition_is_met_the_task_returns_the_firing() -> None:
    result = wait().given([sent("orders", "2026-11-20T06:00"), sent("rates", "2026-11-19T06:00")])
    assert (result.state, result.outcome) == ("success", "met"), str(result)
    assert result.at == datetime(2026, 11, 20, 6, tzinfo=UTC)
    assert result.output is not None
    assert result.output["events"]["rates"][0]["data"] == {"date": "2026-11-20"}
    assert result.output["missing"] == []
    assert "success, met at 2026-11-20T06:00:00+00:00\n- orders by 'orders-" in str(result)


def test_data_of_more_than_64_kib_becomes_a_dataref_even_if_most_of_it_is_blanks() -> None:
    data = b'{"date": "2026-11-20"' + b" " * 65_536 + b"}"
    sent_large = Event.of("orders", "/s", id="large", time="2026-11-20T06:00:00Z", data=data)
    result = wait().given([sent_large, sent("rates", "2026-11-20T06:00")])
    assert result.output is not None, str(result)
    [given] = result.output["events"]["orders"]
    assert ("data" in given, given["dataref"]) == (False, "kafka:rehearsal/0/0")


def test_a_wait_for_a_key_of_several_values_is_met_and_explained() -> None:
    """given() raised an error about the number of values; so did the search after a timeout."""
    of_region = event("orders", by=["data.date", "subject"], label="orders")
    waiting = wait(of_region, key=["{{ ds }}", "eu"])
    order = Event.of("orders", "/s", subject="eu", time="2026-11-20T06:00:00Z", data={"date": "20261120"})
    assert waiting.given([order]).state == "success"
    report = str(waiting.given([Event.of(**{**order.attributes, "subject": "us"}, data=order.data)]))
    assert 'key ["2026-11-20","us"] (written ["20261120","us"]) here, ["2026-11-20","eu"] wanted' in report


def test_events_from_before_the_wait_resume_it_at_its_start() -> None:
    early = [sent("orders", "2026-11-19T06:00"), sent("rates", "2026-11-19T06:00")]
    assert wait().given(early).at == datetime(2026, 11, 20, tzinfo=UTC)


def test_one_event_of_two_leaves_it_deferred_and_the_report_explains_why() -> None:
    result = wait().given(
        [sent("orders", "2026-11-20T06:00"), sent("rates", "2026-11-20T07:00", "2026-11-21")]
    )
    assert (result.state, result.outcome, result.output) == ("deferred", None, None)
    assert "not met: rates missing, key 2026-11-20" in str(result)
    assert "key 2026-11-21 here, 2026-11-20 wanted" in str(result)


def test_events_before_since_do_not_count() -> None:
    early = [sent("orders", "2026-11-18T06:00"), sent("rates", "2026-11-20T06:00")]
    assert wait().given(early).state == "deferred"


@pytest.mark.parametrize(
    ("arguments", "state", "error"),
    [({}, "failed", AirflowSensorTimeout), ({"soft_fail": True}, "skipped", AirflowSkipException)],
)
def test_the_timeout_fails_or_skips_the_task(
    arguments: dict[str, Any], state: str, error: type[Exception]
) -> None:
    waiting = wait(timeout=timedelta(hours=2), **arguments)
    late = [sent("orders", "2026-11-20T01:00"), sent("rates", "2026-11-20T03:00")]
    result = waiting.given(late, until="2026-11-20T04:00:00Z")
    assert (result.state, result.outcome) == (state, "timeout"), str(result)
    assert isinstance(result.error, error)
    assert result.at == datetime(2026, 11, 20, 2, tzinfo=UTC)
    assert "from 2026-11-20T00:00:00+00:00 to 2026-11-20T02:00:00+00:00" in str(result)
    assert "events after the wait ended, which do not count: 1" in str(result)
    assert waiting.given(late[:1], until="2026-11-20T01:59:00Z").state == "deferred"


@pytest.mark.parametrize(
    ("on_expired", "state", "error"),
    [
        ("fail", "failed", AirflowFailException),
        ("skip", "skipped", AirflowSkipException),
        ("succeed", "success", None),
    ],
)
def test_an_expired_condition_ends_the_task_according_to_on_expired(
    on_expired: str, state: str, error: type[Exception] | None
) -> None:
    waiting = wait(pair.expires(after="1h"), on_expired=on_expired)
    result = waiting.given([sent("orders", "2026-11-20T00:30")], until="2026-11-20T02:00:00Z")
    assert (result.state, result.outcome) == (state, "expired"), str(result)
    assert result.at == datetime(2026, 11, 20, 1, tzinfo=UTC)
    if error is None:
        assert result.output is not None
        assert result.output["missing"] == ["rates"]
    else:
        assert isinstance(result.error, error)
        assert "missing: rates" in str(result.error)


def test_a_wait_for_any_key_is_resumed_by_the_first_key_that_is_met() -> None:
    with DAG("report", schedule=None) as dag:
        EventSensor(task_id="ready", condition=pair)
    waiting = wait_of(dag, "ready", logical_date=MIDNIGHT)
    assert (waiting.key, waiting.since) == (None, datetime(2026, 11, 20, tzinfo=UTC))
    result = waiting.given(
        [
            sent("orders", "2026-11-20T06:00"),
            sent("orders", "2026-11-20T06:01", "2026-11-21"),
            sent("rates", "2026-11-20T06:02", "2026-11-21"),
        ]
    )
    assert result.output is not None
    assert result.output["key"] == "2026-11-21"


def test_a_run_without_a_logical_date_has_no_ds_as_in_airflow() -> None:
    run = {"run_after": "2026-11-20T09:00:00Z", "conf": {"day": "20261120"}}
    with pytest.raises(Exception, match="'ds' is undefined"):
        wait(run=run)
    waiting = wait(key="{{ dag_run.conf['day'] }}", run=run)
    assert (waiting.key, waiting.since) == ("2026-11-20", datetime(2026, 11, 19, 9, tzinfo=UTC))
    with pytest.raises(ValueError, match="needs run_after="):
        wait(key="d", run={})


def test_results_of_upstream_tasks_are_given_and_missing_ones_are_named() -> None:
    with DAG("report", schedule=None) as dag:

        @task
        def day() -> str:
            return "unused"

        EventSensor(task_id="ready", condition=pair, key=day())
    assert wait_of(dag, "ready", logical_date=MIDNIGHT, upstream={"day": "20261120"}).key == "2026-11-20"
    with pytest.raises(AssertionError, match=r"upstream=\{'day': \.\.\.\}"):
        wait_of(dag, "ready", logical_date=MIDNIGHT)


def test_an_xcom_of_another_key_is_that_member_of_the_upstreams_result() -> None:
    """It was the whole result, whatever the key."""
    template = "{{ ti.xcom_pull(task_ids='prepare', key='day') }}"
    with DAG("report", schedule=None) as dag:
        EventSensor(task_id="ready", condition=pair, key=template)
    given = {"prepare": {"day": "20261120", "rows": 7}}
    assert wait_of(dag, "ready", logical_date=MIDNIGHT, upstream=given).key == "2026-11-20"
    with pytest.raises(AssertionError, match=r"upstream=\{'prepare': \{'day': \.\.\.\}\}"):
        wait_of(dag, "ready", logical_date=MIDNIGHT, upstream={"prepare": "20261120"})


def test_a_mapped_task_is_rendered_for_its_map_index() -> None:
    with DAG("report", schedule=None) as dag:
        EventSensor.partial(task_id="ready", condition=pair).expand(key=["{{ ds }}", "20261231"])
    waits = [wait_of(dag, "ready", logical_date=MIDNIGHT, map_index=n) for n in (0, 1)]
    assert [each.key for each in waits] == ["2026-11-20", "2026-12-31"]
    assert waits[1].subscription == "airflow/report/testing/ready/1"


def test_rendering_changes_neither_the_dags_task_nor_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    with DAG("report", schedule=None) as dag:
        EventSensor(task_id="ready", condition=pair, key="{{ ds }}")
    before = dict(os.environ)
    for day in ("20", "21"):
        assert wait_of(dag, "ready", logical_date=f"2026-11-{day}T00:00:00Z").key == f"2026-11-{day}"
    assert dag.get_task("ready").key == "{{ ds }}"
    assert dict(os.environ) == before


def test_an_error_of_the_task_is_raised_in_the_test() -> None:
    with DAG("report", schedule=None, render_template_as_native_obj=True) as dag:
        EventSensor(task_id="ready", condition=pair, key="{{ none }}")
    with pytest.raises(ConditionError, match="rendered to None"):
        wait_of(dag, "ready", logical_date=MIDNIGHT)


def test_a_task_of_another_kind_is_refused() -> None:
    with DAG("report", schedule=None) as dag:
        EmitEventOperator(task_id="announce", type="x")
    with pytest.raises(ValueError, match=r"report\.announce is an EmitEventOperator"):
        wait_of(dag, "announce", logical_date=MIDNIGHT)


def test_fail_on_ends_the_task_as_failed_if_it_is_met_first() -> None:
    waiting = wait(fail_on=event("rates.failed", by="data.date"))
    failed = sent("rates.failed", "2026-11-20T05:00")
    both = [sent("orders", "2026-11-20T06:00"), sent("rates", "2026-11-20T07:00")]
    result = waiting.given([failed, *both])
    assert (result.state, result.outcome) == ("failed", "fail_on"), str(result)
    assert isinstance(result.error, AirflowFailException)
    assert "rates.failed" in str(result)
    report = str(waiting.given(both[:1]))
    assert ', fails on event(type="rates.failed", by="data.date") with key' in report
    assert "not met: rates missing" in report
    other_day = sent("rates.failed", "2026-11-20T05:00", "2026-11-21")
    assert waiting.given([other_day, *both]).state == "success"
    assert (
        wait(fail_on=event("rates.failed", by="data.date"), soft_fail=True).given([failed]).state == "skipped"
    )


def test_the_report_ignores_a_key_that_only_fail_on_reads() -> None:
    waiting = wait(event("go"), fail_on=event("rates.failed", by="data.date"))
    assert "not met: go missing, at" in str(waiting.given([]))
    assert waiting.given([sent("rates.failed", "2026-11-20T05:00")]).outcome == "fail_on"
