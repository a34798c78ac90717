"""Runs of a job over an archive: the latest one counts, and those before it end.

A run that was killed leaves no lock that somebody would have to break, and one that was thought dead does no
harm: it finds a later run before its next batch, and what it wrote meanwhile lies in folders of its own.
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

# Files of earlier runs that are left, to be read by people.
_KEPT: Final = 20


@dataclass(frozen=True)
class Run:
    """One run. `name`: unique, and later in order than the names of those that were there before it."""

    files: Files
    folder: str
    name: str

    def check(self) -> None:
        """PipelineError where a later run has begun."""
        latest = max(self.files.files(self.folder), default=self.name)
        if latest > self.name:
            who = self.files.read(f"{self.folder}/{latest}") or "unknown"
            raise PipelineError(
                f"another run over {self.files.root} began after this one ({who}): this one ends, and the"
                " other goes on from here. Run one at a time"
            )


def begin(files: Files, folder: str) -> Run:
    """A new run, which ends those that are under way. folder: where the job notes its runs."""
    earlier = sorted(files.files(folder))
    number = int(earlier[-1].partition("-")[0]) + 1 if earlier else 1
    run = Run(files, folder, f"{number:08d}-{uuid.uuid4().hex[:8]}")
    began = datetime.now(UTC).isoformat(timespec="seconds")
    who = {"host": platform.node(), "pid": os.getpid(), "user": getpass.getuser(), "began": began}
    files.write(f"{folder}/{run.name}", json.dumps(who))
    for name in earlier[:-_KEPT]:
        files.remove(f"{folder}/{name}")
    return run
