"""Spans of this process, for tests: OpenTelemetry set up as Airflow does it, with an exporter in memory."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanContext


class Spans:
    """The spans that ended so far. Until `monkeypatch` undoes it, the process's tracer records here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", self.provider)

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, begin: str) -> list[ReadableSpan]:
        return [span for span in self.ended if span.name.startswith(begin)]

    def one(self, begin: str) -> ReadableSpan:
        [span] = self.named(begin)
        return span


def traceparent(of: ReadableSpan | SpanContext | None) -> str:
    """The `traceparent` of a span, or of its context or parent."""
    context = of.get_span_context() if isinstance(of, ReadableSpan) else of
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
