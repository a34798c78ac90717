"""Spans of deliveries, and the trace that a sink gets."""

from __future__ import annotations

import pytest
from interlock.engine.delivery.answers import Verdict
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.sending.target import Bearer
from interlock.events.http import decode
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from tests.kit.posting import Posting, form
from tests.kit.sinks import Sink, answer
from tests.kit.spans import Spans, traceparent
from tests.unit.engine.delivery.firings import firing

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1bf7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
FIRING = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return Spans(monkeypatch)


def of(*traces: str, **members: object) -> OpenFiring:
    """A firing with an event for each trace; "" is an event without."""
    events = [
        form({"n": 1}, id=str(n), **({"traceparent": each} if each else {})) for n, each in enumerate(traces)
    ]
    return firing(7, name=FIRING, events={"order": events}, **members)


def deliver(sink: Sink, firing: OpenFiring, **members: object) -> None:
    with Posting.to(sink.url) as posting:
        posting.deliver(firing, **members)


def test_without_a_tracer_the_request_has_the_trace_of_the_event(sink: Sink) -> None:
    deliver(sink, of(TRACE))
    assert sink.received[0].headers["traceparent"] == TRACE
    deliver(sink, of(TRACE, OTHER))
    assert "traceparent" not in sink.received[1].headers


def test_a_trace_that_no_header_can_have_is_an_attribute_alone(sink: Sink) -> None:
    deliver(sink, of("ö"), send="event")
    assert "traceparent" not in sink.received[0].headers
    assert sink.received[0].attributes["traceparent"] == "%C3%B6"


def test_firing_and_delivery_continue_the_trace_of_the_only_event(sink: Sink, spans: Spans) -> None:
    deliver(sink, of(TRACE), send="event")
    fired, delivered = spans.one("fire"), spans.one("deliver")
    assert traceparent(fired.parent) == TRACE
    assert traceparent(delivered.parent) == traceparent(fired) == f"{TRACE[:35]}-{FIRING[16:]}-01"
    (got,) = sink.received
    assert got.headers["traceparent"] == traceparent(delivered)
    assert got.attributes["traceparent"] == TRACE


def test_a_firing_of_several_traces_has_its_own_and_links_to_each(sink: Sink, spans: Spans) -> None:
    deliver(sink, of(TRACE, "", OTHER, TRACE))
    fired, delivered = spans.one("fire"), spans.one("deliver")
    assert fired.parent is None
    assert traceparent(fired)[:53] == f"00-{FIRING}-{FIRING[16:]}-"
    assert [traceparent(link.context) for link in fired.links] == [TRACE, OTHER]
    assert traceparent(delivered.parent) == traceparent(fired)
    (got,) = sink.received
    assert got.headers["traceparent"] == traceparent(delivered)
    assert got.attributes["traceparent"] == traceparent(fired)


@pytest.mark.parametrize("mode", ["binary", "json"])
def test_an_event_without_a_trace_gets_that_of_its_firing(sink: Sink, spans: Spans, mode: str) -> None:
    deliver(sink, of(""), send="event", format=mode)
    (got,) = sink.received
    (event,) = decode([(name.encode(), text.encode()) for name, text in got.headers.items()], got.body)
    assert event.attributes["traceparent"] == traceparent(spans.one("fire"))


def test_spans_say_which_firing_and_what_came_of_it_and_nothing_of_its_data(sink: Sink, spans: Spans) -> None:
    sink.answer(answer(503, body=b"canary of the sink"))
    with Posting.to(f"{sink.url}/canary-of-the-address", auth=Bearer("canary-token")) as posting:
        ended = posting.deliver(of(TRACE, key="a\n" + "b" * 999), path="canary-path")
    assert ended.answer.verdict is Verdict.RETRY
    delivered = spans.one("deliver")
    attributes = dict(delivered.attributes or {})
    assert str(attributes.pop("interlock.key"))[:4] == "a\\nb"
    assert attributes == {
        "interlock.subscription": "airflow/deliver/s",
        "interlock.firing_id": FIRING,
        "interlock.outcome": "met",
        "interlock.attempt": 1,
        "http.request.method": "POST",
        "http.response.status_code": 503,
    }
    assert (delivered.kind, delivered.status.status_code, delivered.status.description) == (
        SpanKind.CLIENT, StatusCode.ERROR, "retry"
    )  # fmt: skip
    assert [span for span in spans.ended if "canary" in span.to_json()] == []


def test_each_try_has_a_span_under_the_same_firing(sink: Sink, spans: Spans) -> None:
    made = of(TRACE, OTHER)
    deliver(sink, made)
    made.tries = 1
    deliver(sink, made)
    assert len(spans.named("fire")) == 1
    first, second = spans.named("deliver")
    assert traceparent(first.parent) == traceparent(second.parent) == traceparent(spans.one("fire"))
    assert [(span.attributes or {})["interlock.attempt"] for span in (first, second)] == [1, 2]


def test_a_new_owner_records_the_same_span_of_the_firing(sink: Sink, spans: Spans) -> None:
    origins = {
        "order": [{"topic": "t", "partition": 0, "offset": 1, "timestamp_ms": ms} for ms in (4000, -1, 9**19)]
    }
    for _ in range(2):
        deliver(sink, of(TRACE, OTHER, fired_at="1970-01-01T00:00:05.000+00:00", origins=origins))
    first, second = spans.named("fire")
    assert first.context == second.context
    times = (4_000_000_000, 5_000_000_000)
    assert [(span.start_time, span.end_time) for span in (first, second)] == [times, times]


def test_a_request_without_an_answer_is_a_failed_span(spans: Spans) -> None:
    with Posting.to("http://127.0.0.1:1") as posting:
        posting.deliver(of(TRACE))
    delivered = spans.one("deliver")
    assert (delivered.status.status_code, delivered.status.description) == (StatusCode.ERROR, "unreachable")
    assert "http.response.status_code" not in (delivered.attributes or {})


def test_a_firing_of_events_that_are_not_sampled_is_not_recorded(sink: Sink, spans: Spans) -> None:
    deliver(sink, of(TRACE[:-1] + "0", OTHER[:-1] + "0"))
    assert spans.ended == ()
    (got,) = sink.received
    assert (got.headers["traceparent"][:35], got.headers["traceparent"][-1]) == (f"00-{FIRING}", "0")


def test_a_tracer_that_samples_nothing_still_passes_the_trace_on(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = Spans(monkeypatch, ALWAYS_OFF)
    deliver(sink, of(TRACE), send="event")
    assert spans.ended == ()
    (got,) = sink.received
    assert got.headers["traceparent"].split("-")[1] == TRACE.split("-")[1]
    assert got.attributes["traceparent"] == TRACE
