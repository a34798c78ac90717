"""The rates feed of the demo: a service outside of Airflow, which announces rates over HTTP."""

from __future__ import annotations

import hashlib
import secrets
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import httpx

from local.airflow import LocalAirflow, free_port
from local.processes import ServiceError

from .evidence import WAITED_FOR

READY_S = 60.0
CREDENTIALS = """[[credential]]
name = "rates feed"
token_sha256 = "{digest}"
types = ["{type}"]
sources = ["/rates/feed"]
"""


class RatesFeed:
    """Posts CloudEvents to a receiver, which `start` starts beside Airflow, with a token of its own."""

    def __init__(self, airflow: LocalAirflow, folder: Path, data: Path) -> None:
        self._airflow, self._folder, self._data = airflow, folder, data
        self._token = secrets.token_hex(32)
        self.url = f"http://127.0.0.1:{free_port()}"

    def start(self) -> None:
        """Starts the receiver; it is Airflow's process, and ends with Airflow."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "credentials.toml"
        digest = hashlib.sha256(self._token.encode()).hexdigest()
        file.write_text(CREDENTIALS.format(digest=digest, type=WAITED_FOR["rates"][0]))
        command = [sys.executable, "-m", "airflow", "interlock", "receiver", "--credentials", str(file)]
        self._airflow.processes.start("receiver", [*command, "--port", self.url.rpartition(":")[2]])

    def wait_ready(self, meanwhile: Callable[[], None]) -> None:
        """Returns when the receiver takes events. Raises ServiceError if it ended, or does not start."""
        deadline = time.monotonic() + READY_S
        while not self._is_ready():
            self._airflow.processes.check()
            meanwhile()
            if time.monotonic() > deadline:
                raise ServiceError(f"the receiver at {self.url} is not ready; see its log under logs/")
            time.sleep(0.3)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def announce(self, day: date) -> str:
        """Announces the rates of a date. Returns what was sent. Raises httpx.HTTPStatusError if refused."""
        kind, subject = WAITED_FOR["rates"]
        headers = {
            "authorization": f"Bearer {self._token}",
            "ce-specversion": "1.0",
            "ce-id": day.isoformat(),
            "ce-source": "/rates/feed",
            "ce-type": kind,
            "ce-subject": subject,
        }
        data = {"date": day.isoformat(), "output": str(self._data / "rates" / f"{day}.jsonl")}
        answer = httpx.post(f"{self.url}/events", headers=headers, json=data)
        answer.raise_for_status()
        return f"POST {self.url}/events, answer {answer.status_code}"
