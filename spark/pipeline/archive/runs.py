"""Runs of a job over an archive: the latest run continues, earlier ones end.

A killed run leaves no lock to break. A run that was wrongly thought dead does no harm: before its next batch
it finds the later run, and it wrote only into its own folders.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from .. import PipelineError
from .files import Files

# How many files of earlier runs are kept, only for administrators to read.
_KEPT: Final = 20


@dataclass(frozen=True)
class Run:
    """A run. name: unique, and sorts after the names of all earlier runs."""

    files: Files
    folder: str
    name: str

    def check(self) -> None:
        """PipelineError if a later run has begun."""
        latest = max(self.files.files(self.folder), default=self.name)
        if latest > self.name:
            who = self.files.read(f"{self.folder}/{latest}") or "unknown"
            raise PipelineError(
                f"another run over {self.files.root} began after this one ({who}): this one ends, and the"
                " other continues from here. Run one at a time"
            )


def begin(files: Files, folder: str) -> Run:
    """Begins a run, which ends the current ones. folder: where the job records its runs."""
    earlier = sorted(files.files(folder))
    number = int(earlier[-1].partition("-")[0]) + 1 if earlier else 1
    run = Run(files, folder, f"{number:08d}-{uuid.uuid4().hex[:8]}")
    began = datetime.now(UTC).isoformat(timespec="seconds")
    who = {"host": platform.node(), "pid": os.getpid(), "user": getpass.getuser(), "began": began}
    files.write(f"{folder}/{run.name}", json.dumps(who))
    for name in earlier[:-_KEPT]:
        files.remove(f"{folder}/{name}")
    return run
