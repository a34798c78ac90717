"""The versions of records: the one that this release writes, and those that it reads.

Since release 0.1.0, a release of version N reads records of versions N and N-1, and writes the version of the
bus record (`BusRecord.v`). The engines of a bus can be upgraded and rolled back one by one while its bus
record has version N-1. A record of any other version is an error.
"""

from __future__ import annotations

from typing import Final

VERSION = 1
FIRST_VERSION: Final = 1


def is_read(version: object) -> bool:
    """Whether this release reads records of that version."""
    return version == VERSION or version in versions_read()


def versions_read() -> range:
    """The versions that this release reads."""
    return range(max(VERSION - 1, FIRST_VERSION), VERSION + 1)
