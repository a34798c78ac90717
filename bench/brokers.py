"""The brokers of the bench: real ones, each with files of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interlock.plugin.broker import LocalBroker

from .lines import progress

# In memory where the system has such a folder: how busy a disk is would be most of the difference between two
# runs, and is no part of any question.
FOLDER: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FILES: Final = "in memory" if FOLDER else "on disk"


@contextmanager
def started(properties: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a broker, which ends with its files when this is left."""
    with (
        tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=FOLDER) as folder,
        LocalBroker(Path(folder), properties=dict(properties or {}), report=progress) as broker,
    ):
        yield broker.bootstrap_servers
