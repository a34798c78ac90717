"""An OpenTelemetry collector as small as a test needs it: OTLP over HTTP, metrics only.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import gzip
from email.message import Message
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.kit.answering import Answer, Answering


class Point(NamedTuple):
    """A data point as it was sent.

    kind: `sum`, `gauge` or `exponential_histogram`, whose value is its count.
    """

    name: str
    kind: str
    value: float
    attributes: dict[str, str]


class Collector(Answering):
    """Takes what is sent to `endpoint`; as a context manager it serves. points: all that has come so far."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        super().__init__("collector")

    @property
    def endpoint(self) -> str:
        """As `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` has it."""
        return f"http://127.0.0.1:{self.port}/v1/metrics"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of an Airflow process that sends its metrics here, each second."""
        return {
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": self.endpoint,
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        }

    def answer(self, headers: Message, body: bytes) -> Answer:
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.points += _points(metric)
        return Answer(200, "application/x-protobuf", ExportMetricsServiceResponse().SerializeToString())


def _points(metric: Any) -> list[Point]:
    kind = metric.WhichOneof("data")
    return [
        Point(
            metric.name, kind, _value(point), {each.key: each.value.string_value for each in point.attributes}
        )
        for point in getattr(metric, kind).data_points
    ]


def _value(point: Any) -> float:
    number = point.WhichOneof("value") if "value" in point.DESCRIPTOR.oneofs_by_name else "count"
    return float(getattr(point, number))
