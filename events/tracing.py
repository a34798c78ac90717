"""Spans of this process, if OpenTelemetry is set up in it: docs/operate/tracing.md.

OpenTelemetry is no dependency: it is used only where something else, such as Airflow, has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from .event import Event
from .kafka import encode
from .sizes import record_bytes
from .visible import visible

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer

# A trace's context in the form of the CloudEvents extension and of HTTP headers; empty without a trace.
Carrier: TypeAlias = Mapping[str, str]
Kind: TypeAlias = Literal["internal", "client", "producer", "consumer"]
Value: TypeAlias = str | int | None

TRACE: Final = ("traceparent", "tracestate")  # the attributes of CloudEvents' Distributed Tracing extension
_SCOPE: Final = "airflow-interlock"
_MOST_CHARACTERS: Final = 200  # of an attribute's value
_PROOF_BYTES: Final = 256  # at most, of the proof that an emitter may add to an event


class Ids(NamedTuple):
    """The ids that a span gets, instead of random ones. trace: used only if the span has no parent."""

    trace: int
    span: int


class Tracing:
    """Records spans with the tracer of this process. Thread-safe."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api, self._nothing = trace, Context()
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = tracer
        ids = getattr(tracer, "id_generator", None)  # the SDK's; another tracer gives spans random ids
        if ids is not None and not isinstance(ids, _IdGenerator):
            tracer.id_generator = _IdGenerator(ids)  # type: ignore[attr-defined]

    def start(
        self,
        name: str,
        kind: Kind,
        attributes: Mapping[str, Value],
        *,
        parent: Carrier | None = None,
        links: Iterable[Carrier] = (),
        start_ns: int | None = None,
        ids: Ids | None = None,
    ) -> Span:
        """Starts a span, which does not become the current one.

        name and attributes are made visible and cut; those that are None are left out. parent: None: the
        current span; empty: there is none. ids: None: random.
        """
        wanted = _wanted.set(ids)
        try:
            return self._tracer.start_span(
                _cut(name),
                None if parent is None else self._propagator.extract(parent, self._nothing),
                getattr(self._api.SpanKind, kind.upper()),
                {
                    each: _cut(value) if isinstance(value, str) else value
                    for each, value in attributes.items()
                    if value is not None
                },
                [self._api.Link(context) for context in map(self.context, links) if context.is_valid],
                start_ns,
            )
        finally:
            _wanted.reset(wanted)

    def unsampled(self, ids: Ids) -> Span:
        """A span with these ids that is not recorded."""
        return self._api.NonRecordingSpan(self._api.SpanContext(ids.trace, ids.span, is_remote=False))

    def fail(self, span: Span, reason: str) -> None:
        """Mark a span as failed. reason: short, and without a secret."""
        span.set_status(self._api.StatusCode.ERROR, _cut(reason))

    def context(self, carrier: Carrier) -> SpanContext:
        """The span context in a carrier; an invalid one if the carrier has none."""
        found = self._propagator.extract(carrier, self._nothing)
        return self._api.get_current_span(found).get_span_context()

    def carrier(self, span: Span) -> dict[str, str]:
        """A span's carrier; empty if its ids are invalid, as those of a tracer that is switched off."""
        found: dict[str, str] = {}
        self._propagator.inject(found, self._api.set_span_in_context(span, self._nothing))
        return found

    def current(self) -> Span:
        """The current span; one that records nothing if there is none."""
        return self._api.get_current_span()

    @contextmanager
    def emits(self, events: Sequence[Event], topic: str, most_bytes: int) -> Iterator[list[Event]]:
        """A span for each event while the block emits them; gives the block the events to emit.

        An event with a `traceparent` is not changed, and its span continues that trace. Any other span
        continues the current span's trace or begins one, and the event gets its `traceparent`, unless the
        record would then be larger than `most_bytes`.
        """
        spans = [
            self.start(
                f"emit {event.type}",
                "producer",
                {"messaging.destination.name": topic, **_described(event)},
                parent=carrier_in(event.attributes) or None,
            )
            for event in events
        ]
        traced = [
            _with_trace(event, self.carrier(span), most_bytes)
            for event, span in zip(events, spans, strict=True)
        ]
        try:
            yield traced
        except BaseException as error:
            lost = getattr(error, "undelivered", ())  # of an EmitError; () of errors that concern all
            for event, span in zip(events, spans, strict=True):
                if not lost or event.identity in lost:
                    self.fail(span, type(error).__name__)
            raise
        finally:
            for span in spans:
                span.end()


def process_tracing() -> Tracing | None:
    """The spans of this process; None if no tracer is set up in it, as in Airflow without `[traces] otel_on`.

    Objects that emit or deliver ask once, when they are made.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:  # whoever sets up a tracer has imported it
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    tracer = provider.get_tracer(_SCOPE)
    return None if isinstance(tracer, trace.NoOpTracer) else Tracing(tracer)


def continued(event: Event, ended: object) -> Event:
    """The event as part of the trace of what has ended, if this process has a tracer.

    ended: a DAG run or task instance of Airflow, which may have a `context_carrier`.
    """
    if process_tracing() is None:
        return event
    carrier = getattr(ended, "context_carrier", None)
    trace = carrier_in(carrier) if isinstance(carrier, Mapping) else {}
    if not trace or TRACE[0] in event.attributes:
        return event
    return Event({**event.attributes, **trace}, event.data)


def carrier_in(members: Mapping[str, Any]) -> Carrier:
    """The trace among the attributes or members of an event; empty without."""
    found = {name: text for name in TRACE if isinstance(text := members.get(name), str)}
    return found if TRACE[0] in found else {}


class _IdGenerator:
    """An id generator that returns the ids in `_wanted`, and without any those of another generator."""

    def __init__(self, random: Any) -> None:
        self._random = random

    def generate_trace_id(self) -> int:
        wanted = _wanted.get()
        return self._random.generate_trace_id() if wanted is None else wanted.trace

    def generate_span_id(self) -> int:
        wanted = _wanted.get()
        return self._random.generate_span_id() if wanted is None else wanted.span

    def __getattr__(self, name: str) -> Any:
        return getattr(self._random, name)


_wanted: Final[ContextVar[Ids | None]] = ContextVar("interlock ids", default=None)


def _described(event: Event) -> dict[str, Value]:
    """Which event it is, in the attributes of OpenTelemetry's conventions for CloudEvents."""
    return {
        "cloudevents.event_id": event.id,
        "cloudevents.event_source": event.source,
        "cloudevents.event_type": event.type,
        "cloudevents.event_subject": event.subject,
    }


def _with_trace(event: Event, trace: Carrier, most_bytes: int) -> Event:
    if not trace or TRACE[0] in event.attributes:
        return event
    traced = Event({**event.attributes, **trace}, event.data)
    return traced if record_bytes(*encode(traced)) + _PROOF_BYTES <= most_bytes else event


def _cut(text: str) -> str:
    return visible(text[:_MOST_CHARACTERS])[:_MOST_CHARACTERS]
