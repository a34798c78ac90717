"""Airflow with its own settings for traces: the way of one event to a task and to a sink, over OTLP."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker

from local.airflow import MIGRATED, LocalAirflow
from tests.kit.sinks import Sink
from tests.kit.trace_receiver import TraceReceiver

pytestmark = pytest.mark.long  # an Airflow of its own

DAGS = """
    from airflow.sdk import DAG
    from interlock import event
    from interlock.operators import EmitEventOperator, EventSensor, deliver_dag

    with DAG("waits", schedule=None):
        EventSensor(task_id="wait", condition=event("done"))

    with DAG("emits", schedule=None):
        EmitEventOperator(task_id="emit", type="done", subject="eu", data={"secret": "canary"})

    deliver_dag("delivers", condition=event("done"), conn_id="sink", send="event")
    """


@dataclass
class Site:
    airflow: LocalAirflow
    traces: TraceReceiver
    sink: Sink


@pytest.fixture
def site(tmp_path: Path, broker: LocalBroker, unique_name: Any) -> Iterator[Site]:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "traced.py").write_text(textwrap.dedent(DAGS))
    bus = BusConfig(name=unique_name("traced"), client={"bootstrap.servers": broker.bootstrap_servers})
    create(bus, partitions=1)
    with TraceReceiver() as traces, Sink() as sink:
        connections = {
            "kafka_default": {"conn_type": "kafka", "extra": dict(bus.client)},
            "sink": {"conn_type": "http", "host": "127.0.0.1", "port": sink.port, "schema": "http"},
        }
        settings = {("interlock", "bus"): bus.name, ("interlock", "delivery_networks"): "127.0.0.0/8"}
        with LocalAirflow(
            tmp_path / "home",
            dags,
            migrated=MIGRATED,
            connections=connections,
            settings=settings,
            environment=traces.environment,
        ) as airflow:
            yield Site(airflow, traces, sink)


def test_one_picture_shows_a_task_its_event_the_firing_and_what_follows(site: Site, eventually: Any) -> None:
    api, traces = site.airflow.api, site.traces
    api.wait_for_dags("waits", "emits", "delivers", timeout_s=180)
    for dag_id in ("delivers", "waits", "emits"):
        api.unpause(dag_id)
    delivering = eventually("it runs", lambda: api.runs("delivers"))[0]["dag_run_id"]
    waiting = api.trigger("waits")
    api.wait_for_task("delivers", delivering, "deliver", "deferred")
    api.wait_for_task("waits", waiting, "wait", "deferred")
    assert api.wait_for_run("emits", api.trigger("emits")) == "success"
    assert api.wait_for_run("waits", waiting) == "success"
    eventually("the sink got the event", lambda: site.sink.received)
    wanted = ("emit done", "fire", "resume wait", "deliver", "worker.emit", "worker.wait")
    eventually("all spans came", lambda: all(map(traces.named, wanted)) and len(traces.named("fire")) > 1)

    [emit], [worker] = traces.named("emit done"), traces.named("worker.emit")
    assert (emit.trace, emit.parent) == worker.ids  # the event continues the trace of the task that emits it
    [resumed], [delivered] = traces.named("resume wait"), traces.named("deliver ")
    fired = {span.ids: span for span in traces.named("fire")}
    for follows in (resumed, delivered):
        firing = fired[follows.trace, follows.parent]
        assert (firing.trace, firing.parent) == emit.ids
    links = {span.ids: span.links for span in traces.named("worker.wait")}  # of its start, and its resumption
    assert resumed.links[0] in links
    assert links[resumed.links[0]] == [(resumed.trace, resumed.parent)]
    [got] = site.sink.received
    assert got.attributes["traceparent"].split("-")[1:3] == [*emit.ids]
    assert got.headers["traceparent"].split("-")[1:3] == [*delivered.ids]
    assert [span for span in traces.spans if "canary" in str(span)] == []
