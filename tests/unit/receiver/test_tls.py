"""TLS: client certificates, and handshakes that do not end, on both event loops that uvicorn uses."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
import uvicorn
from interlock.receiver import listener
from interlock.receiver.app import Receiver
from interlock.receiver.cloudevents import CloudEvents
from interlock.receiver.connection import Connection
from interlock.receiver.credentials import Credentials
from interlock.receiver.credentials_document import Credential, Document
from interlock.receiver.server import ReceiverOptions, uvicorn_settings
from uvicorn.server import ServerState

from tests.kit.certificates import Authority, Certificate
from tests.unit.receiver.asking import Bus
from tests.unit.receiver.fuzz import end_connections

URI = "spiffe://example.com/ns/shop/sa/emitter"
REQUEST = (
    b"POST /events HTTP/1.1\r\nhost: x\r\nconnection: close\r\nce-specversion: 1.0\r\nce-id: 1\r\n"
    b"ce-source: /s\r\nce-type: t\r\ncontent-length: 0\r\n\r\n"
)
Post = Callable[[Certificate | None], Awaitable[bytes]]


@dataclass
class Served:
    """A listening receiver whose clients trust `authority`, as it does."""

    authority: Authority
    post: Post
    port: int
    state: ServerState


def run(folder: Path, loop: str, client_cert: str, check: Callable[[Served], Awaitable[None]]) -> None:
    authority = Authority(folder)
    server = authority.issue("server", "localhost")
    options = ReceiverOptions(
        tls_cert=str(server.certificate), tls_key=str(server.key), tls_client_ca=str(authority.file)
    )
    document = Document([Credential(name="shop", types=("*",), client_cert=client_cert)])
    options.check(document)

    async def served() -> None:
        receiver = Receiver({"/events": CloudEvents(Credentials(document))})
        receiver.writer = Bus()
        config = uvicorn.Config(receiver, **uvicorn_settings(options))
        config.load()
        state, running = ServerState(), asyncio.get_running_loop()
        listening = await running.create_server(
            lambda: config.http_protocol_class(config, state, {}, running), "127.0.0.1", 0, ssl=config.ssl
        )
        port = listening.sockets[0].getsockname()[1]

        async def post(certificate: Certificate | None) -> bytes:
            context = ssl.create_default_context(cafile=str(authority.file))
            if certificate is not None:
                context.load_cert_chain(certificate.certificate, certificate.key)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost"
            )
            try:
                writer.write(REQUEST)
                return (await reader.read()).partition(b"\r\n")[0]
            except (ConnectionError, ssl.SSLError):
                return b""
            finally:
                writer.transport.abort()

        try:
            async with asyncio.timeout(20):
                await check(Served(authority, post, port, state))
        finally:
            listening.close()
            await end_connections(state)

    factory = uvicorn.Config("", **uvicorn_settings(options)).get_loop_factory()
    with patch.dict(sys.modules, {} if loop == "uvloop" else {"uvloop": None}):
        runner = asyncio.Runner(loop_factory=factory)
        assert type(runner.get_loop()).__mro__[1].__module__.startswith(loop)
    with runner:
        runner.run(served())


LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@LOOPS
@pytest.mark.parametrize(
    ("client_cert", "name", "hosts"), [(URI, "a", [URI]), ("CN=b", "b", []), ("DNS:c", "x", ["d", "c"])]
)
def test_a_sender_is_recognised_by_its_certificate(
    tmp_path: Path, loop: str, client_cert: str, name: str, hosts: list[str]
) -> None:
    async def check(served: Served) -> None:
        authority, post = served.authority, served.post
        assert await post(authority.issue(name, *hosts)) == b"HTTP/1.1 202 Accepted"
        assert await post(authority.issue("other", f"{URI}x")) == b"HTTP/1.1 401 Unauthorized"
        assert await post(None) == b"HTTP/1.1 401 Unauthorized"

    run(tmp_path, loop, client_cert, check)


@LOOPS
def test_a_certificate_of_another_authority_or_an_expired_one_ends_the_connection(
    tmp_path: Path, loop: str
) -> None:
    async def check(served: Served) -> None:
        authority, post = served.authority, served.post
        assert await post(Authority(tmp_path / "other").issue("a", URI)) == b""
        assert await post(authority.issue("a", URI, ends=YESTERDAY)) == b""

    run(tmp_path, loop, URI, check)


async def raw(
    port: int, check: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """A TCP connection without TLS on our side."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await check(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()  # uvloop's loop cannot close while a handshake is under way


@LOOPS
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02"], ids=["silent", "slow"])
def test_a_handshake_that_takes_too_long_ends_the_connection(
    tmp_path: Path, loop: str, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.1)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        assert await reader.read() == b""

    async def check(served: Served) -> None:
        await raw(served.port, silent)
        assert not served.state.connections
        assert not Connection.idle.peers

    run(tmp_path, loop, URI, check)


@LOOPS
def test_what_speaks_no_tls_is_not_counted_for_longer(tmp_path: Path, loop: str) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST)
        await reader.read()

    async def check(served: Served) -> None:
        await raw(served.port, plain)
        assert not served.state.connections
        assert not Connection.idle.peers

    run(tmp_path, loop, URI, check)


@LOOPS
def test_a_handshake_counts_as_a_connection_and_gives_way_to_the_next(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handshakes were counted nowhere: silent peers could take all files of the process."""
    monkeypatch.setattr(Connection, "most_connections", 2)
    monkeypatch.setattr(listener, "HANDSHAKE_S", 60.0)

    async def check(served: Served) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(9)]
        try:
            for reader, _ in silent[:7]:
                assert await reader.read() == b""
            mine = served.authority.issue("a", URI)
            assert await served.post(mine) == b"HTTP/1.1 202 Accepted"
            assert await silent[7][0].read() == b""
            assert await served.post(mine) == b"HTTP/1.1 202 Accepted"
        finally:
            for _, writer in silent:
                writer.close()
                await writer.wait_closed()

    run(tmp_path, loop, URI, check)


@LOOPS
def test_a_handshake_ends_when_the_server_shuts_down(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran on until its time was over, for uvicorn did not know it."""
    monkeypatch.setattr(listener, "HANDSHAKE_S", 60.0)

    async def check(served: Served) -> None:
        async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            mine = served.authority.issue("a", URI)
            assert await served.post(mine) == b"HTTP/1.1 202 Accepted"  # so ours was accepted before
            for connection in list(served.state.connections):
                connection.shutdown()
            assert await reader.read() == b""

        await raw(served.port, silent)

    run(tmp_path, loop, URI, check)
