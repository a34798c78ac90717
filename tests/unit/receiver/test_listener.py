"""How the receiver accepts connections: a process of its own under a flood, and a process without files."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn
from interlock.receiver import listener as module
from interlock.receiver.app import Receiver
from interlock.receiver.listener import Listener, open_sockets
from interlock.receiver.server import ReceiverOptions, uvicorn_settings
from uvicorn.server import ServerState

from tests.kit.certificates import Authority
from tests.kit.full_socket import FullSocket
from tests.unit.receiver.fuzz import end_connections

FILES = 600  # that the process may open; 300 of them are left for connections
FLOOD = 800
DONE = 350  # peers whose handshakes are done, which takes longer
# The broker does not exist: the process can be asked whether it lives, which is enough.
SERVER = """
import sys
if sys.argv[2] == "asyncio":
    sys.modules["uvloop"] = None
from interlock.engine.config import BusConfig
from interlock.receiver.server import ReceiverOptions, build_app, serve

certificate, key = sys.argv[3:] or (None, None)
options = ReceiverOptions(port=int(sys.argv[1]), tls_cert=certificate, tls_key=key)
config = BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
serve(build_app(config, options, None, lambda *_: None), options)
"""
PROBE = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


class Process:
    """A receiver's process. is_tls: it shows the certificate of an authority made for it."""

    def __init__(self, folder: Path, loop: str, is_tls: bool) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        files: list[str] = []
        self._context: ssl.SSLContext | None = None
        if is_tls:
            authority = Authority(folder)
            server = authority.issue("server", "localhost")
            files = [str(server.certificate), str(server.key)]
            self._context = ssl.create_default_context(cafile=str(authority.file))
        script = folder / "server.py"
        script.write_text(SERVER)
        command = ["prlimit", f"--nofile={FILES}:{FILES}", sys.executable, str(script), str(self.port), loop]
        self._log = folder / "log"
        with self._log.open("w") as out:
            self.popen = subprocess.Popen([*command, *files], stdout=out, stderr=out)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def files(self) -> int:
        return psutil.Process(self.popen.pid).num_fds()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def secure(self, tcp: socket.socket) -> socket.socket:
        """The connection after its handshake, if the process speaks TLS."""
        if self._context is None:
            return tcp
        try:
            return self._context.wrap_socket(tcp, server_hostname="localhost")
        except OSError:
            tcp.close()
            raise

    def healthz(self) -> bytes:
        """The status of a new connection's request."""
        with self.secure(self.connect()) as connection:
            connection.sendall(PROBE)
            return connection.recv(4096).partition(b"\r\n")[0]


@contextmanager
def process(folder: Path, loop: str, is_tls: bool, eventually: Any) -> Iterator[Process]:
    made = Process(folder, loop, is_tls)

    def answers() -> bool:
        assert made.popen.poll() is None, made.log
        with suppress(OSError):
            return made.healthz() == b"HTTP/1.1 200 OK"
        return False

    try:
        eventually("it answers", answers)
        yield made
    finally:
        made.popen.kill()
        made.popen.wait()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("peers", ["silent", "slow", "handshake done", "without TLS"])
def test_a_sender_is_answered_whoever_holds_connections_open(
    tmp_path: Path, eventually: Any, loop: str, peers: str
) -> None:
    """Peers that did not end their TLS handshakes took all files: others were reset, and Kafka's client
    could open no socket. When peers had sent nothing else, others were answered 503.
    """
    with process(tmp_path, loop, peers != "without TLS", eventually) as receiver, ExitStack() as stack:
        held: list[socket.socket] = []
        for _ in range(DONE if peers == "handshake done" else FLOOD):
            peer = receiver.connect()
            if peers == "handshake done":
                peer = receiver.secure(peer)
            held.append(stack.enter_context(peer))
            if peers == "slow":
                with suppress(OSError):  # it has given way already
                    peer.sendall(b"\x16\x03\x01\x02")
        for _ in range(5):
            assert receiver.healthz() == b"HTTP/1.1 200 OK"
        assert receiver.files < FILES
        assert "Too many open files" not in receiver.log
        assert all(is_closed(peer) for peer in held[: DONE - 300])


def is_closed(peer: socket.socket) -> bool:
    """Returns when it is, or raises TimeoutError."""
    try:
        return peer.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_process_without_files_accepts_again_when_it_has_some(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop's own server can stop listening for ever."""

    async def served() -> bytes:
        config = uvicorn.Config(Receiver({}), **uvicorn_settings(ReceiverOptions()))
        config.load()
        state, running = ServerState(), asyncio.get_running_loop()
        (found,) = await open_sockets(running, "127.0.0.1", 0, 10)
        full = FullSocket(fileno=found.detach())
        listening = Listener(
            running, [full], lambda: config.http_protocol_class(config, state, {}, running), None
        )
        try:
            reader, writer = await asyncio.open_connection(*full.getsockname())
            writer.write(PROBE)
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer.partition(b"\r\n")[0]
        finally:
            listening.close()
            await end_connections(state)

    monkeypatch.setattr(module, "_AGAIN_S", 0.0)
    if loop == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    factory = uvicorn.Config("", **uvicorn_settings(ReceiverOptions())).get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(served()) == b"HTTP/1.1 200 OK"


def test_an_address_that_is_taken_or_not_of_this_machine_is_named() -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        (first,) = await open_sockets(loop, "127.0.0.1", 0, 10)
        with first, pytest.raises(OSError, match=r"127\.0\.0\.1"):
            await open_sockets(loop, "127.0.0.1", first.getsockname()[1], 10)
        for host in ("192.0.2.1", "no-such-host.invalid"):
            with pytest.raises(OSError, match=host):
                await open_sockets(loop, host, 0, 10)

    asyncio.run(check())
