"""A process that serves HTTP: the receiver, or a bare app on the same server that answers 202 to all."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any, Self

import psutil
import uvicorn
from interlock.engine.config import BusConfig
from interlock.receiver.server import Options, build_app, serve

HOST = "127.0.0.1"
START_S = 60
KINDS = ("bare", "receiver")


async def bare(_scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers 202: what any ASGI app on uvicorn pays."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Serving:
    """The process, while in its block. port: where it answers."""

    def __init__(self, kind: str, config: BusConfig) -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            self.port: int = taken.getsockname()[1]
        settings = json.dumps({"name": config.name, "client": dict(config.client)})
        command = [sys.executable, "-m", "bench.receiver.serving", kind, str(self.port), settings]
        self._popen = subprocess.Popen(command)
        self._process = psutil.Process(self._popen.pid)

    def __enter__(self) -> Self:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._popen.poll() is not None:
                break
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        self.__exit__()
        raise SystemExit("bench: the server does not answer")

    def __exit__(self, *_: object) -> None:
        self._popen.terminate()
        self._popen.wait()

    def cpu_s(self) -> float:
        """Processor time of all its threads so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


def main() -> None:
    kind, port, settings = sys.argv[1:]
    if kind == "bare":
        uvicorn.run(
            bare, host=HOST, port=int(port), ws="none", lifespan="off", access_log=False, log_config=None,
            server_header=False, proxy_headers=False,
        )  # fmt: skip
    else:
        config, options = BusConfig(**json.loads(settings)), Options(host=HOST, port=int(port))
        serve(build_app(config, options, None, lambda _path, _status, _events: None), options)


if __name__ == "__main__":
    main()
