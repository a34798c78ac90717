"""Errors of the engine, grouped by what the caller does next.

InterlockError
└── EngineError
    ├── ConfigError        correct the connection or the setting that the text names
    ├── TopicsError        create or correct the topics that the text names; the engine retries
    ├── UnreachableError   check the brokers; the engine retries
    │   └── NotReadable    one topic is missing or cannot be read; the engine continues without it
    ├── TransactionAborted the transaction had no effect; roll back what was derived from its batch
    ├── NotSent            the client refused this record; others can be sent
    │   └── NoRoom         ... because its queue is full: wait for deliveries, then send again
    ├── NoSubscription     no subscription has that name: list the subscriptions
    │   └── HasFired       ... because it has fired; the text says when
    ├── LostRange          records of one partition are gone; that partition stops, others continue
    ├── RecordError        a record of an internal topic cannot be read
    │   └── UnknownVersion ... because another version wrote it: run that version
    ├── FetchError         the event behind a `dataref` is gone, or is not of this bus
    └── StillReading       a follower has not read its topics yet: ask again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events.errors import InterlockError

if TYPE_CHECKING:
    from .bus import TopicPartition


class EngineError(InterlockError):
    """Root of the engine's errors."""


class ConfigError(EngineError, ValueError):
    """A connection or setting is unusable; the text names the property."""


class NoSubscription(EngineError):
    """No registered subscription has this name."""


class HasFired(NoSubscription):
    """The subscription has fired and is no longer registered; the text describes its firing."""


class TopicsError(EngineError):
    """Topics of the bus are missing or set up differently. `problems`: one sentence for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class UnreachableError(EngineError):
    """The cluster does not answer, or refuses this client."""


class NotReadable(UnreachableError):
    """A topic does not exist, or this client cannot read it: refused, or with a batch that is damaged."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(reason)
        self.topic = topic


class TransactionAborted(EngineError):
    """The transaction was aborted and had no effect. Roll back what was derived from its batch.

    unreadable: a topic of the transaction no longer exists, or the brokers refuse this client access to it.
    """

    def __init__(self, reason: str, *, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.unreadable = unreadable


class NotSent(EngineError):
    """The client refuses a record; the text is its reason."""


class NoRoom(NotSent):
    """The client's queue is full: it accepts records again when some have been delivered."""


class LostRange(EngineError):
    """The requested offset is out of a partition's range, below its start or beyond its end."""

    def __init__(self, partition: TopicPartition, reason: str) -> None:
        super().__init__(
            f"{partition}: the position is out of range ({reason}): records were removed before they were "
            "read, or the topic was created again."
        )
        self.partition = partition


class RecordError(EngineError):
    """A record of an internal topic cannot be read; the text names topic[partition]@offset."""


class UnknownVersion(RecordError):
    """Another version wrote this record of an internal topic; the engine must not decide without it."""


class FetchError(EngineError):
    """The event behind a `dataref` cannot be returned: it is gone, or is not an event of this bus."""


class StillReading(EngineError):
    """A follower has read `read` of about `of` records; it answers when it has read them all."""

    def __init__(self, read: int, of: int) -> None:
        super().__init__(f"The topics of the bus are being read: {read} of about {of} records so far.")
        self.read, self.of = read, of
