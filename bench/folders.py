"""Temporary folders of the bench, in memory if the system has /dev/shm."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

# In memory, since otherwise the load of the disk would cause most of the difference between two runs.
MEMORY: Final = "/dev/shm"
IN_MEMORY: Final = os.access(MEMORY, os.W_OK)
WHERE: Final = "in memory" if IN_MEMORY else "on disk"
MOST_ID: Final = 2**31 - 1  # of a process; psutil fails for a greater one
_PREFIX: Final = "interlock-bench-"  # followed by the id of its process


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder, removed after the block. Also removes the folders of killed benches: they take memory."""
    place = Path(MEMORY if IN_MEMORY else tempfile.gettempdir())
    remove_left_behind(place)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=place) as name:
        yield Path(name)


def remove_left_behind(place: Path) -> None:
    """Removes this user's folders whose processes have ended."""
    for left in place.glob(f"{_PREFIX}*-*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # another bench removed it first
            if owner.isdecimal() and left.stat().st_uid == os.getuid() and not _runs(int(owner)):
                shutil.rmtree(left, ignore_errors=True)


def _runs(process: int) -> bool:
    return process <= MOST_ID and psutil.pid_exists(process)
