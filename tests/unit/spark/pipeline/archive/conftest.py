"""Files of an archive in a folder of this machine, without a JVM."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.layout import MARKER


class LocalFiles(Files):
    """What Hadoop's file system does for Files, done by Python's."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def folders(self, name: str = "") -> dict[str, int]:
        return self._entries(name, folders=True)

    def files(self, name: str = "") -> dict[str, int]:
        return self._entries(name, folders=False)

    def changed_ms(self, name: str) -> int | None:
        path = Path(self.path(name))
        return int(path.stat().st_mtime * 1000) if path.exists() else None

    def read(self, name: str) -> str | None:
        path = Path(self.path(name))
        return path.read_text() if path.exists() else None

    def write(self, name: str, text: str) -> None:
        path = Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def remove(self, name: str) -> None:
        path = Path(self.path(name))
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def batch(self, name: str, *, marked_ms: int | None = 0, days: tuple[str, ...] = ()) -> None:
        """A folder of batches with a file for each day; marked_ms: None for one without the marker."""
        for day in days or ("2026-11-20",):
            self.write(f"{name}/kind=event/date={day}/type_key=t/part-0.parquet", "rows")
        if marked_ms is not None:
            self.write(f"{name}/{MARKER}", "")
            os.utime(self.path(f"{name}/{MARKER}"), (marked_ms / 1000, marked_ms / 1000))

    def _entries(self, name: str, *, folders: bool) -> dict[str, int]:
        path = Path(self.path(name))
        if not path.exists():
            return {}
        return {e.name: int(e.stat().st_mtime * 1000) for e in path.iterdir() if e.is_dir() == folders}


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "archive")


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "checkpoint")
