"""Spans of what a firing starts in Airflow: a task that resumes, a run, an asset event."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from interlock import event
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.engine.waiting.waits import FiringForWait
from interlock.operators import EventSensor, dispatch_dag
from interlock.operators import dispatch as dispatching
from interlock.operators import wait as waiting
from interlock.triggers.asset import _payloads
from interlock.triggers.event import _payload
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from tests.kit.spans import Spans, traceparent
from tests.kit.state_store import StateStore, task_instance

FIRING = "0123456789abcdef0123456789abcdef"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1bf7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
FIRED_NS = 1_795_154_405_250_000_000
OF_FIRING = {
    "interlock.subscription": "airflow/s",
    "interlock.firing_id": FIRING,
    "interlock.outcome": "met",
    "interlock.key": "eu",
}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return Spans(monkeypatch)


def action(
    *traces: str, fired_at: str = "2026-11-20T06:00:05.250+00:00", kind: Any = "one-shot"
) -> ActionRecord:
    events = [{"id": str(n), "source": "/s", "traceparent": each} for n, each in enumerate(traces)]
    origins = [{"topic": "t", "partition": 0, "offset": n, "timestamp_ms": 5} for n in range(len(traces))]
    firing = FiringRecord(
        id=FIRING,
        outcome="met",
        key="eu",
        fired_at=fired_at,
        events={"x": events},
        origins={"x": origins},
    )
    return ActionRecord(subscription="airflow/s", kind=kind, incarnation="i", state="fired", firing=firing)


def resume(monkeypatch: pytest.MonkeyPatch, payload: Any) -> Any:
    """Runs the resumed task inside of the span that Airflow gives it; returns that span."""
    monkeypatch.setattr(waiting, "acknowledge", lambda *_: None)
    sensor = EventSensor(task_id="wait", condition=event("x"))
    with trace.get_tracer("airflow").start_as_current_span("worker.wait") as span:
        sensor.execute_complete({"ti": task_instance(task_id="wait")}, payload.to_json())  # type: ignore[typeddict-item]
    return span


def handed_over(record: ActionRecord) -> Any:
    return _payload(FiringForWait(record, ("i:n",)))


def test_without_a_tracer_a_payload_has_no_trace() -> None:
    assert handed_over(action(TRACE)).to_json().keys() == {"outcome", "action", "registration_keys"}


def test_a_trigger_records_the_firing_outside_of_its_own_trace(spans: Spans) -> None:
    with trace.get_tracer("airflow").start_as_current_span("trigger.wait"):
        payload = handed_over(action(TRACE, OTHER))
    fired = spans.one("fire airflow/s")
    assert fired.parent is None
    assert [traceparent(link.context) for link in fired.links] == [TRACE, OTHER]
    assert payload.to_json()["traceparent"] == traceparent(fired)
    assert dict(fired.attributes or {}) == OF_FIRING
    assert fired.end_time == FIRED_NS


def test_a_resumed_task_and_its_firing_link_to_each_other(
    monkeypatch: pytest.MonkeyPatch, spans: Spans
) -> None:
    worker = resume(monkeypatch, handed_over(action(TRACE)))
    fired, resumed = spans.one("fire"), spans.one("resume wait")
    assert [traceparent(link.context) for link in worker.links] == [traceparent(fired)]
    assert (traceparent(fired.parent), traceparent(resumed.parent)) == (TRACE, traceparent(fired))
    assert [traceparent(link.context) for link in resumed.links] == [traceparent(worker)]
    assert (resumed.kind, resumed.start_time) == (SpanKind.CONSUMER, FIRED_NS)
    assert dict(resumed.attributes or {}) == {
        **OF_FIRING,
        "airflow.dag_id": "dag",
        "airflow.task_id": "wait",
        "airflow.dag_run.run_id": "run",
        "airflow.task_instance.map_index": -1,
        "airflow.task_instance.try_number": 1,
    }


def test_a_firing_too_large_for_its_payload_keeps_its_trace(
    monkeypatch: pytest.MonkeyPatch, spans: Spans
) -> None:
    payload = handed_over(action(*[TRACE] * 2000))
    assert TRACE not in payload.action
    resume(monkeypatch, payload)
    assert traceparent(spans.one("resume").parent) == traceparent(spans.one("fire"))
    assert traceparent(spans.one("fire").parent) == TRACE


def test_a_payload_without_a_trace_resumes_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = handed_over(action(TRACE))
    spans = Spans(monkeypatch)
    worker = resume(monkeypatch, payload)
    assert (len(spans.ended), len(worker.links)) == (1, 0)


def test_a_run_is_recorded_under_its_firing_when_it_is_created(
    monkeypatch: pytest.MonkeyPatch, spans: Spans, supervisor: Any
) -> None:
    dispatched = msgspec.structs.replace(action(TRACE, kind="durable"), subscription="airflow/dispatch/d")
    monkeypatch.setattr("interlock.engine.waiting.open_firings.read", lambda *_: [dispatched])
    monkeypatch.setattr(dispatching, "acknowledge_all", lambda *_: None)
    task = dispatch_dag("d", condition=event("x"), trigger_dag_id="t").task_dict["dispatch"]
    run = SimpleNamespace(start_date=None, run_after=None)
    for _ in range(2):  # the second time it exists
        with trace.get_tracer("airflow").start_as_current_span("worker.dispatch"):
            task.resume(
                {"dag_run": run, "task_state_store": StateStore()},
                {"outcome": "fired", "places": [[0, 0]], "registered": True},
            )
    fired, created = spans.one("fire"), spans.one("run t")
    assert (traceparent(fired.parent), traceparent(created.parent)) == (TRACE, traceparent(fired))
    assert [traceparent(link.context) for link in created.links] == [traceparent(spans.named("worker")[0])]
    ids = {"airflow.dag_id": "t", "airflow.dag_run.run_id": f"dispatch__{FIRING}"}
    assert dict(created.attributes or {}) == {
        **OF_FIRING,
        "interlock.subscription": "airflow/dispatch/d",
        **ids,
    }


def test_the_firing_of_an_asset_event_is_recorded(spans: Spans) -> None:
    config: Any = None
    _payloads(config, lambda *_: [action(TRACE), None], [(0, 0), (0, 1)], "airflow/s")
    assert traceparent(spans.one("fire").parent) == TRACE


def test_a_time_that_no_span_can_have_is_left_out(spans: Spans) -> None:
    for moment in ("9999-12-31T23:59:59+00:00", "t", ""):
        handed_over(action(TRACE, fired_at=moment))
    assert len(spans.ended) == 3
    for span in spans.ended:  # they have the time at which they are recorded
        assert FIRED_NS / 2 < (span.start_time or 0) <= (span.end_time or 0) < 2**63
