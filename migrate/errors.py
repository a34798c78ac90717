"""The errors of reading a file of resources, or one field of a resource."""

from __future__ import annotations

from ..events.errors import InterlockError


class UnreadableFile(InterlockError, ValueError):
    """A file is no YAML or JSON of resources; the text says where and why."""


class NotTranslated(InterlockError, ValueError):
    """This field cannot be translated, and without it the result would mean something else.

    field: its path, such as spec.filters[0].exact. reason: why, and what to do.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
