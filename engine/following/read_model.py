"""What the topics of a bus hold now, for questions of other threads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ..admin.pending import Pending
from ..admin.subscriptions import Subscriptions
from ..config import BusConfig
from ..records.registration import Kind
from ..registry.registry import Registered


@dataclass(frozen=True)
class Rows:
    """Which subscriptions are wanted, and in which order. All that is given must hold.

    dags: only subscriptions that belong to these DAGs (`owner.owner_of`); None: all, also those without a DAG.
    search: a part of the name. key: of the registration, in its canonical form. event_type: a type that the
    condition names.
    """

    kind: Kind | None = None
    dag_id: str | None = None
    search: str = ""
    key: str | None = None
    event_type: str | None = None
    dags: Collection[str] | None = None
    newest_first: bool = True


class Page(NamedTuple):
    """Some of the rows. next: what `after` gives the rows behind these; None at the end. total: all rows."""

    rows: list[Registered]
    next: int | None
    total: int


class EventPlace(msgspec.Struct, frozen=True, gc=False):
    """An event of a firing: its identity and its place, without its data. time_ms: its time, or its stamp."""

    id: str
    source: str
    type: str
    subject: str | None
    time_ms: int
    topic: str
    partition: int
    offset: int


class Fired(msgspec.Struct, frozen=True, gc=False):
    """A firing. open: nobody acknowledged it. fired_ms: by the engine's clock.

    left_out: how many of its events are not in `events`, of which it has at most MOST_EVENTS.
    """

    id: str
    subscription: str
    kind: Kind
    incarnation: str
    key: str | None
    outcome: str
    fired_ms: int
    open: bool
    missing: tuple[str, ...]
    events: dict[str, tuple[EventPlace, ...]]
    left_out: int


class FiringsPage(NamedTuple):
    """Some firings, newest first. next: what `before` gives the earlier ones; None at the end."""

    rows: list[Fired]
    next: str | None


class ReadModel:
    """What is registered, pending and has fired on a bus. Thread-safe. See `Follower.model`.

    Keeps the last MOST_FIRINGS firings, and states of at most MOST_STATE_BYTES. A question about a state
    beyond that reads it from Kafka, and may raise UnreachableError.
    """

    def __init__(self, config: BusConfig) -> None:
        self.config = config

    @property
    def version(self) -> int:
        """Raised by each change that an answer can show."""
        raise NotImplementedError

    @property
    def stale_since_ms(self) -> int | None:
        """Since when the brokers do not answer (ms since the epoch); None while they do."""
        raise NotImplementedError

    @property
    def subscriptions(self) -> Subscriptions:
        """The registered subscriptions and their holders, with `now_ms` of this call."""
        raise NotImplementedError

    def by_name(self, subscription: str) -> Registered | None:
        """The registration in force of the subscription with exactly this name."""
        raise NotImplementedError

    def pending(self, registered: Registered, key: str | None = None) -> Pending:
        """What a subscription has pending. key: of this key only."""
        raise NotImplementedError

    def page(self, wanted: Rows, limit: int, after: int | None = None) -> Page:
        """At most `limit` rows behind the cursor `after`, which `Page.next` gave; it is a registry offset."""
        raise NotImplementedError

    def firings(
        self,
        limit: int,
        before: str | None = None,
        *,
        dags: Collection[str] | None = None,
        dag_id: str | None = None,
        subscription: str | None = None,
        search: str = "",
        only_open: bool = False,
    ) -> FiringsPage:
        """At most `limit` of the firings that are kept, newest first, from before the cursor `before`.

        dags: as in `Rows`. subscription: of exactly this name. search: a part of the name.
        """
        raise NotImplementedError

    def open_firings(self, subscription: str) -> int:
        """How many firings of a durable subscription are open, as far as they are kept."""
        raise NotImplementedError
