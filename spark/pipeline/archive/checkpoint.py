"""Checks that a checkpoint and an archive belong together and hold the same batches.

If one of them is missing or older than the other, a run would archive records twice or skip some. Both hold
the archive's id.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Final

from .. import PipelineError
from .files import Files
from .layout import IDENTITY, TOPICS, Folder, folders, valid_folders

_OWNER: Final = "archive.json"  # in the checkpoint: the id of its archive
_START_AGAIN: Final = "To start again, give an empty folder for both"


def check_pair(archive: Files, checkpoint: Files, bus: str) -> None:
    """Checks that archive, checkpoint and bus belong together; binds a new archive to its checkpoint.

    PipelineError says what is missing. After a crash the next call completes the binding.
    """
    identity = _read(archive, IDENTITY)
    owner = _read(checkpoint, _OWNER)
    started = _latest(checkpoint, "offsets") is not None
    complete, rest = folders(archive)
    if identity is None:
        if complete or rest:
            raise PipelineError(
                f"{archive.root} has folders of batches but no {IDENTITY}: it is an incomplete copy, or not"
                f" an archive. {_START_AGAIN}"
            )
        if owner is not None or started:
            raise PipelineError(
                f"the archive in {archive.root} is missing, but its checkpoint {checkpoint.root} exists:"
                f" continuing would skip the records that it held. Restore the archive. {_START_AGAIN}"
            )
        identity = {"archive": uuid.uuid4().hex, "bus": bus}
        archive.write(IDENTITY, json.dumps(identity))
    if identity.get("bus") != bus:
        raise PipelineError(
            f"the archive in {archive.root} belongs to bus {identity.get('bus')!r}, but this job reads bus"
            f" {bus!r}: give each bus its own archive"
        )
    if owner is None:
        if complete or rest or started:
            raise PipelineError(
                f"{checkpoint.root} is not the checkpoint of the archive in {archive.root}: continuing would"
                f" archive records twice. Restore its checkpoint. {_START_AGAIN}"
            )
        checkpoint.write(_OWNER, json.dumps(identity))
    elif owner.get("archive") != identity.get("archive"):
        raise PipelineError(
            f"{checkpoint.root} is the checkpoint of another archive, not of {archive.root}: set --checkpoint"
            " to that of this archive"
        )


def check_topics(archive: Files, ids: Mapping[str, str], *, accept_loss: bool = False) -> None:
    """Checks that the topics are those that the archive was made of, and notes them.

    ids: {topic: id}; a topic that is deleted and created again gets another id. PipelineError names such
    topics. accept_loss: continue with the new ones.
    """
    known = _read(archive, TOPICS) or {}
    changed = sorted(name for name, id_ in ids.items() if known.get(name, id_) != id_)
    if changed and not accept_loss:
        raise PipelineError(
            f"the archive in {archive.root} holds records of topics that were deleted and created again"
            f" since: {', '.join(changed)}. Continuing at the offsets of the checkpoint would skip the first"
            f" records of the new ones. Continue without them: --accept-loss. {_START_AGAIN}"
        )
    if not ids.items() <= known.items():
        archive.write(TOPICS, json.dumps({**known, **ids}))


def check_batches(archive: Files, checkpoint: Files, *, accept_loss: bool = False) -> None:
    """Checks that the archive has every batch that is done in the checkpoint, and no batch unknown to it.

    PipelineError names the batches. accept_loss: continue without missing batches.
    """
    # In this order, since an earlier run may still write: a batch is planned before its folder and done
    # after.
    done = _latest(checkpoint, "commits")
    complete, _ = folders(archive)
    valid = valid_folders(complete)
    planned = _latest(checkpoint, "offsets")
    last = max((folder.last for folder in valid), default=-1)
    if last > (-1 if planned is None else planned):
        known = "none" if planned is None else f"{planned} as the last one"
        raise PipelineError(
            f"the archive in {archive.root} has batch {last}, but its checkpoint {checkpoint.root} knows"
            f" {known}: continuing would archive records twice. Restore the latest checkpoint. {_START_AGAIN}"
        )
    missing = _missing(valid, -1 if done is None else done)
    if missing and not accept_loss:
        raise PipelineError(
            f"the archive in {archive.root} lacks {missing}, done according to its checkpoint"
            f" {checkpoint.root}. Restore them, or continue without them: --accept-loss"
        )


def _missing(valid: tuple[Folder, ...], done: int) -> str:
    """The first batches up to `done` that no folder holds, as text; empty if all exist."""
    expected, until = 0, done
    for folder in valid:
        if folder.first > expected:
            until = min(folder.first - 1, done)
            break
        expected = folder.last + 1
    if expected > done:
        return ""
    return f"batches {expected} to {until}" if expected < until else f"batch {expected}"


def _latest(checkpoint: Files, log: str) -> int | None:
    """The last batch in one of the checkpoint's logs, which has a file named by each batch's number."""
    return max((int(name) for name in checkpoint.files(log) if name.isdecimal()), default=None)


def _read(files: Files, name: str) -> dict[str, str] | None:
    text = files.read(name)
    if not text:
        return None  # empty after a crash in `check_pair`
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
