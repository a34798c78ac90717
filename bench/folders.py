"""Folders of the bench, in memory where the system has a place for that."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

# How busy a disk is would be most of the difference between two runs, and is no part of any question.
MEMORY: Final = "/dev/shm"
IN_MEMORY: Final = os.access(MEMORY, os.W_OK)
WHERE: Final = "in memory" if IN_MEMORY else "on disk"
MOST_ID: Final = 2**31 - 1  # of a process; psutil has no answer for a greater one
_PREFIX: Final = "interlock-bench-"  # with the id of the process whose it is


@contextmanager
def folder() -> Iterator[Path]:
    """One of its own, removed when this is left; so are those of killed benches: they take memory."""
    place = Path(MEMORY if IN_MEMORY else tempfile.gettempdir())
    remove_left_behind(place)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=place) as name:
        yield Path(name)


def remove_left_behind(place: Path) -> None:
    """The folders of this user whose processes are gone."""
    for left in place.glob(f"{_PREFIX}*-*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # another bench was quicker
            if owner.isdecimal() and left.stat().st_uid == os.getuid() and not _runs(int(owner)):
                shutil.rmtree(left, ignore_errors=True)


def _runs(process: int) -> bool:
    return process <= MOST_ID and psutil.pid_exists(process)
