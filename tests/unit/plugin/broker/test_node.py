"""A node that cannot be started leaves nothing running."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from interlock.plugin.broker import LocalBroker, node

JAVA = """#!/bin/sh
case "$*" in *StorageTool*) exit 0;; esac
exec sleep 60
"""


def test_a_node_whose_guard_cannot_be_started_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on alone, and nothing ended it together with its parent."""
    java = tmp_path / "java"
    java.write_text(JAVA)
    java.chmod(0o700)
    monkeypatch.setattr(node, "find_java", lambda: str(java))
    monkeypatch.setattr(node, "class_path", lambda *_, **__: "")
    monkeypatch.setattr(node.sys, "executable", str(tmp_path / "no such file"))
    broker = LocalBroker(tmp_path / "broker")
    with pytest.raises(FileNotFoundError):
        broker.start()
    assert broker.pid is None
    assert not psutil.pid_exists(int((tmp_path / "broker" / "node.pid").read_text()))
