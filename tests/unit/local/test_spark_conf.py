"""What JVMs of the demo and of the tests are given."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from local.spark_conf import DEFAULTS, jvm_options, write


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
def test_options_of_short_lived_jvms_come_after_those_that_are_set(
    own: str, of_all: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", own)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", of_all)
    assert jvm_options() == given


def test_sparks_configuration_comes_after_the_options_that_are_set_for_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a folder whose name has a space: the variable is split at spaces."""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dhttps.proxyHost=proxy")
    environment = write(tmp_path / "a folder")
    own, *settings, log4j = environment["SPARK_SUBMIT_OPTS"].split(" ")
    assert own == "-Dhttps.proxyHost=proxy"
    assert settings == [f"-D{name}={value}" for name, value in DEFAULTS.items()]
    assert (
        Path(unquote(urlsplit(log4j.partition("=")[2]).path)) == tmp_path / "a folder" / "log4j2.properties"
    )
    assert environment["SPARK_CONF_DIR"] == "", "the files of a user's own Spark are not read"
