"""Dispatch in a real Airflow: a run for each firing, whatever is paused or killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from interlock import Event
from interlock.events import Emitter

from local.rest import instant
from local.topics import read_all

DAY = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture(scope="module")
def dispatching(site: Any, eventually: Any) -> Any:
    """The site with its two dispatchers at work, one of them the example."""
    dispatchers = ("settle_on_trades", "close_on_event")
    for dag_id in dispatchers:
        site.api.unpause(dag_id)
    for dag_id in dispatchers:
        [run] = eventually(f"{dag_id} runs", lambda d=dag_id: site.api.runs(d))
        site.api.wait_for_task(dag_id, run["dag_run_id"], "dispatch", "deferred", timeout_s=90)
    return site


def emit(site: Any, *events: Event) -> None:
    with Emitter(site.bus.client, site.bus.topic("event")) as emitter:
        for event in events:
            emitter.emit(event)


def actions(site: Any, subscription: str) -> dict[str, str]:
    """The state of each firing of a subscription, according to its last record."""
    forms = [r.json() for r in read_all(site.bus.bootstrap_servers, site.bus.topic("action"))]
    return {f["firing"]["id"]: f["state"] for f in forms if f and f["subscription"] == subscription}


def registered(site: Any, subscription: str) -> bool:
    records = read_all(site.bus.bootstrap_servers, site.bus.topic("subscription"))
    return any((r.json() or {}).get("subscription") == subscription for r in records if r.value)


def since(site: Any, subscription: str) -> set[int]:
    """From when on each of its registrations counts events, in ms."""
    records = read_all(site.bus.bootstrap_servers, site.bus.topic("subscription"))
    forms = [record.json() or {} for record in records]
    return {form["since_ms"] for form in forms if form.get("subscription") == subscription}


def runs(site: Any, dag_id: str) -> dict[str, dict[str, Any]]:
    found = site.api.runs(dag_id)
    assert len({run["dag_run_id"] for run in found}) == len(found)
    return {run["dag_run_id"]: run for run in found}


def test_events_count_from_the_start_of_the_dispatchers_first_run(dispatching: Any, eventually: Any) -> None:
    for dag_id in ("settle_on_trades", "close_on_event"):
        subscription = f"airflow/dispatch/{dag_id}"
        [found] = eventually("it is registered", lambda s=subscription: since(dispatching, s))
        first = min(dispatching.api.runs(dag_id), key=lambda run: instant(run["run_after"]))
        assert found == int(instant(first["start_date"]).timestamp() * 1000)


def test_each_firing_gets_one_run_through_a_paused_target_and_a_killed_triggerer(
    dispatching: Any, eventually: Any
) -> None:
    site, trades, closes = dispatching, "airflow/dispatch/settle_on_trades", "airflow/dispatch/close_on_event"
    eventually("both are registered", lambda: registered(site, trades) and registered(site, closes))
    days = [{"day": "2026-11-20", "fails": n == 0} for n in range(5)]
    emit(
        site,
        *(
            Event.of("com.example.trade.confirmed", "/test", subject=market, data={"trade": n})
            for market in ("nyse", "tse")
            for n in range(5)
        ),
        *(Event.of("closed", "/test", subject="lse", id=f"c{n}", data=day) for n, day in enumerate(days)),
    )
    # Both targets are paused: the one takes its three runs, the other all five.
    eventually("as many as may be are created", lambda: len(runs(site, "close")) == 3)
    site.airflow.kill_triggerer()
    site.airflow.start_triggerer()
    site.api.unpause("close")
    site.api.unpause("settle")
    eventually(
        "each has its run", lambda: len(runs(site, "close")) == 5 and len(runs(site, "settle")) == 5, 150
    )

    def over(dag_id: str) -> bool:
        return all(run["state"] in ("success", "failed") for run in runs(site, dag_id).values())

    eventually("all ended", lambda: over("close") and over("settle"), 90)
    for dag_id, subscription, count in (("close", closes, 5), ("settle", trades, 5)):
        eventually("all are acknowledged", lambda s=subscription: set(actions(site, s).values()) == {"acked"})
        ids = {f"dispatch__{firing}" for firing in actions(site, subscription)}
        assert set(runs(site, dag_id)) == ids
        assert len(ids) == count
    closed = sorted(runs(site, "close").values(), key=lambda run: instant(run["logical_date"]))
    dates = [instant(run["logical_date"]) for run in closed]
    assert dates == [DAY + n * timedelta(microseconds=1) for n in range(5)]
    assert [run["conf"]["events"]["closed"][0]["id"] for run in closed] == [f"c{n}" for n in range(5)]
    # The first of the key failed, and those after it ran.
    assert [run["state"] for run in closed] == ["failed", *["success"] * 4]
    assert {run["note"] for run in closed} == {"lse"}
    settled = runs(site, "settle").values()
    assert sorted(int(run["conf"]["trade"]) for run in settled) == list(range(5))
    assert {run["conf"]["markets"] for run in settled} == {"nyse,tse"}


def test_what_fires_while_the_dispatcher_is_paused_gets_its_run_when_it_is_not(
    dispatching: Any, eventually: Any
) -> None:
    site, subscription = dispatching, "airflow/dispatch/close_on_event"
    site.api.pause("close_on_event")
    before = set(runs(site, "close"))
    emit(site, Event.of("closed", "/test", subject="nyse", id="late", data={"day": "2026-11-21"}))
    firings = eventually(
        "it fired", lambda: {f for f, s in actions(site, subscription).items() if s == "fired"}
    )
    site.api.unpause("close_on_event")
    eventually(
        "it has its run", lambda: set(runs(site, "close")) - before == {f"dispatch__{f}" for f in firings}
    )
    eventually("it is acknowledged", lambda: set(actions(site, subscription).values()) == {"acked"})


@pytest.mark.long
def test_a_run_of_the_target_that_is_deleted_is_not_created_again(dispatching: Any, eventually: Any) -> None:
    """Also not by a later run of the dispatcher, which reads all firings of the action topic again."""
    site, subscription = dispatching, "airflow/dispatch/close_on_event"
    site.api.unpause("close")

    def run_of(event_id: str) -> str | None:
        """The run of the target for this event; None until all firings are acknowledged."""
        names = {run["conf"]["events"]["closed"][0]["id"]: name for name, run in runs(site, "close").items()}
        acked = set(actions(site, subscription).values()) == {"acked"}
        return names.get(event_id) if acked else None

    def closed(event_id: str, day: str) -> str:
        emit(site, Event.of("closed", "/test", subject="deleted", id=event_id, data={"day": day}))
        return str(eventually(f"{event_id} has its run", lambda: run_of(event_id), 90))

    deleted = closed("deleted", "2026-11-23")
    before = set(runs(site, "close"))
    assert site.api.wait_for_run("close", deleted) == "success"
    site.api.delete_run("close", deleted)
    dispatcher = max(runs(site, "close_on_event").values(), key=lambda run: instant(run["run_after"]))
    site.api.mark("close_on_event", dispatcher["dag_run_id"], "dispatch", "success")
    eventually(
        "the dispatcher's next run begins",
        lambda: set(runs(site, "close_on_event")) - {dispatcher["dag_run_id"]},
    )
    # A later firing of the same key: its run is created after the runs of all earlier firings.
    after = closed("after", "2026-11-24")
    assert set(runs(site, "close")) == before - {deleted} | {after}


def test_an_emitting_task_that_is_retried_starts_one_run_and_when_it_is_cleared_one_more(
    site: Any, eventually: Any
) -> None:
    subscription = "airflow/dispatch/invoice_on_sale"
    for dag_id in ("invoice_on_sale", "invoice", "sell"):
        site.api.unpause(dag_id)
    eventually("the dispatcher is registered", lambda: registered(site, subscription))
    run_id = site.api.trigger("sell")
    assert site.api.wait_for_run("sell", run_id) == "success"
    site.api.clear("sell", run_id, "sell")
    # Both events have one key and source, so the second one's run comes after that of the first.
    eventually("the event of the clear has its run", lambda: len(runs(site, "invoice")) >= 2, 90)
    eventually("all are acknowledged", lambda: set(actions(site, subscription).values()) == {"acked"})
    records = read_all(site.bus.bootstrap_servers, site.bus.topic("event"))
    first, repeat, cleared = (r.header("ce_id") for r in records if r.header("ce_type") == "sold")
    assert first == repeat != cleared
    ran = sorted(run["conf"]["event"] for run in runs(site, "invoice").values())
    assert ran == sorted([first, cleared])


@pytest.mark.long
def test_runs_of_a_target_whose_tasks_depend_on_the_past_wait_for_one_that_failed_if_they_have_logical_dates(
    site: Any, eventually: Any
) -> None:
    """Airflow knows no keys. A failed run that is cleared needs a slot beside the run that waits for it."""
    api = site.api
    for dag_id in ("book", "book_undated", "book_on_event", "book_undated_on_event"):
        api.unpause(dag_id)
    for name in ("book_on_event", "book_undated_on_event"):
        eventually("it is registered", lambda n=name: registered(site, f"airflow/dispatch/{n}"))

    def run_of(dag_id: str, market: str) -> dict[str, Any] | None:
        found = [run for run in api.runs(dag_id) if run["conf"]["key"] == market]
        return found[0] if found else None

    def ended(dag_id: str, market: str, state: str) -> str:
        run = eventually(
            f"{market} {state}", lambda: (r := run_of(dag_id, market)) and r["state"] == state and r, 120
        )
        return str(run["dag_run_id"])

    emit(site, Event.of("booked", "/test", subject="lse", data={"day": "2026-11-20"}))
    failed = ended("book", "lse", "failed")
    ended("book_undated", "lse", "failed")
    emit(site, Event.of("booked", "/test", subject="tse", data={"day": "2026-11-21"}))
    # Without dates there is no past.
    ended("book_undated", "tse", "success")
    looked_at = eventually(
        "the scheduler has looked at the next run",
        lambda: (r := run_of("book", "tse")) and r["last_scheduling_decision"] and r["dag_run_id"],
    )
    assert api.task("book", looked_at, "enter")["state"] is None
    api.clear("book", failed, "enter")
    ended("book", "lse", "success")
    ended("book", "tse", "success")
    mended, waited = (api.task("book", run_id, "enter") for run_id in (failed, looked_at))
    assert instant(waited["start_date"]) > instant(mended["end_date"])
    # The date is the one that was mapped, and the interval the moment in which the run was created.
    dates = api.xcom("book", looked_at, "enter")
    assert dates["logical_date"] == "2026-11-21 00:00:00+00:00"
    assert dates["data_interval_start"] == dates["data_interval_end"] == dates["run_after"]
    assert dates["run_after"] != dates["logical_date"]


@pytest.mark.long
def test_dag_test_of_a_dispatcher_creates_the_runs_of_what_fired_and_ends(site: Any, eventually: Any) -> None:
    emit(site, *(Event.of("tried", "/test", subject=market) for market in ("lse", "nyse")))
    for _ in range(3):
        done = site.airflow.cli("dags", "test", "dispatch_tried", timeout_s=400)
        if "PendingRollbackError" not in done.stdout and "database is locked" not in done.stdout:
            break  # else the command and the DAG processor wrote the DAG to SQLite at the same moment
    assert done.returncode == 0, done.stdout[-3000:]
    assert "TypeError" not in done.stdout
    found = runs(site, "tried")
    assert found
    states = actions(site, "airflow/dispatch/dispatch_tried")
    # One round: the other may have fired after it.
    assert {f"dispatch__{firing}" for firing, state in states.items() if state == "acked"} == set(found)
