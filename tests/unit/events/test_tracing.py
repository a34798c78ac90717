"""Spans of emitted events, and the trace that an event gets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.event_producer import EventProducer
from interlock.events import EmitError, Emitter, Event
from interlock.events.kafka import encode
from interlock.events.sizes import record_bytes
from interlock.events.tracing import continued, process_tracing
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from tests.kit.spans import Spans, traceparent

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Client:
    """A Kafka client that acknowledges at once what it does not refuse. sent: the attributes."""

    sent: list[dict[str, str]]
    refused: str = ""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._held: list[Callable[[], None]] = []

    def produce(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int = -1,
        on_delivery: Callable[..., None] = lambda *_: None,
        callback: None = None,
        timestamp: int = 0,
        headers: Any = (),
    ) -> None:
        attributes = {name.removeprefix("ce_"): raw.decode() for name, raw in headers}
        stored = SimpleNamespace(topic=lambda: topic, partition=lambda: 0, offset=lambda: 7)
        error = SimpleNamespace(str=lambda: "refused", code=lambda: 1)
        type(self).sent.append(attributes)
        refused = attributes["id"] == self.refused
        self._held.append(lambda: on_delivery(error if refused else None, stored))

    def poll(self, timeout_s: float) -> int:
        return self.flush(timeout_s)

    def flush(self, timeout_s: float) -> int:
        while self._held:
            self._held.pop(0)()
        return 0

    def __len__(self) -> int:
        return len(self._held)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    made = type("Made", (Client,), {"sent": []})
    monkeypatch.setattr("confluent_kafka.Producer", made)
    return made


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return Spans(monkeypatch)


def emit(*events: Event, **client: str) -> None:
    with Emitter({"bootstrap.servers": "nowhere", **client}, "b-event") as emitter:
        emitter.emit_all(events)


def ordered(**more: Any) -> Event:
    return Event.of("ordered", "/shop", id="1", subject="a", **more)


def test_without_a_tracer_an_event_stays_as_it_is(client: type[Client]) -> None:
    assert process_tracing() is None
    emit(ordered())
    assert "traceparent" not in client.sent[0]


def test_an_event_without_a_trace_begins_one_at_its_emitter(client: type[Client], spans: Spans) -> None:
    emit(ordered())
    span = spans.one("emit ordered")
    assert (span.kind, span.parent, span.status.status_code) == (SpanKind.PRODUCER, None, StatusCode.UNSET)
    assert client.sent[0]["traceparent"] == traceparent(span)
    assert dict(span.attributes or {}) == {
        "messaging.destination.name": "b-event",
        "cloudevents.event_id": "1",
        "cloudevents.event_source": "/shop",
        "cloudevents.event_type": "ordered",
        "cloudevents.event_subject": "a",
    }


def test_an_event_continues_the_trace_of_what_emits_it(client: type[Client], spans: Spans) -> None:
    with trace.get_tracer("task").start_as_current_span("task") as task:
        emit(ordered())
    span = spans.one("emit")
    assert span.parent == task.get_span_context()
    assert client.sent[0]["traceparent"] == traceparent(span)


def test_an_event_that_brings_a_trace_is_not_changed(client: type[Client], spans: Spans) -> None:
    event = ordered(traceparent=TRACE, tracestate="a=b")
    with trace.get_tracer("task").start_as_current_span("task"):
        emit(event)
    assert client.sent[0] == dict(event.attributes)
    assert traceparent(spans.one("emit").parent) == TRACE


def test_an_event_with_a_trace_that_is_none_is_not_changed(client: type[Client], spans: Spans) -> None:
    event = ordered(traceparent="00-a-b-01")
    emit(event)
    assert client.sent[0] == dict(event.attributes)
    assert spans.one("emit").parent is None


def test_an_event_of_a_trace_that_is_not_sampled_says_so(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = Spans(monkeypatch, ALWAYS_OFF)
    emit(ordered())
    assert not int(client.sent[0]["traceparent"][-2:], 16) & 1
    assert spans.ended == ()


def test_a_trace_does_not_make_an_event_too_large(client: type[Client], spans: Spans) -> None:
    event = ordered(data=b"x" * 5000, datacontenttype="a/b")
    size = record_bytes(*encode(event))
    emit(event, **{"message.max.bytes": str(size + 100)})
    emit(event, **{"message.max.bytes": str(size + 1000)})
    assert ["traceparent" in each for each in client.sent] == [False, True]


def test_the_span_of_an_event_that_is_not_acknowledged_has_failed(client: type[Client], spans: Spans) -> None:
    client.refused = "2"
    with pytest.raises(EmitError):
        emit(Event.of("t", "/s", id="1"), Event.of("t", "/s", id="2"))
    found = {(span.attributes or {})["cloudevents.event_id"]: span.status for span in spans.ended}
    assert found["1"].status_code is StatusCode.UNSET
    assert (found["2"].status_code, found["2"].description) == (StatusCode.ERROR, "EmitError")


def test_texts_of_a_span_are_cut_and_in_one_line(client: type[Client], spans: Spans) -> None:
    emit(Event.of("t" * 999, "/s", id="1", subject="a\u2028b" + "c" * 999, data={"secret": "canary"}))
    span = spans.one("emit")
    subject = str((span.attributes or {})["cloudevents.event_subject"])
    assert (len(span.name), len(subject), subject[:9]) == (200, 200, "a\\u2028bc")
    assert "canary" not in span.to_json()


def test_the_receivers_producer_traces_as_the_emitter_does(client: type[Client], spans: Spans) -> None:
    async def write() -> None:
        config = BusConfig("b", "airflow", {"bootstrap.servers": "nowhere"})
        producer = EventProducer(config, asyncio.get_running_loop(), 5)
        try:
            await producer.write([ordered(), Event.of("t", "/s", id="2", traceparent=TRACE)])
        finally:
            await asyncio.to_thread(producer.close)

    asyncio.run(write())
    assert [each["traceparent"] for each in client.sent] == [traceparent(spans.one("emit ordered")), TRACE]
    assert [span.status.status_code for span in spans.ended] == [StatusCode.UNSET] * 2


def test_a_completion_continues_its_runs_trace_only_with_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(context_carrier={"traceparent": TRACE})
    assert continued(ordered(), run) == ordered()
    Spans(monkeypatch)
    assert continued(ordered(), run) == ordered(traceparent=TRACE)
    own = ordered(traceparent=TRACE.replace("01", "00"))
    assert continued(own, run) == own
    for none in (None, {}, {"traceparent": None}, {"tracestate": "a=b"}, "text"):
        assert continued(ordered(), SimpleNamespace(context_carrier=none)) == ordered()
    assert continued(ordered(), object()) == ordered()


def test_a_process_without_opentelemetry_does_not_import_it() -> None:
    code = (
        "import sys; from interlock.events import Emitter\n"
        "Emitter({'bootstrap.servers': 'nowhere'}, 't').close()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
