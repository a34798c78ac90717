"""The errors of events, and the root of all errors of Interlock.

InterlockError
├── EventError      a record or argument is not a valid CloudEvent: correct the producer or the argument
└── EmitError       the broker did not acknowledge an event: emit it again (a repeat counts once)
"""

from __future__ import annotations

from collections.abc import Sequence


class InterlockError(Exception):
    """Base class of the errors that this package raises on purpose."""


class EventError(InterlockError, ValueError):
    """A record or an argument is not a valid CloudEvent 1.0.

    problems: one sentence for each invalid attribute or part.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class EmitError(InterlockError):
    """The broker did not acknowledge an event; the message names topic, bootstrap.servers and cause.

    undelivered: (source, id) of the events without an acknowledgement. Some of them may be in the topic, if
    only the answer was lost: emit them again with the same id; a repeat counts once. Empty if nothing was
    sent, because an argument or a property of the client is wrong.
    too_large: those of them that are too large for the topic, so that a retry cannot succeed.
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
