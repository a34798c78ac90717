"""The demo's folder: emptied at each start, and so never a folder that holds anything else."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

# Says that the folder is the demo's to empty. A running demo holds a lock on it.
MARK = ".interlock-demo"
# Airflow's database, the broker's segments, Spark's scratch files and the logs of all.
LEAST_FREE_BYTES = 1 << 30


class FolderError(RuntimeError):
    """The folder cannot be the demo's; the message is one sentence for the user."""


@contextlib.contextmanager
def own_folder(folder: Path, least_free_bytes: int = LEAST_FREE_BYTES) -> Iterator[None]:
    """A folder without anything in it, for the demo alone while the block runs.

    Removes what the last demo left there. FolderError, and nothing is removed, when the folder has contents
    and no demo made it, when another demo uses it, or when its disk is too full.
    """
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is no folder; set DEMO_DIR to one that is new or empty")
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
    """Removes all but the mark: what an interrupted removal leaves is still the demo's."""
    for entry in folder.iterdir():
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
