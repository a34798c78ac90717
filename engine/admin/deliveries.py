"""Who delivers the firings of a bus's sinks, and how far. The bus does not say which sinks are paused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...conditions.explanation.wording import counted
from ..bus import TopicPartition
from ..config import BusConfig
from ..delivery.ownership import delivery_metadata
from ..errors import EngineError
from ..kafka.admin import Admin
from ..registry.facts import BusFacts
from .alerts import Kind
from .sinks import is_delivered


class DelivererGroup(NamedTuple):
    """The deliverers of a deployment. ends: of the partitions.

    open_from: {partition: the offset below which all firings of the deployment are acknowledged}. committed:
    the partitions with a committed offset; the others are read from their start. problems: what
    deliverers have reported of their partitions.
    """

    deliverers: int
    open_from: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    committed: Collection[TopicPartition] = ()
    problems: Mapping[TopicPartition, str] = MappingProxyType({})

    @property
    def behind(self) -> int:
        """How many records were written since the oldest firing that may be open."""
        return sum(end - self.open_from[tp] for tp, end in self.ends.items())


def groups(
    config: BusConfig, registry: BusFacts, only: str | None = None
) -> dict[str, DelivererGroup | None]:
    """{deployment with sinks: its group; None if the cluster does not show it}. only: one deployment."""
    found: dict[str, DelivererGroup | None] = {}
    for deployment in sorted(_sinks(registry)):
        if only in (None, deployment):
            found[deployment] = None
            with suppress(EngineError):  # such as no right to see the group, or no name of a deployment
                found[deployment] = _group(replace(config, deployment=deployment).of_deliverers, registry)
    return found


def deliveries(
    config: BusConfig, registry: BusFacts, found: Mapping[str, DelivererGroup | None]
) -> tuple[list[dict[str, Any]], list[tuple[Kind, str]]]:
    """A row for each deployment with sinks, and the problems with their kinds. found: from `groups`.

    A row has three counts. sinks: also those that cancelled subscriptions have left. deliverers: the
    processes that deliver. behind: see `DelivererGroup`. The last two are None if the cluster does not say.

    That nobody delivers is a problem of a deployment with a registered subscription. Of one that has only
    cancelled ones `undelivered.left_behind` says so, if firings wait.
    """
    sinks = _sinks(registry)
    rows: list[dict[str, Any]] = []
    problems: list[tuple[Kind, str]] = []
    for deployment, group in found.items():
        members, behind = (None, None) if group is None else (group.deliverers, group.behind)
        number = sinks[deployment]
        problems += [
            (Kind.DELIVERY_STUCK, f"{tp}, which deployment {deployment!r} delivers: {text}")
            for tp, text in ({} if group is None else group.problems).items()
        ]
        rows.append({"deployment": deployment, "sinks": number, "deliverers": members, "behind": behind})
        if members == 0 and has_registered(registry, deployment):
            problems.append((Kind.NO_DELIVERER, nobody_delivers(config, registry, deployment)))
    return rows, problems


def nobody_delivers(config: BusConfig, registry: BusFacts, deployment: str) -> str:
    """The sentence about a deployment with sinks for which no process delivers."""
    sinks = counted(_sinks(registry)[deployment], "sink", "sinks")
    return (
        f"No process delivers the firings of deployment {deployment!r}, which has {sinks}. In that Airflow "
        f"run: {config.command('deliver')}; or start a triggerer with [interlock] deliveries_in_triggerer "
        "above 0."
    )


def has_registered(registry: BusFacts, deployment: str) -> bool:
    """Whether one of the deployment's sinks belongs to a registered subscription."""
    return any(
        name.partition("/")[0] == deployment and is_delivered(name) and registry.by_name(name) is not None
        for name in registry.sinks
    )


def _sinks(registry: BusFacts) -> Counter[str]:
    """How many sinks each deployment has, also those that cancelled subscriptions have left."""
    return Counter(name.partition("/")[0] for name in registry.sinks if is_delivered(name))


def _group(config: BusConfig, registry: BusFacts) -> DelivererGroup:
    name = config.topic("action")
    count = 0 if registry.bus is None else registry.bus.partitions
    partitions = [TopicPartition(name, number) for number in range(count)]
    with closing(Admin(config)) as admin:
        members = len(admin.group_members())
        committed = admin.committed(partitions, stable=False) or {}
        starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
        topic = admin.topics([name])[name]
    found = {  # without offsets of a deleted topic, or that no deliverer committed
        tp: (each.offset, about)
        for tp, each in committed.items()
        if each is not None
        and topic is not None
        and (about := delivery_metadata(each)) is not None
        and about.topic_id == topic.id
    }
    own = {tp: offset for tp, (offset, _) in found.items()}
    open_from = {tp: min(max(start, own.get(tp, start)), ends[tp]) for tp, start in starts.items()}
    problems = {tp: about.problem for tp, (_, about) in found.items() if about.problem}
    return DelivererGroup(members, open_from, ends, own.keys(), problems)
