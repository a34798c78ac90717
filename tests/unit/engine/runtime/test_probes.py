"""Probes over HTTP: what they answer, and that clients which send nothing keep nobody else out."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from interlock.engine.errors import ConfigError
from interlock.engine.runtime import probes as module
from interlock.engine.runtime.probes import MOST_OPEN, NOT_READY, Probes
from interlock.plugin.broker.ports import free_ports

from tests.kit.full_socket import FullSocket

HOST = "127.0.0.1"


@dataclass
class Loops:
    problem: str | None = None
    is_ready: bool = False


@pytest.fixture
def loops() -> Loops:
    return Loops()


@pytest.fixture
def port(loops: Loops) -> Iterator[int]:
    [port] = free_ports(1)
    with Probes(loops, HOST, port):
        yield port


def ask(port: int, path: str, method: str = "GET", host: str = HOST) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_healthz_is_503_with_the_problem_of_the_loops(loops: Loops, port: int) -> None:
    assert ask(port, "/healthz") == (200, "ok\n")
    loops.problem = "The engine: a thread hangs."
    assert ask(port, "/healthz") == (503, "The engine: a thread hangs.\n")


def test_readyz_is_503_until_the_loops_are_ready_even_while_they_are_healthy(loops: Loops, port: int) -> None:
    assert ask(port, "/readyz") == (503, f"{NOT_READY}\n")
    loops.is_ready = True
    assert ask(port, "/readyz?verbose") == (200, "ok\n")
    loops.problem = "An earlier thread hangs; the present one has joined the group."
    assert ask(port, "/readyz") == (200, "ok\n")


def test_head_has_no_body_and_other_paths_and_methods_are_refused(loops: Loops, port: int) -> None:
    assert ask(port, "/readyz", "HEAD") == (503, "")
    assert ask(port, "/")[0] == 404
    assert ask(port, "/healthz", "POST")[0] == 501


def test_connections_that_send_nothing_keep_no_probe_out_and_are_ended(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 60)
    silent = [socket.create_connection((HOST, port), 30) for _ in range(2 * MOST_OPEN)]
    try:
        assert ask(port, "/healthz") == (200, "ok\n")
        assert silent[0].recv(1) == b""  # the oldest one was ended
    finally:
        for each in silent:
            each.close()


def test_without_open_files_it_accepts_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread took all the time that the loops left."""

    pauses: list[float] = []
    monkeypatch.setattr(module, "sleep", pauses.append, raising=False)
    [port] = free_ports(1)
    probes = Probes(Loops(), HOST, port)
    probes._server.socket = FullSocket(fileno=probes._server.socket.detach())
    with probes:
        assert ask(port, "/healthz") == (200, "ok\n")
    assert pauses == [module.AGAIN_S] * 3


def test_a_port_that_is_taken_and_an_address_of_another_host_are_refused_with_the_reason(port: int) -> None:
    with pytest.raises(ConfigError, match=rf"cannot be served on {HOST}:{port}: .*in use.*--probe-port"):
        Probes(Loops(), HOST, port)
    with pytest.raises(ConfigError, match=r"cannot be served on 192\.0\.2\.1:"):
        Probes(Loops(), "192.0.2.1", port)


def test_they_listen_on_ipv6_too() -> None:
    [port] = free_ports(1, "::1")
    with Probes(Loops(is_ready=True), "::1", port):
        assert ask(port, "/readyz", host="::1") == (200, "ok\n")


@pytest.mark.parametrize("host", ["a..b", ".example.com", "h" * 64, "", "no such name", "caf\udce9"])
def test_an_address_that_is_none_is_refused_with_the_option(loops: Loops, host: str) -> None:
    with pytest.raises(ConfigError, match="Choose another --probe-port or --probe-host"):
        Probes(loops, host, 1)
