"""Spans of a delivery: the firing's, and one for each request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ...events.tracing import Carrier, Tracing
from ..delivery.answers import Answer, Verdict
from ..delivery.firings import OpenFiring
from ..records.firing_trace import end_firing_span, firing_attributes, start_firing_span
from .content import Content, Sendable

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class DeliverySpans:
    """The spans of one delivery of `firing`. carrier: the trace context of the firing's span.

    The firing's span is recorded with the first try that a deliverer makes, not again with each retry.
    """

    def __init__(self, tracing: Tracing, firing: OpenFiring, content: Content) -> None:
        self._tracing = tracing
        self._subscription, self._number = firing.subscription, firing.tries + 1
        self._attributes = firing_attributes(firing.subscription, content.firing)
        span = start_firing_span(tracing, firing.subscription, content.firing, content.traces)
        if firing.tries == 0:
            end_firing_span(span, content.firing)
        self.carrier: Carrier = tracing.carrier(span)

    @contextmanager
    def request(self) -> Iterator[RequestSpan]:
        """The span of a request, which ends with the block."""
        span = self._tracing.start(
            f"deliver {self._subscription}",
            "client",
            {**self._attributes, "interlock.attempt": self._number, "http.request.method": "POST"},
            parent=self.carrier,
        )
        try:
            yield RequestSpan(self._tracing, span)
        except BaseException as e:
            self._tracing.fail(span, type(e).__name__)
            raise
        finally:
            span.end()


class RequestSpan:
    """The span of a request. carrier: its trace context, for the request's headers."""

    def __init__(self, tracing: Tracing, span: Span) -> None:
        self._tracing, self._span = tracing, span
        self.carrier: Carrier = tracing.carrier(span)

    def answered(self, answer: Answer) -> None:
        """Notes what the answer means; none of its text, which the sink chose."""
        if answer.status is not None:
            self._span.set_attribute("http.response.status_code", answer.status)
        verdict = answer.verdict
        if verdict is not Verdict.DELIVERED:
            self._tracing.fail(self._span, verdict.name.lower())


class Request(NamedTuple):
    """What is sent of a firing. spans: None if the process has no tracer."""

    sent: Sendable
    spans: DeliverySpans | None


def request_of(firing: OpenFiring, content: Content, tracing: Tracing | None) -> Request:
    """The request with this content, in the trace of the firing's span."""
    if tracing is None:
        return Request(content.encoded(), None)
    spans = DeliverySpans(tracing, firing, content)
    return Request(content.encoded(spans.carrier), spans)
