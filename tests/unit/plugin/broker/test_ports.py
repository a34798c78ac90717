"""Which ports a broker uses."""

from __future__ import annotations

import errno
import os
import random

import pytest
from interlock.plugin.broker import BrokerError, ports
from interlock.plugin.broker.ports import free_ports, try_bind


def test_ports_lie_below_those_of_outgoing_connections_and_are_distinct() -> None:
    found = free_ports(100)
    assert len(set(found)) == 100
    assert min(found) >= 20_000
    assert max(found) < 32_768
    for port in found[:10]:
        try_bind("127.0.0.1", port)


def test_ports_in_use_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_two(_host: str, port: int) -> None:
        if port not in (20_001, 32_767):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    monkeypatch.setattr(ports, "try_bind", all_but_two)
    assert sorted(free_ports(2)) == [20_001, 32_767]
    with pytest.raises(BrokerError, match=r"Only 2 of 3 ports can be bound on 127\.0\.0\.1: .*in use"):
        free_ports(3)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(BrokerError, match=r"No port can be bound on 192\.0\.2\.1: .*assign"):
        free_ports(1, "192.0.2.1")


def test_ports_are_drawn_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    class Counted(random.SystemRandom):
        def getrandbits(self, k: int) -> int:
            drawn.append(k)
            return super().getrandbits(k)

    monkeypatch.setattr(ports, "chance", Counted())
    monkeypatch.setattr(ports, "try_bind", lambda _host, _port: None)
    assert len(free_ports(2)) == 2
    assert 2 <= len(drawn) < 100  # draws out of range are repeated
