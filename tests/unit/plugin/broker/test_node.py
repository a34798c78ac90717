"""A node that cannot be started, or has ended by itself, leaves nothing running."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
from interlock.plugin.broker import LocalBroker, node

JAVA = """#!/bin/sh
case "$*" in *StorageTool*) exit 0;; esac
exec sleep 60
"""


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM of a node is a shell script that does nothing."""
    path = tmp_path / "java"
    path.write_text(JAVA)
    path.chmod(0o700)
    monkeypatch.setattr(node, "find_java", lambda: str(path))
    monkeypatch.setattr(node, "class_path", lambda *_, **__: "")


def test_a_node_whose_guard_cannot_be_started_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on alone, and nothing ended it together with its parent."""
    monkeypatch.setattr(node.sys, "executable", str(tmp_path / "no such file"))
    broker = LocalBroker(tmp_path / "broker")
    with pytest.raises(FileNotFoundError):
        broker.start()
    assert broker.pid is None
    assert not psutil.pid_exists(int((tmp_path / "broker" / "node.pid").read_text()))


def test_the_guard_of_a_node_that_ended_by_itself_ends_before_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process stayed, with a ResourceWarning."""
    monkeypatch.setattr(LocalBroker, "_wait_until_ready", lambda *_: None)
    broker = LocalBroker(tmp_path / "broker")
    try:
        broker.start()
        assert broker.pid is not None
        assert broker._guard is not None
        guard = broker._guard.pid
        os.kill(broker.pid, signal.SIGKILL)
        assert broker.wait(30)
        broker.start()
        assert broker.pid is not None
        assert not psutil.pid_exists(guard)
    finally:
        broker.kill()
