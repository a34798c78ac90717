"""Which Java is used, and the errors if none is suitable."""

from __future__ import annotations

from pathlib import Path

import pytest
from interlock.plugin.broker import BrokerError
from interlock.plugin.broker import java as module
from interlock.plugin.broker.java import find_java


def _fake_java(folder: Path, version_line: str) -> Path:
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize(
    "line",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'openjdk version "25" 2025-09-16',
        'openjdk version "25-ea" 2025-09-16',
        'openjdk version "17-internal" 2021-09-14',
    ],
)
def test_java_17_or_newer_on_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    java = _fake_java(tmp_path / "a folder", line)
    monkeypatch.setenv("PATH", str(java.parent))
    assert find_java() == str(java)


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(_fake_java(tmp_path / "path", 'openjdk version "21"').parent))
    java = _fake_java(tmp_path / "home" / "bin", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == str(java)


@pytest.mark.parametrize(
    ("line", "shown"), [('openjdk version "11.0.2"', "Java 11"), ('java version "1.8.0_292"', "Java 8")]
)
def test_an_older_java_is_refused_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, shown: str
) -> None:
    monkeypatch.setenv("PATH", str(_fake_java(tmp_path / "old", line).parent))
    with pytest.raises(BrokerError, match=f"is {shown}; the broker needs 17"):
        find_java()


def test_a_missing_java_is_named_with_what_to_install() -> None:
    with pytest.raises(BrokerError, match=r"No java found on PATH.*openjdk-17.*JAVA_HOME"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerError, match="has no bin/java"):
        find_java()


def test_a_java_that_prints_no_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(_fake_java(tmp_path / "odd", "Killed").parent))
    with pytest.raises(BrokerError, match="prints no version: 'Killed'"):
        find_java()
    monkeypatch.setattr(module, "version_of", lambda _java: "ea")  # without a number
    with pytest.raises(BrokerError, match="prints no version: 'ea'"):
        find_java()
