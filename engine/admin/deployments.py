"""The other deployments on a bus, and another Airflow that uses the same deployment name (ADR 25)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..following.subscriptions import Subscriptions
from ..registry.leases import LeaseHolder
from ..waiting.lease_writer import LEASE_S
from .findings import AirflowInfo, DagRunId, Finding

MOST_SHOWN: Final = 3
MAX_CHECKED: Final = 1000
_OF_DAGS: Final = ("dispatch", "deliver")  # kinds of durable subscriptions that are named after their DAG
# A process renews its leases every LEASE_S. A lease older than this may be from a stopped process.
_LEASE_IS_FRESH_MS: Final = int(1.2 * LEASE_S * 1000)


def deployments(subscriptions: Subscriptions, info: AirflowInfo) -> Iterator[Finding]:
    """Checks which other deployments use the bus, and whether another Airflow uses this one's name."""
    own = subscriptions.config.deployment
    names = {holder.deployment for holder in subscriptions.holders()}
    for listed in subscriptions.listed():
        first, slash, _ = listed.subscription.partition("/")
        if listed.one_shot and slash:
            names.add(first)
    others = sorted(names - {own})
    yield from _shared(subscriptions, info)
    if others and own == info.default_deployment:
        yield Finding(
            "deployment",
            "note",
            f"This Airflow has the default name {own!r}, and {', '.join(others)} use the bus as well: set "
            "[interlock] deployment before another Airflow with the default name joins.",
        )
    else:
        beside = f"; others on the bus: {', '.join(others)}" if others else ""
        yield Finding("deployment", "ok", f"This Airflow's name is {own!r}{beside}.")


class _Held(NamedTuple):
    """A subscription with this Airflow's name, and a process with a fresh lease for it."""

    subscription: str
    holder: LeaseHolder

    def __str__(self) -> str:
        where = f" on host {self.holder.host!r}" if self.holder.host else ""
        return f"Process {self.holder.process!r}{where} waits for {self.subscription!r}"


def _shared(subscriptions: Subscriptions, info: AirflowInfo) -> Iterator[Finding]:
    """Subscriptions with this Airflow's name that another Airflow holds."""
    own = subscriptions.config.deployment
    runs: dict[DagRunId, _Held] = {}
    dags: dict[str, _Held] = {}  # of dispatch_dag and deliver_dag
    hosts: dict[str, _Held] = {}
    for one_shot, held in _held(subscriptions):
        _, *names = held.subscription.split("/")
        if one_shot and len(names) >= 3 and len(runs) < MAX_CHECKED:
            runs[names[0], names[1]] = held
        elif not one_shot and len(names) == 2 and names[0] in _OF_DAGS and len(dags) < MAX_CHECKED:
            dags[names[1]] = held
        if held.holder.host and len(hosts) < MAX_CHECKED:
            hosts[held.holder.host] = held
    if (runs and info.unknown_runs is None) or (dags and info.unknown_dags is None):
        yield Finding(
            "deployment", "note", "Airflow's database cannot be queried for the DAG runs of these waits."
        )
        return
    unknown = [runs[run] for run in sorted(info.unknown_runs(runs))] if runs and info.unknown_runs else []
    if dags and info.unknown_dags:
        unknown += [dags[dag_id] for dag_id in sorted(info.unknown_dags(dags))]
    remedy = "Give each Airflow its own name with [interlock] deployment."
    for held in unknown[:MOST_SHOWN]:
        what = "a run" if held.subscription.count("/") > 2 else "a DAG"
        yield Finding(
            "deployment",
            "wrong",
            f"{held}, {what} that this Airflow does not have: another Airflow uses the name {own!r}, and "
            f"each takes the other's subscriptions for its own. {remedy}",
        )
    if len(unknown) > MOST_SHOWN:
        more = f"Further runs and DAGs of another Airflow: {len(unknown) - MOST_SHOWN}."
        yield Finding("deployment", "wrong", more)
    if unknown or info.triggerer_hosts is None:
        return
    known = set(map(_short, info.triggerer_hosts))
    elsewhere = [held for name, held in sorted(hosts.items()) if _short(name) not in known]
    for held in elsewhere[:MOST_SHOWN]:
        yield Finding(
            "deployment",
            "note",
            f"{held}, and no triggerer of this Airflow ran there lately. Unless somebody runs dag.test() "
            f"there, another Airflow uses the name {own!r}, and each gets some of the firings. {remedy}",
        )
    if len(elsewhere) > MOST_SHOWN:
        yield Finding("deployment", "note", f"Further such hosts: {len(elsewhere) - MOST_SHOWN}.")


def _held(subscriptions: Subscriptions) -> Iterator[tuple[bool, _Held]]:
    """Yields (whether the subscription is one-shot, the subscription and its holder)."""
    own, since_ms = subscriptions.config.deployment, subscriptions.now_ms - _LEASE_IS_FRESH_MS
    for listed in subscriptions.listed():
        for holder in subscriptions.held_by(listed):
            if holder.deployment == own and holder.renewed_ms > since_ms:
                yield listed.one_shot, _Held(listed.subscription, holder)


def _short(host: str) -> str:
    """A host's short name: Airflow records the qualified name, leases the short one."""
    return host.partition(".")[0].lower()
