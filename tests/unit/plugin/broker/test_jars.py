"""The broker starts only with exactly the listed jars."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import psutil
import pytest
from interlock.plugin.broker import BrokerError, jars
from interlock.plugin.broker.jars import (
    KAFKA_VERSION,
    cache_directory,
    checksums_of,
    class_path,
    read_checksums,
    versions,
)

NO_JAVA = "no java is run here"


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


def fake_java(folder: Path, script: str) -> str:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(java)


def test_verified_jars_make_the_class_path_and_others_in_the_folder_do_not(
    checksums: Path, cache: Path
) -> None:
    (cache / "another.jar").write_bytes(b"not listed")
    path = class_path(NO_JAVA, print, cache, checksums)
    assert path.split(os.pathsep) == [str(cache / "a-1.jar"), str(cache / "b-2.jar")]


def test_a_tampered_or_missing_jar_is_refused_by_name(checksums: Path, cache: Path) -> None:
    (cache / "b-2.jar").write_bytes(b"B")
    with pytest.raises(BrokerError, match=r"wrong SHA-512: b-2\.jar\. Remove that folder"):
        class_path(NO_JAVA, print, cache, checksums)
    (cache / "a-1.jar").unlink()
    with pytest.raises(BrokerError, match=r"missing: a-1\.jar\. Remove that folder"):
        class_path(NO_JAVA, print, cache, checksums)


def test_a_fetch_that_fails_leaves_no_cache_and_says_why(checksums: Path, tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo ':: UNRESOLVED DEPENDENCY: g.a#a;1: not found'\nexit 1")
    cache = tmp_path / "not there" / "kafka"
    with pytest.raises(BrokerError, match=r"cannot be fetched from Maven Central: .*not found.*network"):
        class_path(java, print, cache, checksums)
    assert [f.name for f in cache.parent.iterdir()] == ["kafka.lock"]


@pytest.mark.parametrize(
    ("script", "limit", "reason"),
    [
        ("echo ':: resolving'; exec sleep 60", "SILENCE_S", "no answer for 0.3 s"),
        ("exec sleep 60 >&- 2>&-", "SILENCE_S", "no answer for 0.3 s"),
        ("while :; do printf .; done", "FETCH_TIMEOUT_S", "not done in 0.3 s"),
    ],
    ids=["silent", "closed", "endless"],
)
def test_a_fetch_that_never_ends_is_abandoned(
    checksums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, limit: str, reason: str
) -> None:
    pid = tmp_path / "pid"
    java = fake_java(tmp_path, f"echo $$ >{pid}\n{script}")
    monkeypatch.setattr(jars, limit, 0.3)
    cache = tmp_path / "not there" / "kafka"
    with pytest.raises(BrokerError, match=f"Maven Central: {reason}. Check the network"):
        class_path(java, print, cache, checksums)
    assert not psutil.pid_exists(int(pid.read_text()))
    assert not cache.exists()


def test_a_fetched_jar_with_a_wrong_checksum_is_not_kept(checksums: Path, tmp_path: Path) -> None:
    # $1 is -Duser.home=<the working folder of the fetch>
    script = 'd="${1#*=}/jars"; mkdir "$d"; printf a >"$d/a-1.jar"; printf x >"$d/b-2.jar"'
    java = fake_java(tmp_path, script)
    cache = tmp_path / "not there" / "kafka"
    with pytest.raises(BrokerError, match=r"wrong SHA-512: b-2\.jar"):
        class_path(java, print, cache, checksums)
    assert not cache.exists()


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
        class_path(NO_JAVA, print, version="2.8.2")


def test_the_cache_is_under_xdg_cache_home_else_under_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "interlock" / f"kafka-{KAFKA_VERSION}"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "interlock" / f"kafka-{KAFKA_VERSION}"
