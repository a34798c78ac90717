"""What must hold of deliveries: the log of the sink beside the firings and dead letters on the bus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .log import Log, Rec, read_action

DELIVERY = "delivery"  # stage of a delivery's dead letter
DELIVERED = "/deliver/"  # in the names of subscriptions whose firings go to sinks


class Arrival(msgspec.Struct, frozen=True):
    """A request at the sink, in the order of arrival. accepted: whether it was answered by 2xx."""

    subscription: str
    firing: str
    key: str
    sequence: int
    accepted: bool


class _FiringName(NamedTuple):
    subscription: str
    firing: str


@dataclass
class Deliveries:
    """firings: for sinks. repeated: requests with firings that were accepted before."""

    firings: int = 0
    dead_letters: int = 0
    repeated: int = 0
    missing: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


def is_delivered(subscription: str) -> bool:
    """Whether the firings of this subscription go to a sink."""
    return DELIVERED in subscription


def unacknowledged(log: Log) -> list[str]:
    """The firings for sinks that are open."""
    last: dict[bytes, tuple[Rec, Any]] = {}
    for record, form in _firings(log):
        last[record.key or b""] = record, form
    return [f"{record} is not delivered" for record, form in last.values() if form["state"] == "fired"]


def compare(log: Log, arrivals: Iterable[Arrival]) -> Deliveries:
    """The differences between the bus and the sink, once nothing is open."""
    found = Deliveries()
    fired = {
        _FiringName(form["subscription"], form["firing"]["id"]): record
        for record, form in _firings(log)
        if form["state"] == "fired"
    }
    dead_letters = {_of(record) for record in delivery_dead_letters(log)}
    accepted: Counter[_FiringName] = Counter()
    last: dict[tuple[str, str], int] = defaultdict(int)
    for each in arrivals:
        name, lane = _FiringName(each.subscription, each.firing), (each.subscription, each.key)
        found.repeated += accepted[name] > 0
        accepted[name] += each.accepted
        if name not in fired:
            found.unexpected.append(f"{each}: no firing on the bus")
        if each.sequence < last[lane]:
            found.disordered.append(f"{each}: {last[lane]} of its key had arrived")
        last[lane] = max(last[lane], each.sequence)
    found.firings, found.dead_letters = len(fired), len(dead_letters)
    found.missing = [
        f"{record}: firing {name.firing} was not accepted, and is no dead letter"
        for name, record in fired.items()
        if not accepted[name] and name not in dead_letters
    ]
    return found


def delivery_dead_letters(log: Log) -> list[Rec]:
    """The dead letters of deliveries."""
    return [
        record
        for records in log.kind("dead-letter")
        for record in records
        if record.header("interlock_stage") == DELIVERY
    ]


def read_arrivals(path: Path) -> list[Arrival]:
    return [msgspec.json.decode(line, type=Arrival) for line in path.read_bytes().splitlines()]


def _of(record: Rec) -> _FiringName:
    subscription, _, firing = (record.key or b"").decode().partition("\0")
    return _FiringName(subscription, firing)


def _firings(log: Log) -> Iterator[tuple[Rec, Any]]:
    """(record, form) of the firings for sinks, and their acknowledgements, by partition."""
    for records in log.kind("action"):
        for record in records:
            form = read_action(record)
            if form is not None and is_delivered(form["subscription"]):
                yield record, form
