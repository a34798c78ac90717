"""`make fuzz-http`: hostile requests to a receiver in another process, for FUZZ_SECONDS.

Ends with 1 if an answer is none of ANSWERS, the receiver ends or logs an error, or its memory grows by more
than GROWTH_MB after the first fifth of the time. Prints the seed; FUZZ_SEED=n sends the same requests again.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import uvicorn
from interlock.engine.errors import NoRoom, NotSent, UnreachableError
from interlock.events import Event
from interlock.events.kafka import encode
from interlock.events.sizes import record_bytes
from interlock.receiver.app import Receiver
from interlock.receiver.credentials import Credentials
from interlock.receiver.endpoint import Endpoint
from interlock.receiver.server import ReceiverOptions, endpoints, uvicorn_settings
from interlock.receiver.webhooks.declaration import Secret, read_webhooks
from interlock.receiver.webhooks.presets import PRESETS
from uvicorn.server import ServerState

from tests.unit.receiver.hostile import Hostile

ANSWERS = frozenset({100, 200, 202, 204, 400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 503})
CONNECTIONS = 16
ANSWER_S = 0.3  # an incomplete request gets no answer; its connection is then closed
GROWTH_MB = 32
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


class Shaky:
    """A bus that fails now and then. It makes the records of all events, as the producer does."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.written = 0

    async def write(self, events: Sequence[Event]) -> None:
        for event in events:
            record_bytes(*encode(event))
        await asyncio.sleep(0)
        if self._random.random() < 0.1:
            raise self._random.choice([NoRoom("full"), NotSent("too large"), UnreachableError("down")])
        self.written += len(events)


def every_endpoint() -> dict[str, Endpoint]:
    """All endpoints, open to anybody where they can be."""
    texts = [f'[[webhook]]\nname = "{name}"\npreset = "{name}"\nsecret = "c"\n' for name in PRESETS]
    texts.append('[[webhook]]\nname = "open"\ntype = "com.{data.a}"\nid = "{data.id}"\nverify = "none"\n')
    secrets = {"c": Secret("me", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}
    webhooks = read_webhooks("".join(texts), "a test", secrets.get)
    return endpoints(ReceiverOptions(allow_origin=["a.example.com"]), Credentials(), webhooks)


class Served:
    """A listening receiver, its port and its bus."""

    def __init__(self, server: asyncio.Server, state: ServerState, bus: Shaky) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self.bus = bus
        self._server, self._state = server, state

    async def close(self) -> None:
        """Closes its connections too: one that is left open is a warning in whichever test runs later."""
        self._server.close()
        await end_connections(self._state)


async def end_connections(state: ServerState) -> None:
    """Ends all connections of a server, and returns when none is left."""
    while state.connections:
        for each in list(state.connections):
            each.give_way()  # type: ignore[union-attr]
        await asyncio.sleep(0)


async def serve(seed: int) -> Served:
    receiver = Receiver(every_endpoint())
    receiver.writer = bus = Shaky(seed)
    config = uvicorn.Config(receiver, **uvicorn_settings(ReceiverOptions()))
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()

    def connection() -> Any:
        return config.http_protocol_class(config, state, {}, loop)  # type: ignore[call-arg, operator]

    return Served(await loop.create_server(connection, "127.0.0.1", 0), state, bus)


async def attack(seed: int, port: int, goes_on: Callable[[], bool]) -> Counter[int]:
    """Sends requests on several connections while `goes_on`; returns the statuses of the answers."""
    found: Counter[int] = Counter()
    paths = list(every_endpoint())

    async def send(number: int) -> None:
        hostile = Hostile(random.Random(seed * CONNECTIONS + number), paths)
        while goes_on():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                for part in hostile.request():
                    writer.write(part)
                    await asyncio.sleep(0)
                async with asyncio.timeout(ANSWER_S):
                    answer = await reader.read(65536)
                found.update(int(status) for status in _STATUS.findall(answer))
            except (TimeoutError, ConnectionError):
                found[0] += 1  # no answer, or the connection was reset
            finally:
                writer.transport.abort()

    await asyncio.gather(*(send(number) for number in range(CONNECTIONS)))
    await asyncio.sleep(ANSWER_S)  # the receiver notices that the last connections are closed
    return found


async def _host(seed: int) -> None:
    print((await serve(seed)).port, flush=True)
    await asyncio.Event().wait()


def _run(seed: int, seconds: float, log: Path) -> str | None:
    """What is wrong; None if nothing is."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "serve", str(seed)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            resident: list[tuple[float, int]] = []
            started = time.monotonic()

            def goes_on() -> bool:
                passed = time.monotonic() - started
                if process.poll() is None and (not resident or passed > resident[-1][0] + 1):
                    resident.append((passed, psutil.Process(process.pid).memory_info().rss))
                return passed < seconds and process.poll() is None

            found = asyncio.run(attack(seed, port, goes_on))
            ended = process.poll()
        finally:
            process.kill()
    first = max(size for passed, size in resident if passed <= seconds / 5)
    growth = (max(size for _, size in resident) - first) / 1024**2
    print(f"answers (0: none): {dict(sorted(found.items()))}; memory grew by {growth:.1f} MiB")
    if ended is not None:
        return f"the receiver ended with {ended}"
    if unexpected := set(found) - ANSWERS - {0}:
        return f"answers {unexpected}"
    if growth > GROWTH_MB:
        return f"memory grew by more than {GROWTH_MB} MiB"
    errors_logged = log.read_text(errors="replace")
    return f"the receiver logged errors:\n{errors_logged[:5000]}" if "Traceback" in errors_logged else None


def main() -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS") or 300)
    seed = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(2**31))
    print(f"== hostile requests over HTTP for {seconds:g} s: FUZZ_SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        fault = _run(seed, seconds, Path(folder) / "log")
    if fault is None:
        return 0
    print(
        f"{fault}\nto see this again: make fuzz-http FUZZ_SEED={seed} FUZZ_SECONDS={seconds:g}",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_host(int(sys.argv[2])))
    else:
        raise SystemExit(main())
