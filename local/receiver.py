"""The HTTP receiver of a local Airflow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import httpx

from .airflow import LocalAirflow, free_port
from .processes import ServiceError

NAME = "receiver"  # of its process and its log


class LocalReceiver:
    """`airflow interlock receiver` as a process of a LocalAirflow, with which it ends.

    options: more options of the command. port: None chooses a free one.
    """

    def __init__(self, airflow: LocalAirflow, *options: str, port: int | None = None) -> None:
        self._airflow, self._options = airflow, options
        self._port = port or free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = airflow.processes.log_path(NAME)

    def start(self) -> None:
        command = [sys.executable, "-m", "airflow", "interlock", "receiver", "--port", str(self._port)]
        self._airflow.processes.start(NAME, [*command, *self._options])

    def wait_ready(self, timeout_s: float = 120.0, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Returns when it takes events. Raises ServiceError if it, or a part of Airflow, has ended."""
        deadline = time.monotonic() + timeout_s
        while not self._is_ready():
            self._airflow.processes.check()
            meanwhile()
            if time.monotonic() > deadline:
                raise ServiceError(f"the receiver at {self.url} is not ready; its log is {self.log}")
            time.sleep(0.3)

    def stop(self) -> None:
        """Kills it; the Airflow continues."""
        self._airflow.processes.kill(NAME)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False
