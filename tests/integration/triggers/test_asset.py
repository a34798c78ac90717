"""The asset route in a real Airflow: firings become asset events, and those start runs."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import Event

from local.topics import read_all
from tests.integration.triggers.test_dispatch import actions, emit, registered, runs

SUBSCRIPTION = "airflow/asset/market"
DAG = "open_on_asset"


@pytest.mark.long
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


class Edited:
    """A watcher's DAG file, its registrations, and the asset events that come of it."""

    def __init__(self, site: Any, eventually: Any, name: str) -> None:
        self._site, self._eventually, self._name = site, eventually, name

    def conditions(self) -> list[str]:
        """The conditions of its registrations, the first one first."""
        topic = read_all(self._site.bus.bootstrap_servers, self._site.bus.topic("subscription"))
        forms = [record.json() or {} for record in topic if record.value]
        own = f"airflow/asset/{self._name}"
        return [str(form["condition"]) for form in forms if form.get("subscription") == own]

    def types(self, asset: str) -> list[str]:
        """The types of the events that fired, without the watcher's name."""
        payloads = [event["extra"]["payload"] for event in self._site.api.asset_events(asset)]
        events = [each for payload in payloads for [each] in payload["events"].values()]
        return [each["type"].removeprefix(f"{self._name}.") for each in events]

    def emit_both(self, subject: str) -> None:
        names = (f"{self._name}.{edition}" for edition in ("first", "second"))
        emit(self._site, *(Event.of(name, "/test", subject=subject) for name in names))

    def begins(self) -> None:
        self._site.api.unpause(self._name)
        self.parse()
        self._eventually("the watcher has registered", self.conditions)
        self.emit_both("a")
        self._eventually("the first condition holds", lambda: self.types(self._name) == ["first"])

    def edit(self, old: str, new: str) -> None:
        path = self._site.airflow.dags_folder / f"{self._name}.py"
        path.write_text(path.read_text().replace(old, new))
        self.parse()

    def parse(self) -> None:
        api = self._site.api
        before = api.last_parsed(self._name)
        api.parse_again(self._name)
        self._eventually("its file is parsed", lambda: api.last_parsed(self._name) != before)

    def holds_second(self, asset: str) -> None:
        """The second condition fires, and the first one does not any more."""
        before = self.types(asset)
        self._eventually("the other one is registered", lambda: "second" in self.conditions()[-1])
        for number, subject in enumerate(("b", "c"), 1):
            self.emit_both(subject)
            wanted = before + number * ["second"]
            self._eventually("the second condition holds", lambda w=wanted: len(self.types(asset)) == len(w))
            assert self.types(asset) == wanted


@pytest.mark.long
def test_an_edited_condition_takes_effect_once_airflow_has_parsed_its_file_twice(
    site: Any, eventually: Any
) -> None:
    """At the first parse Airflow 3.3.2 removes the asset's watcher, at the next it adds the new one."""
    edited = Edited(site, eventually, "edited_asset")
    edited.begins()
    edited.edit('EDITION, ASSET = "first"', 'EDITION, ASSET = "second"')
    edited.parse()
    edited.holds_second("edited_asset")


@pytest.mark.long
def test_an_edited_condition_takes_effect_when_its_trigger_begins_before_the_replaced_one_ends(
    site: Any, eventually: Any
) -> None:
    """This happens if the asset gets another name as well."""
    edited = Edited(site, eventually, "moved_asset")
    edited.begins()
    edited.edit('EDITION, ASSET = "first", NAME', 'EDITION, ASSET = "second", "moved_there"')
    edited.holds_second("moved_there")
