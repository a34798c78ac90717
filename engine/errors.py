"""Errors of the engine, grouped by what the caller does next.

InterlockError
└── EngineError
    ├── ConfigError        mend the connection or the setting named in the text
    ├── TopicsError        create or mend the topics named in the text; the engine tries again
    ├── UnreachableError   nothing to do but look at the broker; the engine tries again
    │   └── NotReadable    one topic is not there, or may not be read: a listed one is left out meanwhile
    ├── TransactionAborted the batch had no effect; open the partitions again
    ├── NotSent            this record was not taken; others are
    │   └── NoRoom         ... for now: its client holds too many that are on their way
    ├── NoSubscription     no subscription has that name: look at those there are
    │   └── HasFired       ... any more: it has fired, and the text says when
    ├── LostRange          records of one partition are gone; that partition stops, the others go on
    └── RecordError        an internal topic holds what cannot be read
        └── UnknownVersion ... because another version wrote it: run that one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events.errors import InterlockError

if TYPE_CHECKING:
    from .bus import TopicPartition


class EngineError(InterlockError):
    """Root of what the engine raises."""


class ConfigError(EngineError, ValueError):
    """A bus cannot be set up from what was given; the text names the property."""


class NoSubscription(EngineError):
    """No subscription is called so."""


class HasFired(NoSubscription):
    """The subscription is registered no more, since it fired; the text tells of its firing."""


class TopicsError(EngineError):
    """Topics of the bus are missing or made differently; `.problems` has one sentence for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class UnreachableError(EngineError):
    """The cluster does not answer, or does not let this client in."""


class NotReadable(UnreachableError):
    """A topic is not there, or the brokers do not let this client read it."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(reason)
        self.topic = topic


class TransactionAborted(EngineError):
    """The transaction was aborted and nothing of it is visible; drop what was derived from the batch.

    unreadable: since the brokers refuse a topic of it, or know it no more.
    """

    def __init__(self, reason: str, *, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.unreadable = unreadable


class NotSent(EngineError):
    """A client does not take a record; the text is its reason."""


class NoRoom(NotSent):
    """A client takes no more records until some that are on their way have arrived."""


class LostRange(EngineError):
    """A partition has no record at the offset that was asked for, below its start or beyond its end."""

    def __init__(self, partition: TopicPartition, reason: str) -> None:
        super().__init__(
            f"{partition}: the position is out of range ({reason}): records were removed before they were "
            "read, or the topic is a new one."
        )
        self.partition = partition


class RecordError(EngineError):
    """A record of an internal topic cannot be read; the text names topic[partition]@offset."""


class UnknownVersion(RecordError):
    """A record of an internal topic was written by another version; nothing may be decided without it."""


class FetchError(EngineError):
    """What a `dataref` stands for cannot be given: it is gone, not the bus's, or another event."""
