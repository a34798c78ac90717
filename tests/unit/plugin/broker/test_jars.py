"""The broker starts only with exactly the listed jars."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from interlock.plugin.broker import BrokerError
from interlock.plugin.broker.jars import (
    KAFKA_VERSION,
    cache_directory,
    checksums_of,
    class_path,
    read_checksums,
    versions,
)


@pytest.fixture
def checksums(tmp_path: Path) -> Path:
    """A checksum file of two jars, a-1.jar (b"a") and b-2.jar (b"b")."""
    lines = [f"{hashlib.sha512(n.encode()).hexdigest()}  g.{n}:{n}:{v}" for n, v in (("a", 1), ("b", 2))]
    file = tmp_path / "list.sha512"
    file.write_text("# a list\n" + "\n".join(lines) + "\n")
    return file


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "a-1.jar").write_bytes(b"a")
    (folder / "b-2.jar").write_bytes(b"b")
    return folder


def test_verified_jars_make_the_class_path_and_others_in_the_folder_do_not(
    checksums: Path, cache: Path
) -> None:
    (cache / "another.jar").write_bytes(b"not listed")
    path = class_path(print, cache, checksums)
    assert path.split(os.pathsep) == [str(cache / "a-1.jar"), str(cache / "b-2.jar")]


def test_a_tampered_or_missing_jar_is_refused_by_name(checksums: Path, cache: Path) -> None:
    (cache / "b-2.jar").write_bytes(b"B")
    with pytest.raises(BrokerError, match=r"wrong SHA-512: b-2\.jar\. Remove that folder"):
        class_path(print, cache, checksums)
    (cache / "a-1.jar").unlink()
    with pytest.raises(BrokerError, match=r"missing: a-1\.jar\. Remove that folder"):
        class_path(print, cache, checksums)


@pytest.mark.parametrize("version", versions())
def test_each_checksum_file_names_each_jar_once_with_a_full_checksum(version: str) -> None:
    listed = read_checksums(checksums_of(version))
    assert len({jar.name for jar in listed}) == len(listed)
    assert all(len(bytes.fromhex(jar.sha512)) == 64 for jar in listed)
    assert {f"kafka_2.13-{version}.jar", "log4j-slf4j-impl-2.25.4.jar"} <= {jar.name for jar in listed}


def test_a_version_without_checksums_is_refused_with_the_available_ones() -> None:
    assert versions() == ["3.3.2", KAFKA_VERSION, "4.3.0"]
    with pytest.raises(
        BrokerError, match=r"Kafka 2\.8\.2 is not available. Choose one of 3\.3\.2, 4\.2\.2, 4\.3\.0"
    ):
        class_path(print, version="2.8.2")


def test_the_cache_is_under_xdg_cache_home_else_under_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "interlock" / f"kafka-{KAFKA_VERSION}"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "interlock" / f"kafka-{KAFKA_VERSION}"
