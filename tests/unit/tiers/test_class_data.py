"""Archives of classes: which JVMs share one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import class_data


def test_jvms_with_different_garbage_collectors_have_archives_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a run without ZGC took the archive of one with it, and each JVM silently ignored it."""
    monkeypatch.setattr(class_data, "ROOT", tmp_path)
    monkeypatch.setattr(class_data, "find_java", lambda: "java")
    monkeypatch.setattr(class_data, "version_of", lambda java: "17")
    monkeypatch.setattr(class_data, "class_path", lambda say: "kafka.jar")
    monkeypatch.setattr(class_data, "_write_for_a_broker", lambda folder, written: written.touch())

    def archive(of_all: str, own: str) -> str:
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", of_all)
        monkeypatch.setenv("JDK_JAVA_OPTIONS", own)
        return class_data.broker_options()[0]

    serial = archive("", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    with_z = archive("", "-XX:+UseZGC")
    assert serial != with_z
    assert archive("-XX:+UseZGC", "-Dhttps.proxyHost=proxy") == with_z
    assert archive("-Dhttps.proxyHost=proxy", "-XX:+UseSerialGC") == serial
