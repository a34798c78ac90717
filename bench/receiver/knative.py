"""The receiver of Knative's Kafka broker, which a program that is no part of this repository starts."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from interlock.engine.config import BusConfig

from ..folders import folder
from .serving import HOST, START_S, Serving

PROGRAM: Final = "KNATIVE_RECEIVER"  # environment variable that names the program
PATH: Final = "/events"
_UNKNOWN_PATH: Final = 404
_LOG: Final = """<configuration>
  <appender name="all" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target><encoder><pattern>%level %msg%n%nopex</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="all"/></root>
  <logger name="io.vertx.core.impl" level="OFF"/>
</configuration>
"""  # without stack traces, and without the errors of each usual end


@contextmanager
def knative(program: str, config: BusConfig) -> Iterator[Serving]:
    """Runs it on the bus's event topic. The block begins once it knows the path."""
    with folder() as place:
        environment = {**os.environ, **configured(place, config)}

        def start(port: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen([program], env={**environment, "INGRESS_PORT": str(port)})

        with Serving(start) as serving:
            deadline = time.monotonic() + START_S
            while _status(serving.port) == _UNKNOWN_PATH:
                if time.monotonic() > deadline:
                    raise SystemExit(f"bench: {program} did not take up its contract")
                time.sleep(0.1)
            yield serving


def configured(place: Path, config: BusConfig) -> dict[str, str]:
    """Writes its files into this folder. Returns its environment, without the port.

    Like our receiver, it answers after an idempotent write with acks=all. It exports no metrics or traces.
    """
    servers = str(config.client["bootstrap.servers"])
    resource = {
        "uid": config.name,
        "topics": [config.topic("event")],
        "bootstrapServers": servers,
        "ingress": {"path": PATH},
        "reference": {"uuid": config.name, "namespace": "bench", "name": config.name},
    }
    files = {
        "contract/data": json.dumps({"generation": "1", "resources": [resource]}),
        "producer.properties": "acks=all\nenable.idempotence=true\nlinger.ms=0\n",
        "http.properties": f"host={HOST}\nidleTimeout=0\n",
        "log.xml": _LOG,
    }
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    for empty in ("features", "observability"):
        (place / empty).mkdir()
    return {
        "INGRESS_TLS_PORT": "0",  # not served without a certificate
        "PRODUCER_CONFIG_FILE_PATH": str(place / "producer.properties"),
        "HTTPSERVER_CONFIG_FILE_PATH": str(place / "http.properties"),
        "DATA_PLANE_CONFIG_FILE_PATH": str(place / "contract" / "data"),
        "CONFIG_FEATURES_PATH": str(place / "features"),
        "CONFIG_OBSERVABILITY_PATH": str(place / "observability"),
        "LIVENESS_PROBE_PATH": "/healthz",
        "READINESS_PROBE_PATH": "/readyz",
        "WAIT_STARTUP_SECONDS": str(START_S),
        "KUBERNETES_MASTER": f"http://{HOST}:1",  # there is none
        "KUBECONFIG": str(place / "none"),
        "JAVA_TOOL_OPTIONS": f"-Dlogback.configurationFile={place / 'log.xml'}",
    }


def _status(port: int) -> int:
    """The status of the answer to a request that is no event."""
    connection = HTTPConnection(HOST, port, timeout=START_S)
    try:
        connection.request("POST", PATH)
        return connection.getresponse().status
    finally:
        connection.close()
