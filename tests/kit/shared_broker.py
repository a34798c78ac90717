"""One broker for all processes of a run: each further one would cost its start, and CPU while it is idle."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interlock.plugin.broker import BrokerError, LocalBroker
from interlock.plugin.broker.jars import KAFKA_VERSION
from interlock.plugin.broker.ports import free_ports

from local.polling import poll

STARTED: Final = "started"  # a file in the broker's directory: the broker answers
FAILED: Final = "failed"  # a file with the reason why it does not
PATIENCE_S: Final = 180.0


def new_broker(directory: Path, port: int, report: Callable[[str], None]) -> LocalBroker:
    """A broker of the Kafka version that BROKER names, not started."""
    return LocalBroker(directory, port, version=os.environ.get("BROKER") or KAFKA_VERSION, report=report)


class SharedBroker:
    """The run's broker, in the process that starts the others. It starts while they collect their tests.

    address: what `running_elsewhere` takes in those processes.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        self.address = (str(directory), port)
        self._broker = new_broker(directory, port, print)
        self._starting = threading.Thread(target=self._start, name="start of the shared broker")
        self._starting.start()

    def _start(self) -> None:
        try:
            self._broker.start()
        except Exception as error:  # of any kind: the other processes wait for the result
            (self._broker.directory / FAILED).write_text(str(error))
        else:
            (self._broker.directory / STARTED).touch()

    def stop(self) -> None:
        self._starting.join()
        self._broker.stop()


def running_elsewhere(directory: str, port: int) -> LocalBroker:
    """The broker that another process of the run starts, once it answers. BrokerError: it does not."""
    broker = new_broker(Path(directory), port, print)
    failed = broker.directory / FAILED
    started = broker.directory / STARTED
    poll(lambda: failed.exists() or started.exists(), PATIENCE_S)
    if failed.exists():
        raise BrokerError(failed.read_text())
    if not started.exists():
        raise BrokerError(f"The run's shared broker did not start within {PATIENCE_S:.0f} s, nor fail.")
    return broker
