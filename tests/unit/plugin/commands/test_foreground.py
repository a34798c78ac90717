"""Engines and deliverers in the foreground: what happens to their connection while something is wrong."""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowNotFoundException
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.engine.waiting.notices import Notice
from interlock.plugin.commands import foreground


class FakeLoops:
    """An engine that reports these notices when it starts."""

    def __init__(self, *texts: str | None) -> None:
        self.board = SimpleNamespace(listen=self._listen)
        self.used: list[BusConfig] = []
        self._texts = texts

    def _listen(self, _who: str, deliver: Callable[[Notice], None]) -> None:
        self._deliver = deliver

    def start(self) -> None:
        for text in self._texts:
            self._deliver(Notice(text))

    def use(self, config: BusConfig) -> None:
        self.used.append(config)


def configs_used(
    monkeypatch: pytest.MonkeyPatch, loops: Any, *reads: BusConfig | Exception | None
) -> list[BusConfig]:
    """Runs the loops until the last read, and returns the configs with which they continued."""
    stop, left = threading.Event(), list(reads)

    def bus_until(_args: object, _stop: object) -> BusConfig | None:
        found = left.pop(0)
        if not left:
            stop.set()
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(foreground, "READ_AGAIN_S", 0.0)
    monkeypatch.setattr(foreground, "bus_until", bus_until)
    foreground.run_until(stop, Namespace(), loops, "The engine continues")
    used: list[BusConfig] = loops.used
    return used


def test_during_a_problem_the_connection_is_read_until_it_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was deleted, or that Airflow could not read, ended the command."""
    corrected = BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
    reads = (AirflowNotFoundException("it is not defined"), ConfigError("no such property"), None, corrected)
    assert configs_used(monkeypatch, FakeLoops("The password is wrong."), *reads) == [corrected]
