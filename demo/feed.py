"""The rates feed of the demo: a service outside of Airflow, which announces rates over HTTP."""

from __future__ import annotations

import hashlib
import secrets
from datetime import date
from pathlib import Path

import httpx

from local.airflow import LocalAirflow
from local.receiver import LocalReceiver

from .evidence import WAITED_FOR

CREDENTIALS = """[[credential]]
name = "rates feed"
token_sha256 = "{digest}"
types = ["{type}"]
sources = ["/rates/feed"]
"""


class RatesFeed:
    """Posts CloudEvents to a receiver, which `start` starts beside Airflow, with a token of its own."""

    def __init__(self, airflow: LocalAirflow, folder: Path, data: Path) -> None:
        self._data = data
        self._token = secrets.token_hex(32)
        self._credentials = folder / "credentials.toml"
        self.receiver = LocalReceiver(airflow, "--credentials", str(self._credentials))

    def start(self) -> None:
        """Starts the receiver; wait until it is ready before `announce`."""
        self._credentials.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(self._token.encode()).hexdigest()
        self._credentials.write_text(CREDENTIALS.format(digest=digest, type=WAITED_FOR["rates"][0]))
        self.receiver.start()

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
        answer = httpx.post(f"{self.receiver.url}/events", headers=headers, json=data)
        answer.raise_for_status()
        return f"POST {self.receiver.url}/events, answer {answer.status_code}"
