"""The subscriptions of a bus: which are registered, who holds them, cancelling them, skipping a firing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, NoSubscription, RecordError, TopicsError
from ..kafka.topics import read_registry
from ..reading.sources import read_to_end
from ..records import ActionRecord, LeaseRecord, decode_json
from ..registry.registry import Registered, Registry
from ..waiting.acknowledge import remove_registration
from ..waiting.registration_writer import LEASE_S
from .sinks import is_delivered

MOST_NAMED: Final = 10  # in an error
# Leases are renewed every LEASE_S. A lease of this age was left behind by a dead process.
_LEASE_IS_OLD_MS: Final = int(3 * LEASE_S * 1000)


@dataclass(frozen=True)
class LeaseHolder:
    """A process that holds a lease for a subscription. renewed_ms: when the lease was last renewed."""

    process: str
    deployment: str
    host: str
    renewed_ms: int


@dataclass
class Subscriptions:
    """The registry's subscriptions and their holders. `now_ms`: when it was read."""

    config: BusConfig
    registry: Registry
    holders: dict[str, list[LeaseHolder]] = field(default_factory=dict)  # by incarnation
    now_ms: int = 0

    @classmethod
    def read(cls, config: BusConfig) -> Subscriptions:
        """Reads the current subscriptions. Raises TopicsError if the bus does not exist."""
        leases: dict[bytes, tuple[int, LeaseRecord]] = {}
        newest = 0

        def on_record(record: Record) -> None:
            nonlocal newest
            newest = max(newest, record.timestamp_ms)
            key = record.key or b""
            if not key.startswith(b"lease/"):
                return
            leases.pop(key, None)
            if record.value is not None:
                try:
                    leases[key] = (record.timestamp_ms, decode_json(LeaseRecord, record.value, str(record)))
                except RecordError:
                    return  # the registry logs it

        registry = read_registry(config, on_record)
        if registry.bus is None:
            raise TopicsError(
                f"Bus {config.name!r} has no bus record.",
                f"If {config.name!r} is the right bus, run: {config.command('topics create')}",
            )
        found = cls(config, registry, now_ms=max(newest, int(time.time() * 1000)))
        for key, (renewed_ms, lease) in leases.items():
            process = key.decode("utf-8", "replace").split("/")[1]
            for incarnation in lease.incarnations:
                if registry.get(incarnation) is not None:
                    holder = LeaseHolder(process, lease.deployment, lease.host, renewed_ms)
                    found.holders.setdefault(incarnation, []).append(holder)
        return found

    @property
    def partitions(self) -> int:
        """The trigger topic's partition count, by which subscriptions are distributed."""
        return 0 if self.registry.bus is None else self.registry.bus.partitions

    def all(self) -> list[Registered]:
        """The registered subscriptions, in the order of their registration."""
        return self.registry.between(0, self.registry.position)

    def sinks_alone(self, text: str = "") -> list[str]:
        """The sinks whose subscription is not registered (any more), and whose name contains the text."""
        by_name = self.registry.by_name
        return sorted(name for name in self.registry.sinks if text in name and by_name(name) is None)

    def find(self, name: str) -> Registered:
        """The subscription with this name, or the only one whose name contains it.

        Raises NoSubscription if there is none, EngineError if there are several.
        """
        registered = self.all()
        same = [each for each in registered if each.registration.subscription == name]
        if same:
            return same[0]
        like = [each for each in registered if name in each.registration.subscription]
        if len(like) == 1:
            return like[0]
        if not like:
            raise NoSubscription(
                f"No subscription of bus {self.config.name!r} has {name!r} in its name. It has fired and was "
                "acknowledged, was removed, or was never registered: its task has failed before it deferred "
                "(the task's log in Airflow says why), has not deferred yet, or its triggerer has not "
                "started the wait. "
                f"To list all: {self.config.command('subscriptions list')}"
            )
        names = ", ".join(repr(each.registration.subscription) for each in like[:MOST_NAMED])
        more = f" and {len(like) - MOST_NAMED} more" if len(like) > MOST_NAMED else ""
        raise EngineError(f"{name!r} matches {len(like)} subscriptions: {names}{more}. Give one name.")

    def held_by(self, registered: Registered) -> list[LeaseHolder]:
        """The processes that hold a current lease for it, without leases left behind by dead processes."""
        return [
            holder
            for holder in self.holders.get(registered.incarnation, ())
            if holder.renewed_ms > self.now_ms - _LEASE_IS_OLD_MS
        ]

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
        keys = self.registry.keys(registered.registration.subscription)
        remove_registration(self.config, sorted(key.decode("utf-8", "replace") for key in keys))


def open_firing(config: BusConfig, name: str, firing_id: str) -> ActionRecord:
    """An open firing of a durable subscription. To skip it, pass it to `acknowledge_all`.

    Reads the whole action topic, and keeps at most two records. name: of a subscription, registered or not.
    If no subscription with exactly this name has the firing, `Subscriptions.find` looks the name up. Raises
    EngineError if the firing is not open.
    """
    subscriptions = Subscriptions.read(config)
    names, not_found = [name], None
    try:
        registered = subscriptions.find(name)
    except NoSubscription:
        pass
    except EngineError as e:  # several subscriptions match
        not_found = e
    else:
        found = registered.registration.subscription
        if not registered.one_shot:
            names.append(found)
        else:
            not_found = EngineError(
                f"{found!r} is a wait, whose firing belongs to its task: end the task in Airflow instead."
            )
    every = [TopicPartition(config.topic("action"), number) for number in range(subscriptions.partitions)]
    keys = [f"{each}\0{firing_id}".encode() for each in names]
    values: dict[bytes, bytes | None] = {}
    for record in read_to_end(config, every):
        if record.key in keys and not record.fault:
            values[record.key] = record.value
    value = next((values[key] for key in keys if key in values), None)
    action = None if value is None else decode_json(ActionRecord, value, f"The firing {firing_id!r}")
    if action is None or action.state != "fired":
        if not_found is not None and not values:
            raise not_found
        if is_delivered(names[-1]):
            over = "delivered, given up"
            where = "The log of the process that delivers says why firings wait or were given up"
        else:
            over, where = "dispatched", "The log of the dispatcher's task names those that it holds"
        raise EngineError(
            f"{names[-1]!r} has no open firing {firing_id!r}: it was {over} or skipped, retention removed "
            f"it, or it never existed. {where}."
        )
    return action


def _who(holder: LeaseHolder) -> str:
    return f"process {holder.process!r}" + (f" on host {holder.host!r}" if holder.host else "")
