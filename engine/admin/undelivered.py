"""The firings that wait for their sinks: how many of each subscription, and the oldest, from the topics.

A paused sink, and a key that is tried again and again, are seen here by the age of the oldest firing: the
reason is only in the log and the metrics of the process that delivers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ...conditions.explanation.wording import about, moment
from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..delivery.firings import subscription_in
from ..reading.sources import read_between
from ..records.codec import UNREADABLE
from ..registry.facts import BusFacts
from .deliveries import DelivererGroup, has_registered, nobody_delivers
from .sinks import destination, is_delivered

LATE_MS: Final = 15 * 60_000
# How much of the action topic is read: it is about a day's records if a key is down for a day.
MOST_READ: Final = 200_000
MOST_BYTES: Final = 64 * 1024 * 1024


class _Head(msgspec.Struct):
    state: str


@dataclass(frozen=True)
class Undelivered:
    """The open firings of a subscription that has a sink, or had one.

    open: how many; None if there is too much to read. oldest: the id of the one that was written first.
    since_ms: when that was. Both are None without open firings. If `open` is None, only the oldest open
    firing of each partition was read: then they may be None too, or those of a later firing.
    """

    subscription: str
    open: int | None
    oldest: str | None = None
    since_ms: int | None = None

    def row(self, registry: BusFacts, now_ms: int) -> dict[str, Any]:
        """As plain data for JSON: with the sink as a text, and the age of the oldest in seconds."""
        since = self.since_ms
        return {
            "subscription": self.subscription,
            "delivers_to": destination(registry, self.subscription) or "removed",
            "open_firings": self.open,
            "oldest_firing": self.oldest,
            "oldest_since": None if since is None else moment(since),
            "oldest_age_s": None if since is None else max(0, now_ms - since) // 1000,
        }


def undelivered(
    config: BusConfig, registry: BusFacts, found: Mapping[str, DelivererGroup | None]
) -> list[Undelivered]:
    """The subscriptions with sinks, in the order of their names. found: the deployments, from `groups`.

    Leaves out deployments whose group the cluster does not show. Reads the action topic from
    `DelivererGroup.open_from` on, at most MOST_READ records and MOST_BYTES. Raises UnreachableError.
    """
    known = {deployment: group for deployment, group in found.items() if group is not None}
    open_, is_whole = _open(config, known)
    names = {name for name in (*registry.sinks, *open_) if is_delivered(name) and _deployment(name) in known}
    counts = []
    for name in sorted(names):
        firings = open_.get(name, {})
        oldest = min(firings, key=lambda firing: firings[firing], default=None)
        since_ms = None if oldest is None else firings[oldest]
        counts.append(Undelivered(name, len(firings) if is_whole else None, oldest, since_ms))
    return counts


def late(
    config: BusConfig,
    registry: BusFacts,
    found: Mapping[str, DelivererGroup | None],
    sinks: Iterable[Undelivered],
    now_ms: int,
    late_ms: int,
) -> Iterator[str]:
    """A sentence for each subscription whose oldest firing is older than `late_ms`.

    Leaves out deployments without deliverers, which `deliveries` or `left_behind` reports.
    """
    for each in sinks:
        group = found.get(_deployment(each.subscription))
        if group is None or not group.deliverers or each.since_ms is None or each.oldest is None:
            continue
        age_ms = now_ms - each.since_ms
        if age_ms <= late_ms:
            continue
        number = "" if each.open is None else f" Firings that wait: {each.open}."
        where = destination(registry, each.subscription) or "its sink was removed"
        yield (
            f"Firing {each.oldest} of {each.subscription!r} ({where}) was not delivered for {about(age_ms)}."
            f"{number} The log of the process that delivers says why: a paused sink, or failed deliveries. "
            f"To give it up: {config.command(f'subscriptions skip {each.subscription} {each.oldest}')}"
        )


def left_behind(
    config: BusConfig,
    registry: BusFacts,
    found: Mapping[str, DelivererGroup | None],
    sinks: Collection[Undelivered],
) -> Iterator[str]:
    """A sentence for each deployment that nobody delivers for, whose cancelled subscriptions have firings.

    None for deployments with a registered subscription that has a sink: `deliveries` says so.
    """
    for deployment, group in found.items():
        if group is None or group.deliverers or has_registered(registry, deployment):
            continue
        waiting = [each for each in sinks if each.oldest and _deployment(each.subscription) == deployment]
        if waiting:
            oldest = min(waiting, key=lambda each: each.since_ms or 0)
            yield (
                f"{nobody_delivers(config, registry, deployment)} All its subscriptions with sinks were "
                f"cancelled, but firings wait, the oldest of {oldest.subscription!r}. To give it up: "
                f"{config.command(f'subscriptions skip {oldest.subscription} {oldest.oldest}')}"
            )


def _open(config: BusConfig, known: Mapping[str, DelivererGroup]) -> tuple[dict[str, dict[str, int]], bool]:
    """({subscription: {firing id: when it was written}}, whether these are all).

    If there is too much to read: the firings at the committed offsets. Such an offset is below all other open
    firings of its partition, and is committed with their acknowledgements, so a firing there is the oldest
    open one.
    """
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for group in known.values():
        for tp, start in group.open_from.items():
            starts[tp] = min(start, starts.get(tp, start))
            ends[tp] = max(group.ends[tp], ends.get(tp, 0))
    found: dict[str, dict[str, int]] = {}
    if starts == ends:  # without a client for the reading
        return found, True
    if sum(end - starts[tp] for tp, end in ends.items()) <= MOST_READ:
        size = 0
        for record in read_between(config, starts, ends, sparing=True):
            _follow(found, record)
            size += len(record.value or b"")
            if size > MOST_BYTES:
                break
        else:
            return found, True
    found = {}
    for deployment, group in known.items():
        firsts = {tp: group.open_from[tp] for tp in group.committed if group.open_from[tp] < group.ends[tp]}
        for record in read_between(config, firsts, {tp: first + 1 for tp, first in firsts.items()}):
            if _deployment(subscription_in(record) or "") == deployment:
                _follow(found, record)
    return found, False


def _follow(found: dict[str, dict[str, int]], record: Record) -> None:
    """Process the next record of the action topic."""
    name = subscription_in(record)
    if not name or record.fault or not is_delivered(name):
        return
    firing = (record.key or b"").partition(b"\0")[2].decode("utf-8", "replace")
    try:
        is_open = record.value is not None and _decode(record.value).state == "fired"
    except UNREADABLE:  # deliverers log it, and do not deliver it
        return
    if is_open:
        found.setdefault(name, {})[firing] = record.timestamp_ms
    else:
        found.get(name, {}).pop(firing, None)


_decode: Final = msgspec.json.Decoder(_Head).decode


def _deployment(subscription: str) -> str:
    return subscription.partition("/")[0]
