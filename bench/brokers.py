"""The brokers of the bench: real ones, each with files of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from interlock.plugin.broker import LocalBroker

from .lines import progress

# In memory where the system has such a folder: how busy a disk is would be most of the difference between two
# runs, and is no part of any question.
FOLDER: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FILES: Final = "in memory" if FOLDER else "on disk"
_PREFIX: Final = "interlock-bench-"  # with the id of the process whose they are


@contextmanager
def started(properties: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a broker, which ends with its files when this is left."""
    _remove_left_behind()
    with (
        tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=FOLDER) as folder,
        LocalBroker(Path(folder), properties=dict(properties or {}), report=progress) as broker,
    ):
        yield broker.bootstrap_servers


def _remove_left_behind() -> None:
    """The files of benches that were killed: they take memory."""
    for folder in Path(FOLDER or tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
