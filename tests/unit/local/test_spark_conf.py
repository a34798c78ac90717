"""What JVMs of the demo and of the tests are given."""

from __future__ import annotations

import pytest

from local.spark_conf import jvm_options


@pytest.mark.parametrize(
    ("own", "of_all", "given"),
    [
        ("", "", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        ("-Dhttps.proxyHost=proxy", "", "-Dhttps.proxyHost=proxy -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        ("", "-Dhttps.proxyHost=proxy", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        ("-XX:+UseZGC", "", "-XX:+UseZGC -XX:TieredStopAtLevel=1"),
        ("", "-XX:+UseZGC", "-XX:TieredStopAtLevel=1"),
        ("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    ],
)
def test_options_of_short_lived_jvms_stand_behind_those_that_are_set(
    own: str, of_all: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", own)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", of_all)
    assert jvm_options() == given
