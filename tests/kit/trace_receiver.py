"""A receiver of OpenTelemetry spans as small as a test needs it: OTLP over HTTP.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import gzip
from email.message import Message
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.kit.answering import Answer, Answering


class ReceivedSpan(NamedTuple):
    """A span as it was sent. parent: its span id, "" without one. links: (trace, span)."""

    name: str
    trace: str
    span: str
    parent: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]

    @property
    def ids(self) -> tuple[str, str]:
        return self.trace, self.span


class TraceReceiver(Answering):
    """Takes spans; as a context manager it serves. spans: all that have come so far."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        super().__init__("trace receiver")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of an Airflow process that sends its spans here, soon."""
        return {
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{self.port}/v1/traces",
            "OTEL_BSP_SCHEDULE_DELAY": "500",
        }

    def named(self, begin: str) -> list[ReceivedSpan]:
        return [span for span in list(self.spans) if span.name.startswith(begin)]

    def answer(self, headers: Message, body: bytes) -> Answer:
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += map(_received, scope.spans)
        return Answer(200, "application/x-protobuf", ExportTraceServiceResponse().SerializeToString())


def _received(span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes},
    )
