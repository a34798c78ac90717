"""A server's process: the receiver, or a bare app on the same server that answers 202 to all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final, Self

import psutil
import uvicorn
from interlock.engine.config import BusConfig
from interlock.receiver.server import ReceiverOptions, build_app, serve

HOST = "127.0.0.1"
START_S = 60
_SETTINGS: Final = "INTERLOCK_BENCH_RECEIVER"  # what a worker serves

Start = Callable[[int], "subprocess.Popen[bytes]"]  # starts a server on this port


async def bare(_scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers 202: what any ASGI app on uvicorn pays."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Serving:
    """The process, while in its block. port: where it answers."""

    def __init__(self, start: Start) -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            self.port: int = taken.getsockname()[1]
        self._popen = start(self.port)
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
        """Processor time of all its threads and workers so far."""
        times = [each.cpu_times() for each in (self._process, *self._process.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))


def starting(kind: str, config: BusConfig, workers: int = 1) -> Start:
    """How to start this module. kind: "bare" or "receiver"."""
    settings = json.dumps({"name": config.name, "client": dict(config.client)})
    command = [sys.executable, "-m", "bench.receiver.serving", kind, str(workers)]
    return lambda port: subprocess.Popen([*command, str(port)], env={**os.environ, _SETTINGS: settings})


def receiver() -> Callable[..., Any]:
    """The receiver's app of one process."""
    config = BusConfig(**json.loads(os.environ[_SETTINGS]))
    return build_app(config, ReceiverOptions(), None, lambda _path, _status, _events: None)


def main() -> None:
    kind, workers, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if kind == "bare":
        uvicorn.run(
            bare, host=HOST, port=port, ws="none", lifespan="off", access_log=False, log_config=None,
            server_header=False, proxy_headers=False,
        )  # fmt: skip
    else:
        app = receiver() if workers == 1 else "bench.receiver.serving:receiver"
        serve(app, ReceiverOptions(host=HOST, port=port, workers=workers))


if __name__ == "__main__":
    main()
