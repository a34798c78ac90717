"""The subscriptions of a bus: which are registered, who holds them, and cancelling them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from ..bus import TopicPartition
from ..config import BusConfig
from ..errors import EngineError, NoSubscription, TopicsError
from ..kafka.topics import read_registry
from ..records import BusRecord
from ..registry.facts import BusFacts
from ..registry.lazy import LazyRegistry, Listed
from ..registry.leases import LeaseHolder
from ..registry.registry import Registered
from ..waiting.acknowledge import remove_registration
from ..waiting.lease_writer import LEASE_S

MOST_NAMED: Final = 10  # in an error
# Leases are renewed every LEASE_S. A lease of this age was left behind by a dead process.
LEASE_IS_OLD_MS: Final = int(3 * LEASE_S * 1000)


class Subscriptions:
    """The registered subscriptions and their holders. Thread-safe, where `lock` guards the registry.

    now_ms: when they were read, by the brokers' clock if that is ahead. Also the `BusFacts` of the bus.
    """

    def __init__(
        self, config: BusConfig, registry: LazyRegistry, lock: threading.RLock | None = None
    ) -> None:
        self.config = config
        self.now_ms = max(registry.newest_ms, int(time.time() * 1000))
        self._registry, self._lock = registry, lock or threading.RLock()

    @classmethod
    def read(cls, config: BusConfig, about: str | None = None) -> Subscriptions:
        """Reads the current subscriptions. Raises TopicsError if the bus does not exist.

        about: only those whose names contain this text, which takes less time.
        """
        registry = read_registry(config, about=about)
        require_bus(config, registry)
        return cls(config, registry)

    # -- facts of the bus

    @property
    def bus(self) -> BusRecord | None:
        return self._registry.bus

    @property
    def version(self) -> int:
        """The version in which records are written."""
        return self._registry.version

    @property
    def partitions(self) -> int:
        """The trigger topic's partition count, by which subscriptions are distributed."""
        return 0 if self.bus is None else self.bus.partitions

    @property
    def sinks(self) -> Mapping[str, bytes]:
        with self._lock:
            return dict(self._registry.sinks)

    @property
    def problems(self) -> Mapping[TopicPartition, str]:
        with self._lock:
            return dict(self._registry.problems)

    def sinks_alone(self, text: str = "") -> list[str]:
        """The sinks whose subscription is not registered (any more), and whose name contains the text."""
        with self._lock:
            is_listed = self._registry.is_listed
            return sorted(name for name in self._registry.sinks if text in name and not is_listed(name))

    # -- subscriptions

    def __len__(self) -> int:
        return len(self._registry)

    def by_name(self, subscription: str) -> Registered | None:
        with self._lock:
            return self._registry.by_name(subscription)

    def listed(self) -> list[Listed]:
        """The registered subscriptions in the order of their registration, without their conditions."""
        with self._lock:
            listed = dict(self._registry.listed)
        return [listed[offset] for offset in sorted(listed)]

    def registered(self, listed: Listed) -> Registered | None:
        """One of `listed` in full; None if its record is damaged, or it was removed since."""
        with self._lock:
            if self._registry.listed.get(listed.offset) is not listed:
                return None
            return self._registry.registered(listed)

    def all(self) -> list[Registered]:
        """The registered subscriptions in full, in the order of their registration.

        With many different conditions this takes long: `listed` does not.
        """
        found = map(self.registered, self.listed())
        return [each for each in found if each is not None]

    def find(self, name: str) -> Registered:
        """The subscription with this name, or the only one whose name contains it.

        Raises NoSubscription if there is none, EngineError if there are several.
        """
        same = self.by_name(name)
        if same is not None:
            return same
        like = [each for each in self.listed() if name in each.subscription]
        first = [found for each in like[: MOST_NAMED + 1] if (found := self.registered(each)) is not None]
        if len(first) == 1:
            return first[0]
        if not first:
            raise NoSubscription(
                f"No subscription of bus {self.config.name!r} has {name!r} in its name. A wait's task has "
                "not deferred yet, or its triggerer has not started the wait: that takes up to half a minute "
                "from the task's start, so ask again. Otherwise the task failed before it deferred (its log "
                "in Airflow says why), or the subscription has fired and was acknowledged, was removed, or "
                "was never registered. "
                f"To list all: {self.config.command('subscriptions list')}"
            )
        count = len(like) if len(like) > MOST_NAMED + 1 else len(first)
        names = ", ".join(repr(each.registration.subscription) for each in first[:MOST_NAMED])
        more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        raise EngineError(f"{name!r} matches {count} subscriptions: {names}{more}. Give one name.")

    # -- who holds them

    def holders(self) -> list[LeaseHolder]:
        """The processes with leases for what is registered, also those whose lease is old."""
        with self._lock:
            return self._registry.lease_holders()

    def held_by(self, subscription: Registered | Listed) -> list[LeaseHolder]:
        """The processes that hold a current lease for it, without leases left behind by dead processes."""
        with self._lock:
            holders = self._registry.leases.of(subscription.incarnation)
        return [holder for holder in holders if holder.renewed_ms > self.now_ms - LEASE_IS_OLD_MS]

    def refusal(self, registered: Registered) -> str:
        """Why it cannot be cancelled; "" if it can."""
        if not registered.one_shot:
            return ""
        name = registered.registration.subscription
        holders = self.held_by(registered)
        # A process renews its leases every LEASE_S, so a younger registration may not have one yet.
        if not holders and registered.timestamp_ms <= self.now_ms - LEASE_S * 1000:
            return ""
        who = (
            f"{_who(holders[0])} waits for it"
            if holders
            else f"it was registered less than {LEASE_S / 60:.0f} minutes ago, and a task may wait for it"
        )
        return (
            f"{name!r} is not cancelled: {who}, and would register it again. Mark the task failed, or clear "
            "it, in Airflow. For a task that is gone, use --force."
        )

    def cancel(self, registered: Registered) -> None:
        """Remove the registration. Its pending matches are dropped, and it no longer fires.

        Raises EngineError if the cluster does not accept the removal.
        """
        with self._lock:
            keys = self._registry.keys(registered.registration.subscription)
        remove_registration(self.config, sorted(key.decode("utf-8", "replace") for key in keys))


def require_bus(config: BusConfig, facts: BusFacts) -> None:
    """Raises TopicsError if the registry has no bus record."""
    if facts.bus is None:
        raise TopicsError(
            f"Bus {config.name!r} has no bus record.",
            f"If {config.name!r} is the right bus, run: {config.command('topics create')}",
        )


def _who(holder: LeaseHolder) -> str:
    return f"process {holder.process!r}" + (f" on host {holder.host!r}" if holder.host else "")
