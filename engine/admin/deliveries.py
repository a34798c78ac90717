"""Who delivers the firings of a bus's sinks, and how far. The bus does not say which sinks are paused."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from ...conditions.explanation.wording import counted
from ..bus import TopicPartition
from ..config import BusConfig
from ..delivery.ownership import problem_in
from ..errors import EngineError
from ..kafka.admin import Admin
from ..registry.registry import Registry
from .sinks import is_delivered


def deliveries(
    config: BusConfig, registry: Registry, only: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each deployment with sinks, and the problems.

    only: the deployment to look at; None: all. A row has three counts. sinks: those of registered
    subscriptions. deliverers: the processes that deliver. behind: the records of the action topic since the
    oldest firing that may be open. The last two are None if the cluster does not say.
    """
    sinks = Counter(
        name.partition("/")[0]
        for name in registry.sinks
        if registry.by_name(name) is not None and is_delivered(name)
    )
    rows, problems = [], []
    for deployment, number in sorted(sinks.items()):
        if only not in (None, deployment):
            continue
        members, behind = None, None
        with suppress(EngineError):  # such as no right to see the group, or no name of a deployment
            members, behind, told = _group(replace(config, deployment=deployment).of_deliverers, registry)
            problems += told
        rows.append({"deployment": deployment, "sinks": number, "deliverers": members, "behind": behind})
        if members == 0:
            problems.append(
                f"No process delivers the firings of deployment {deployment!r}, which has "
                f"{counted(number, 'sink', 'sinks')}. In that Airflow run: {config.command('deliver')}; or "
                "start a triggerer with [interlock] deliveries_in_triggerer above 0."
            )
    return rows, problems


def _group(config: BusConfig, registry: Registry) -> tuple[int, int, list[str]]:
    """(How many deliverers, how far they are behind, what they have reported of their partitions)."""
    count = 0 if registry.bus is None else registry.bus.partitions
    partitions = [TopicPartition(config.topic("action"), number) for number in range(count)]
    with closing(Admin(config)) as admin:
        members = len(admin.group_members())
        marks = admin.committed(partitions, stable=False) or {}
        starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    behind = 0
    for tp in partitions:
        mark = marks.get(tp)
        behind += ends[tp] - (starts[tp] if mark is None else max(starts[tp], mark.offset))
    told = {tp: problem_in(mark) for tp, mark in marks.items() if mark is not None}
    deployment = config.deployment
    return (
        members,
        behind,
        [f"{tp}, which deployment {deployment!r} delivers: {text}" for tp, text in told.items() if text],
    )
