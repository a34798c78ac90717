"""Errors of the events room, and the root of all errors of the package.

InterlockError
├── EventError      a record or an argument is no valid CloudEvent: fix the producer, or set the record aside
└── EmitError       an event was not acknowledged by the broker: emit it again (a repeat is a duplicate)
"""

from __future__ import annotations

from collections.abc import Sequence


class InterlockError(Exception):
    """Root of the errors that this package raises on purpose."""


class EventError(InterlockError, ValueError):
    """A record or an argument is no valid CloudEvent 1.0.

    problems: one sentence for each attribute or part at fault, all that were found at once.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class EmitError(InterlockError):
    """The broker did not acknowledge an event; the message names topic, bootstrap.servers and cause.

    undelivered: (source, id) of the events without an acknowledgement. Some of them may be in the topic
    all the same (the answer was lost): emit them again with the same id, a repeat counts as a duplicate.
    too_large: those of them that no attempt can deliver.
    """

    def __init__(
        self,
        message: str,
        undelivered: Sequence[tuple[str, str]] = (),
        too_large: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.undelivered: tuple[tuple[str, str], ...] = tuple(undelivered)
        self.too_large: tuple[tuple[str, str], ...] = tuple(too_large)
        super().__init__(message)
