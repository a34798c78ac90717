"""An OpenTelemetry collector as small as a test needs it: OTLP over HTTP, metrics only.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


class Point(NamedTuple):
    """A data point as it was sent.

    kind: `sum`, `gauge` or `exponential_histogram`, whose value is its count.
    """

    name: str
    kind: str
    value: float
    attributes: dict[str, str]


class Collector:
    """Takes what is sent to `endpoint`; as a context manager it serves. points: all that has come so far."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector")

    @property
    def endpoint(self) -> str:
        """As `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` has it."""
        return f"http://127.0.0.1:{self._server.server_port}/v1/metrics"

    def _take(self, body: bytes) -> None:
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.points += _points(metric)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._take(body)
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing: the tests read what came."""

        return Handler

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


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
