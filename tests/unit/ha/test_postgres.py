"""How `make ha` finds PostgreSQL, and its error without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.processes import ServiceError
from tests.ha import postgres


def make_binaries(folder: Path, version: str) -> Path:
    bin_ = folder / version / "bin"
    bin_.mkdir(parents=True)
    for name in postgres.TOOLS:
        (bin_ / name).touch(mode=0o755)
    return bin_


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with servers in this folder and none on PATH."""
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path


def test_the_error_without_postgresql_says_how_to_install_it(debian: Path) -> None:
    with pytest.raises(ServiceError, match="apt install postgresql"):
        postgres.binaries()


def test_the_newest_server_is_taken(debian: Path) -> None:
    make_binaries(debian, "9")
    newest = make_binaries(debian, "15")
    assert postgres.binaries() == newest


def test_a_server_on_the_path_comes_first(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_binaries(debian, "15")
    own = make_binaries(debian / "elsewhere", "12")
    monkeypatch.setenv("PATH", str(own))
    assert postgres.binaries() == own


def test_a_link_on_the_path_is_followed_to_all_tools(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = make_binaries(debian / "elsewhere", "12")
    links = debian / "links"
    links.mkdir()
    (links / "postgres").symlink_to(own / "postgres")
    monkeypatch.setenv("PATH", str(links))
    assert postgres.binaries() == own
