"""Who else uses a bus: other deployments, and another Airflow that goes by the same name (ADR 25)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .findings import Finding, Host, Run
from .registering import LEASE_S
from .subscriptions import Holder, Subscriptions

MOST_TOLD: Final = 3
MAX_RUNS: Final = 1000
# A process names what it waits for every LEASE_S; a little later it may just have stopped.
_LEASE_IS_FRESH_MS: Final = int(1.2 * LEASE_S * 1000)


def deployments(subscriptions: Subscriptions, host: Host) -> Iterator[Finding]:
    """Who else uses the bus, and whether another Airflow goes by this one's name."""
    own = subscriptions.config.deployment
    names = {holder.deployment for held in subscriptions.holders.values() for holder in held}
    for registered in subscriptions.all():
        first, slash, _ = registered.registration.subscription.partition("/")
        if registered.one_shot and slash:
            names.add(first)
    others = sorted(names - {own})
    yield from _shared(subscriptions, host)
    if others and own == host.default_deployment:
        yield Finding(
            "deployment",
            "note",
            f"This Airflow has the default name {own!r}, and {', '.join(others)} use the bus as well: set "
            "[interlock] deployment, before another one comes with the default too.",
        )
    else:
        beside = f"; beside it on the bus: {', '.join(others)}" if others else ""
        yield Finding("deployment", "ok", f"This Airflow's name is {own!r}{beside}.")


def _shared(subscriptions: Subscriptions, host: Host) -> Iterator[Finding]:
    own = subscriptions.config.deployment
    held: dict[Run, tuple[str, Holder]] = {}
    for registered in subscriptions.all():
        name = registered.registration.subscription
        parts = name.split("/")
        if not registered.one_shot or len(parts) < 4 or len(held) >= MAX_RUNS:
            continue
        for holder in subscriptions.held_by(registered):
            if holder.deployment == own and holder.said_ms > subscriptions.now_ms - _LEASE_IS_FRESH_MS:
                held[parts[1], parts[2]] = (name, holder)
    if not held:
        return
    if host.unknown_runs is None:
        yield Finding("deployment", "note", "Airflow's database cannot be asked whose waits these are.")
        return
    unknown = sorted(host.unknown_runs(held))
    for run in unknown[:MOST_TOLD]:
        name, holder = held[run]
        where = f" on host {holder.host!r}" if holder.host else ""
        yield Finding(
            "deployment",
            "wrong",
            f"Process {holder.process!r}{where} waits for {name!r}, a run that this Airflow does not have: "
            f"another one uses the name {own!r}, and takes its waits for the same. Give each a name of its "
            "own, [interlock] deployment.",
        )
    if len(unknown) > MOST_TOLD:
        yield Finding("deployment", "wrong", f"{len(unknown) - MOST_TOLD} more runs are of another Airflow.")
