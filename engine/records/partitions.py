"""Registry records about a partition: that it has been read, where it resumes, and its problem."""

from __future__ import annotations

from typing import Literal

import msgspec

from .versions import VERSION


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An engine has committed an offset of this partition (JSON, key `source/{topic}/{partition}`)."""

    v: int = VERSION
    topic_id: str


class ResumeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stopped partition continues (JSON, key `resume/{topic}/{partition}`).

    `end`: one past its last offset at that time, -1 if unknown. Marks beyond it are wrong.
    """

    v: int = VERSION
    topic_id: str
    offset: int
    end: int = -1


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a partition, written by its engine (JSON, key `problem/{topic}/{partition}`)."""

    v: int = VERSION
    text: str


def registry_key(kind: Literal["source", "resume", "problem"], topic: str, partition: int) -> bytes:
    """The registry key of a source, resume or problem record."""
    return f"{kind}/{topic}/{partition}".encode()
