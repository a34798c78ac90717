"""A wait whose triggerer stands still: another one takes it, and the first comes back."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import psutil
from interlock import Event
from interlock.events import Emitter

from demo.topics import Record, read_all

DAY = "2024-05-28"


def records(site: Any, kind: str) -> list[Record]:
    return read_all(site.bus.bootstrap_servers, site.bus.topic(kind))


def registrations(site: Any, run_id: str) -> list[tuple[str, bool]]:
    """Keys of the run's registry records in order, and whether each registers or removes."""
    found = [(r.key.decode(), r.value) for r in records(site, "subscription") if r.key]
    own = {key for key, value in found if value and f"/{run_id}/".encode() in value}
    return [(key, value is not None) for key, value in found if key in own]


def leased_by(site: Any, incarnation: str) -> set[str]:
    """The processes that have named it so far."""
    leases = [r for r in records(site, "subscription") if r.key and r.key.startswith(b"lease/") and r.value]
    return {
        r.key.decode().split("/")[1] for r in leases if r.key and incarnation.encode() in (r.value or b"")
    }


@contextmanager
def standing_still(site: Any) -> Iterator[None]:
    """The oldest triggerer, as on a machine that hangs."""
    leader = psutil.Process(site.airflow.processes._running[site.airflow._triggerers[0]].pid)

    def send(number: signal.Signals) -> None:
        for process in (leader, *leader.children(recursive=True)):
            process.send_signal(number)

    while True:
        send(signal.SIGSTOP)
        if may_write(site):
            break
        send(signal.SIGCONT)  # it was stopped inside a transaction, for which all others would wait
    try:
        yield
    finally:
        send(signal.SIGCONT)


def may_write(site: Any) -> bool:
    with closing(sqlite3.connect(site.airflow.home / "airflow.db", timeout=2)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


def test_a_triggerer_that_stood_still_takes_nothing_from_a_half_met_wait_that_has_moved(
    site: Any, eventually: Any
) -> None:
    def emit(event_type: str) -> None:
        with Emitter(site.bus.client, site.bus.topic("event")) as emitter:
            emitter.emit(Event.of(event_type, "/test", id=event_type, data={"day": DAY}))

    def triggerer() -> int | None:
        trigger = site.api.task("pair", run_id, "wait")["trigger"]
        return trigger and trigger["triggerer_id"]

    def noticed() -> bool:
        return "its wait goes on elsewhere" in site.log("pair", run_id)

    run_id = site.deferred("pair", logical_date=datetime.fromisoformat(DAY).replace(tzinfo=UTC))
    emit("first.half")
    [(key, _)] = registered = eventually("it is registered", lambda: registrations(site, run_id))
    incarnation = key.partition(":")[0]
    eventually(
        "its match is in the state topic",
        lambda: [r for r in records(site, "state") if r.key and r.key.startswith(incarnation.encode())],
    )
    eventually("its lease is written", lambda: len(leased_by(site, incarnation)) == 1)
    first = triggerer()
    site.airflow.start_triggerer()
    with standing_still(site):
        eventually("another triggerer has it", lambda: triggerer() != first)
        eventually("which says so", lambda: len(leased_by(site, incarnation)) == 2)
    eventually(
        "the first comes back", lambda: noticed() or registrations(site, run_id) != registered, deadline_s=60
    )
    assert registrations(site, run_id) == registered
    emit("second.half")
    assert site.api.wait_for_run("pair", run_id, timeout_s=120) == "success"
    firings = [r.json() or {} for r in records(site, "action")]
    assert [form["state"] for form in firings if run_id in form.get("subscription", "")] == ["fired", "acked"]
    site.airflow.kill_triggerer()  # the other tests have one, as before
