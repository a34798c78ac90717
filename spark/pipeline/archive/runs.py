"""Runs of a job over an archive: the latest run continues, earlier ones end.

A killed run leaves no lock to break. A run that was wrongly thought dead does no harm: before its next batch
it finds the later run, and it wrote only into its own folders.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from .. import PipelineError
from .files import Files

# How many files of earlier runs are kept, only for administrators to read.
_KEPT: Final = 20
_NAME: Final = re.compile(r"(\d{6,})-[0-9a-f]{8}")
_HIDDEN: Final = (".", "_")  # names that begin so: Spark ignores such files too


@dataclass(frozen=True)
class ArchiveRun:
    """A run. name: unique, and sorts after the names of all earlier runs."""

    files: Files
    folder: str
    name: str

    def check(self) -> None:
        """Raises PipelineError if a later run has begun."""
        # Only `begin` refuses other files: one that appears meanwhile does not end this run.
        names = [name for name in self.files.files(self.folder) if _NAME.fullmatch(name)]
        latest = max(names, default=self.name)
        if latest > self.name:
            who = self.files.read(f"{self.folder}/{latest}") or "unknown"
            raise PipelineError(
                f"another run over {self.files.root} began after this one ({who}): this one ends, and the"
                " other continues from here. Run one at a time"
            )


def begin(files: Files, folder: str) -> ArchiveRun:
    """Begins a run, which ends the current ones. folder: where the job records its runs.

    PipelineError names a file in the folder that is neither a run's nor hidden.
    """
    earlier = sorted(name for name in files.files(folder) if not name.startswith(_HIDDEN))
    number = 1
    for name in earlier:
        if (match := _NAME.fullmatch(name)) is None:
            raise PipelineError(
                f"{files.path(folder)} records the runs of this job, and {name!r} in it is not a run's file:"
                " move it to another folder, or give it its old name if you renamed it"
            )
        number = int(match[1]) + 1
    run = ArchiveRun(files, folder, f"{number:08d}-{uuid.uuid4().hex[:8]}")
    began = datetime.now(UTC).isoformat(timespec="seconds")
    who = {"host": platform.node(), "pid": os.getpid(), "user": _user(), "began": began}
    files.write(f"{folder}/{run.name}", json.dumps(who))
    for name in earlier[:-_KEPT]:
        files.remove(f"{folder}/{name}")
    return run


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, as in many containers
        return "unknown"
