"""The demo's folder. Each start empties it, so a folder with other contents is refused."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

# Marks a folder that the demo may empty. A running demo holds a lock on the file.
MARK = ".interlock-demo"
# For Airflow's database, the broker's segments, Spark's scratch files and all logs.
LEAST_FREE_BYTES = 1 << 30


class FolderError(RuntimeError):
    """The demo cannot use the folder; the message is one sentence for the user."""


@contextlib.contextmanager
def own_folder(folder: Path, least_free_bytes: int = LEAST_FREE_BYTES) -> Iterator[None]:
    """Locks the folder for this demo inside the block, and empties it first.

    Raises FolderError, and removes nothing, if the folder has contents and was not made by a demo, or if
    another demo uses it. Also raises FolderError if its disk is too full.
    """
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; set DEMO_DIR to a new or empty folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise FolderError(
            f"{folder} is not empty and was not made by the demo, which would empty it; "
            "set DEMO_DIR to a new or empty folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / MARK).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(
                f"another demo runs in {folder}; stop it, or set DEMO_DIR to another folder"
            ) from None
        if mark.tell() == 0:
            mark.write("`make demo` made this folder and empties it at each start.\n")
            mark.flush()
        _empty(folder)
        free = shutil.disk_usage(folder).free
        if free < least_free_bytes:
            raise FolderError(
                f"{folder} has {free >> 20} MiB free and the demo needs {least_free_bytes >> 20} MiB; "
                "make room, or set DEMO_DIR to a folder on another disk"
            )
        yield


def _empty(folder: Path) -> None:
    """Removes everything except the mark, so that the demo knows its folder even after an interruption."""
    for entry in folder.iterdir():
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
