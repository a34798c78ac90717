"""The asset route in a real Airflow: firings become asset events, and Airflow makes of those what it does."""

from __future__ import annotations

from typing import Any

from interlock import Event

from tests.integration.triggers.test_dispatch import actions, emit, registered, runs

SUBSCRIPTION = "airflow/asset/market"
DAG = "open_on_asset"


def test_each_firing_becomes_an_asset_event_and_runs_read_them_as_airflow_has_it(
    site: Any, eventually: Any
) -> None:
    site.api.unpause(DAG)
    site.api.parse_again(DAG)  # Airflow makes the watchers of unpaused DAGs when it parses them
    eventually("the watcher has registered", lambda: registered(site, SUBSCRIPTION))

    def keys() -> list[str]:
        return sorted(event["extra"]["payload"]["key"] for event in site.api.asset_events("market"))

    def stored_and_acknowledged(*markets: str) -> None:
        before = len(keys())
        emit(site, *(Event.of("opened", "/test", subject=market) for market in markets))
        eventually("each is an asset event", lambda: len(keys()) >= before + len(markets))
        eventually("all are acknowledged", lambda: set(actions(site, SUBSCRIPTION).values()) == {"acked"})

    def read_by_runs() -> list[str]:
        """What each task found; nothing while a run is still to come, or to end."""
        found = runs(site, DAG)
        if site.api.has_queued_asset_events(DAG) or {run["state"] for run in found.values()} != {"success"}:
            return []
        return sorted(key for run_id in found for key in site.api.xcom(DAG, run_id, "opened"))

    stored_and_acknowledged("lse", "nyse", "tse")
    # Once each: nothing was killed in between.
    assert keys() == ["lse", "nyse", "tse"]
    ids = {event["extra"]["payload"]["firing_id"] for event in site.api.asset_events("market")}
    assert ids == set(actions(site, SUBSCRIPTION))
    # Of those that come together, Airflow lets a run read the first; the next event's run reads the others.
    first = eventually("a run has read the first", read_by_runs)
    assert set(first) <= {"lse", "nyse", "tse"}
    stored_and_acknowledged("xetra")
    eventually("all are read, each once", lambda: read_by_runs() == ["lse", "nyse", "tse", "xetra"])
    assert len(runs(site, DAG)) <= 4
