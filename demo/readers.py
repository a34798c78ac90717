"""The readers of the reports: a service outside of Airflow that is told over HTTP of each report."""

from __future__ import annotations

import base64
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .evidence import Announcement

PATH = "/reports"
USER = "interlock"


class ReportReaders:
    """A context manager that takes CloudEvents (binary mode) at `/reports` from senders with the password."""

    def __init__(self) -> None:
        self._password = secrets.token_hex(16)
        self._announced: list[Announcement] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="readers", daemon=True)

    @property
    def connection(self) -> dict[str, Any]:
        """The Airflow connection with which it is reached."""
        host, port = self._server.server_address[:2]
        login = {"login": USER, "password": self._password}
        return {"conn_type": "http", "host": host, "port": port, **login}

    @property
    def announced(self) -> list[Announcement]:
        return [*self._announced]

    def __enter__(self) -> ReportReaders:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        announced = self._announced
        login = base64.b64encode(f"{USER}:{self._password}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                if self.headers["authorization"] != f"Basic {login}":
                    self._answer(HTTPStatus.UNAUTHORIZED)
                elif self.path != PATH:
                    self._answer(HTTPStatus.NOT_FOUND)
                else:
                    date = str(json.loads(body).get("date", ""))
                    announced.append(Announcement(self.headers["ce-source"], self.headers["ce-id"], date))
                    self._answer(HTTPStatus.ACCEPTED)

            def _answer(self, status: HTTPStatus) -> None:
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """The demo's own lines say what arrives."""

        return Handler
