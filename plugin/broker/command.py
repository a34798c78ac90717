"""Runs `airflow interlock broker`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from .errors import BrokerError
from .jars import KAFKA_VERSION
from .node import LocalBroker


def run(args: Namespace) -> None:
    """Runs a broker until SIGINT or SIGTERM; exits with 1 and the reason if it cannot start or ends early."""
    # SIGTERM acts like Ctrl-C, so that nothing is left behind while jars are fetched or the node starts.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = _temporary() if args.ephemeral else _directory(args.directory)
    version = args.kafka_version or KAFKA_VERSION
    broker = LocalBroker(directory, port=args.port, version=version, report=_say)
    try:
        _say(f"Starting a Kafka {version} broker, data in {directory}.")
        broker.start()
        for line in _introduction(broker):
            _say(line)
        broker.wait()
        raise BrokerError(f"The broker ended unexpectedly. Log: {broker.log}")
    except BrokerError as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        _say("Stopping the broker.")
    finally:
        broker.stop()
        if args.ephemeral:
            shutil.rmtree(directory, ignore_errors=True)


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="interlock-broker-"))


def _directory(given: str | None) -> Path:
    if given:
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "interlock" / "broker"


def _introduction(broker: LocalBroker) -> list[str]:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    return [
        f"bootstrap.servers={broker.bootstrap_servers}",
        "Airflow connection:",
        f"  export AIRFLOW_CONN_KAFKA_DEFAULT='{json.dumps(connection)}'",
        f"Log: {broker.log}",
        "Ctrl-C stops it.",
    ]


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this command's output
