"""What the topics of a bus hold now, for questions of other threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ..bus import End, Record
from ..config import BusConfig
from ..errors import UnknownVersion
from ..records.registration import Kind
from ..registry.lazy import LazyRegistry, Listed
from ..registry.leases import is_lease
from ..registry.registry import Registered
from .fired import EventPlace, Fired
from .firings import DurableFirings, LastFirings, OpenCount
from .index import Index, merged
from .kafka_view import pending_of, require_one, state_partitions, wait_names
from .owner import owner_of
from .rows import FilteredRows, Page, Rows
from .states import Pending, States
from .subscriptions import Subscriptions

__all__ = ["EventPlace", "Fired", "FiringsPage", "Page", "Pending", "ReadModel", "Rows"]

MOST_STATE_BYTES: Final = 300 * 1024 * 1024


class FiringsPage(NamedTuple):
    """Some firings, newest first. next: what `before` gives the earlier ones; None at the end."""

    rows: list[Fired]
    next: str | None


class ReadModel:
    """What is registered, pending and has fired on a bus: a `BusView`. Thread-safe. See `Follower.model`.

    It keeps states of at most MOST_STATE_BYTES: a question about one beyond that reads its partition from
    Kafka, and may raise UnreachableError. It keeps the last firings (`LastFirings`), and nothing of events.
    """

    def __init__(self, config: BusConfig) -> None:
        self.config = config
        self._lock = threading.RLock()
        self._index = Index(config.deployment)
        self._registry = LazyRegistry(self._index.add, self._remove, share=True)
        self._states: dict[int, States | None] = {}  # by partition; None: it did not fit
        self._state_bytes = 0
        self._firings = LastFirings()
        self._version, self._leases_version = time.time_ns() // 1000, 0
        self._stale_since_ms: int | None = None
        self._filtered = FilteredRows(self._registry)
        self._kinds = {config.topic(kind): kind for kind in ("subscription", "state", "action")}

    # -- what the follower does

    def apply(self, item: Record | End) -> None:
        """Process the next item of a topic. Call `read_lease` before the end of the subscription topic."""
        kind = self._kinds.get(item.source.topic)
        with self._lock:
            if kind == "subscription":
                self._apply_registry(item)
            elif isinstance(item, Record) and kind == "state":
                self._apply_state(item)
            elif isinstance(item, Record) and kind == "action" and self._firings.apply(item):
                self._version += 1

    def read_lease(self) -> bool:
        """Read one lease that was put off, which may take milliseconds. Returns False if there is none."""
        with self._lock:
            return self._registry.read_lease()

    def unknown(self) -> UnknownVersion | None:
        """The error if the registry has a record that this release must not ignore."""
        with self._lock:
            try:
                self._registry.require_known()
            except UnknownVersion as e:
                return e
            return None

    def be_stale(self, since_ms: int | None) -> None:
        """Since when the brokers do not answer; None: they do."""
        with self._lock:
            if (since_ms is None) != (self._stale_since_ms is None):
                self._version += 1
                self._stale_since_ms = since_ms

    def _remove(self, listed: Listed) -> None:
        self._index.remove(listed)
        self._version += 1

    def _apply_registry(self, item: Record | End) -> None:
        self._registry.apply(item)
        changes = self._registry.leases.changes
        if (isinstance(item, Record) and not is_lease(item.key)) or changes != self._leases_version:
            self._version += 1
        self._leases_version = changes

    def _apply_state(self, record: Record) -> None:
        number = record.source.partition
        states = self._states.get(number)
        if states is None:
            if number in self._states:
                self._version += 1
                return
            states = self._states[number] = States(own_text=self._registry.own_text)
        before = states.size
        if states.apply(record) is not None:
            self._version += 1
        self._state_bytes += states.size - before
        if self._state_bytes > MOST_STATE_BYTES:
            self._state_bytes -= states.size
            self._states[number] = None

    # -- questions

    @property
    def version(self) -> int:
        """Raised by each change that an answer can show. No two models of a process have the same one."""
        return self._version

    @property
    def stale_since_ms(self) -> int | None:
        """Since when the brokers do not answer (ms since the epoch); None while they do."""
        return self._stale_since_ms

    @property
    def subscriptions(self) -> Subscriptions:
        """The registered subscriptions and their holders, with `now_ms` of this call."""
        return Subscriptions(self.config, self._registry, self._lock)

    def by_name(self, subscription: str) -> Registered | None:
        """The registration in force of the subscription with exactly this name."""
        with self._lock:
            return self._registry.by_name(subscription)

    def page(self, wanted: Rows, limit: int, after: int | None = None) -> Page:
        """At most `limit` rows behind the cursor `after`, which `Page.next` gave; it is a registry offset.

        Only for search, key and event_type it looks at each of the other rows, and once for all pages.
        """
        with self._lock:
            lists = self._index.lists(wanted.kind, wanted.dag_id, wanted.dags)
            if wanted.search or wanted.key is not None or wanted.event_type is not None:
                lists = [self._filtered.offsets(wanted, lists, self._version)]
            rows: list[Registered] = []
            while True:
                room = limit - len(rows)
                offsets = list(islice(merged(lists, after, newest_first=wanted.newest_first), room + 1))
                rows += self._rows(offsets[:room])
                if len(offsets) <= room:
                    return Page(rows, None, sum(map(len, lists)))
                after = offsets[room - 1] if room else after
                if len(rows) == limit:  # else one was damaged, and is not listed any more
                    return Page(rows, after, sum(map(len, lists)))

    def newest(
        self, kind: Kind, event_type: str, limit: int, keys: Collection[str] | None = None
    ) -> list[Registered]:
        """The newest registrations whose conditions name the type, at most `limit`.

        keys: those of these keys, in their canonical form, and at most `limit` of each.
        """
        with self._lock:
            return list(self._rows(self._filtered.newest(kind, event_type, limit, keys)))

    def registry(self) -> LazyRegistry:
        """A copy of what is registered, which nothing changes any more."""
        with self._lock:
            return self._registry.copy()

    def _rows(self, offsets: Iterable[int]) -> Iterator[Registered]:
        for offset in offsets:
            listed = self._registry.listed.get(offset)
            found = None if listed is None else self._registry.registered(listed)
            if found is not None:
                yield found

    def pending_of(self, wanted: Collection[Registered], key: str | None = None) -> Mapping[str, Pending]:
        """See `BusView`."""
        found: dict[str, Pending] = {}
        unknown = []
        with self._lock:
            partitions = 0 if self._registry.bus is None else self._registry.bus.partitions
            for registered in wanted:
                pending = found[registered.incarnation] = Pending()
                for number in state_partitions(registered, partitions, key):
                    states = self._states.get(number)
                    if states is not None:
                        states.add_to(pending, registered, key)
                    elif number in self._states:
                        unknown.append(registered)
                        break
        if unknown:
            found |= pending_of(self.config, unknown, partitions, key)
        return found

    def pending(self, registered: Registered, key: str | None = None) -> Pending:
        """What a subscription has pending. key: of this key only."""
        return self.pending_of([registered], key)[registered.incarnation]

    def open_keys(self, registered: Registered) -> int | None:
        """How many keys of a subscription have a state, without a look at them; None if that is not kept.

        It counts keys too that are kept to recognise repeated events alone.
        """
        with self._lock:
            partitions = 0 if self._registry.bus is None else self._registry.bus.partitions
            count = 0
            for number in state_partitions(registered, partitions, None):
                states = self._states.get(number)
                if states is None and number in self._states:
                    return None
                count += 0 if states is None else states.count(registered.incarnation)
            return count

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
        """At most `limit` of the firings that are kept, newest first.

        before: a cursor that `FiringsPage.next` gave. dags: as in `Rows`. subscription: the whole name.
        search: a part of the name. only_open: those that nobody acknowledged. Raises ValueError for a text
        that is no cursor.
        """
        place = None if before is None else _place_in(before)
        rows: list[Fired] = []
        with self._lock:
            for fired in self._firings.newest(place):
                if only_open and not fired.open:
                    continue
                if subscription not in (None, fired.subscription) or search not in fired.subscription:
                    continue
                if not self._is_of(fired, dag_id, dags):
                    continue
                if len(rows) == limit:
                    return FiringsPage(rows, "{}-{}".format(*rows[-1].place) if rows else before)
                rows.append(fired)
        return FiringsPage(rows, None)

    def _is_of(self, fired: Fired, dag_id: str | None, dags: Collection[str] | None) -> bool:
        if dag_id is None and dags is None:
            return True
        own = owner_of(fired.subscription, fired.kind, self.config.deployment).dag_id
        return own is not None and dag_id in (None, own) and (dags is None or own in dags)

    def open_firings(self, subscription: str) -> OpenCount:
        """The open firings of a durable subscription, of which at most 10,000 are counted."""
        with self._lock:
            return self._firings.open_of(subscription)

    def firing_of_wait(self, subscription: str) -> Fired | None:
        """The last firing of the one-shot subscription with exactly this name, if it is kept."""
        with self._lock:
            return self._firings.of_wait(subscription)

    def fired_wait(self, name: str) -> Fired | None:
        """See `BusView`: among the firings that are kept."""
        with self._lock:
            fired = {each.subscription: each for each in self._firings.newest() if each.kind == "one-shot"}
        for whole in wait_names(self.config, name):
            if whole in fired:
                return fired[whole]
        like = [each for each in fired if name in each]
        require_one(name, like)
        return fired[like[0]] if like else None

    def durable_firings(self, registered: Registered) -> DurableFirings:
        """See `BusView`: the last ones are those that are kept."""
        with self._lock:
            return self._firings.durable(registered.registration.subscription)


def _place_in(cursor: str) -> tuple[int, str]:
    fired_ms, _, firing = cursor.partition("-")
    return int(fired_ms), firing
