"""Whether a checkpoint and an archive belong together, and neither lacks what the other knows.

With one of them gone, or older than the other, a run would archive records again or leave some out. Both hold
the archive's id; the batches are compared beside it.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from .. import PipelineError
from .files import Files
from .layout import IDENTITY, Folder, counting, folders

_MINE: Final = "archive.json"  # in the checkpoint
_BEGIN_ANEW: Final = "To begin anew, give an empty folder for both"


def tie(archive: Files, checkpoint: Files, bus: str) -> None:
    """Check that they belong together, and to this bus; a new archive is tied to its checkpoint.

    PipelineError says what is missing. A crash in here leaves what the next call completes.
    """
    identity = _read(archive, IDENTITY)
    mine = _read(checkpoint, _MINE)
    begun = _latest(checkpoint, "offsets") is not None
    complete, rest = folders(archive)
    if identity is None:
        if complete or rest:
            raise PipelineError(
                f"{archive.root} has folders of batches and no {IDENTITY}: it was copied in part, or is no"
                f" archive. {_BEGIN_ANEW}"
            )
        if mine is not None or begun:
            raise PipelineError(
                f"the archive in {archive.root} is gone, and its checkpoint {checkpoint.root} is not: going"
                f" on would leave out what was in it. Bring the archive back. {_BEGIN_ANEW}"
            )
        identity = {"archive": uuid.uuid4().hex, "bus": bus}
        archive.write(IDENTITY, json.dumps(identity))
    if identity.get("bus") != bus:
        raise PipelineError(
            f"the archive in {archive.root} is that of bus {identity.get('bus')!r}, and this job reads bus"
            f" {bus!r}: give each bus an archive of its own"
        )
    if mine is None:
        if complete or rest or begun:
            raise PipelineError(
                f"{checkpoint.root} is not the checkpoint of the archive in {archive.root}: going on would"
                f" archive records again. Bring its checkpoint back. {_BEGIN_ANEW}"
            )
        checkpoint.write(_MINE, json.dumps(identity))
    elif mine.get("archive") != identity.get("archive"):
        raise PipelineError(
            f"{checkpoint.root} is the checkpoint of another archive than that in {archive.root}: give"
            " --checkpoint of the same one"
        )


def compare(archive: Files, checkpoint: Files, *, accept_loss: bool = False) -> None:
    """Check that the archive has each batch that the checkpoint calls done, and none that it does not know.

    PipelineError names them. accept_loss: batches that are missing are gone for good, and that is taken.
    """
    # In this order, since an earlier run may be at it still: done comes after a folder, planned before it.
    done = _latest(checkpoint, "commits")
    complete, _ = folders(archive)
    counted = counting(complete)
    planned = _latest(checkpoint, "offsets")
    last = max((folder.last for folder in counted), default=-1)
    if last > (-1 if planned is None else planned):
        known = "none" if planned is None else f"{planned} as the last one"
        raise PipelineError(
            f"the archive in {archive.root} has batch {last}, and its checkpoint {checkpoint.root} knows"
            f" {known}: going on would archive records again. Bring the latest checkpoint back. {_BEGIN_ANEW}"
        )
    missing = _missing(counted, -1 if done is None else done)
    if missing and not accept_loss:
        raise PipelineError(
            f"the archive in {archive.root} lacks {missing}, done according to its checkpoint"
            f" {checkpoint.root}. Bring them back, or go on without them: --accept-loss"
        )


def _missing(counted: tuple[Folder, ...], done: int) -> str:
    """The first batches up to `done` that no folder holds, as text; empty where all are there."""
    expected = 0
    for folder in counted:
        if folder.first > expected:
            break
        expected = folder.last + 1
    else:
        if expected > done:
            return ""
        return f"batches {expected} to {done}" if expected < done else f"batch {done}"
    until = min(folder.first - 1, done)
    if expected > done:
        return ""
    return f"batches {expected} to {until}" if expected < until else f"batch {expected}"


def _latest(checkpoint: Files, log: str) -> int | None:
    """The last batch in one of the checkpoint's logs, where each has a file with its number."""
    return max((int(name) for name in checkpoint.files(log) if name.isdecimal()), default=None)


def _read(files: Files, name: str) -> dict[str, str] | None:
    text = files.read(name)
    if not text:
        return None  # a crash in `tie` wrote nothing more
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
