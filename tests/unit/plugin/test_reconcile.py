"""Reconcile: what Airflow's database knows and the bus does not is emitted, with the listener's ids."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.plugin import reconcile as module
from interlock.plugin.reconcile import CLOCK_SKEW, Reconciled, reconcile
from interlock.triggers.settings import KINDS, ListenerSettings, patterns_of
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session

SINCE = datetime(2026, 11, 20, tzinfo=UTC)
UNTIL = SINCE + timedelta(hours=1)
ALL = ListenerSettings(kinds=frozenset(KINDS))
CONFIG = BusConfig(client={"bootstrap.servers": "x:1"})


@dataclass
class Bus:
    """What the bus holds, and what is emitted to it."""

    held: set[tuple[str, str]] = field(default_factory=set)
    emitted: list[Event] = field(default_factory=list)
    asked_since: list[int] = field(default_factory=list)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    made = Bus()

    class FakeEmitter:
        def __init__(self, client: Any, topic: str) -> None:
            assert topic == "interlock-event"

        def __enter__(self) -> FakeEmitter:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def emit_all(self, events: Any, timeout_s: float) -> None:
            made.emitted += events
            made.held |= {event.identity for event in events}

    def emitted_since(config: BusConfig, since_ms: int, wanted: Any) -> set[tuple[str, str]]:
        made.asked_since.append(since_ms)
        return made.held & set(wanted)

    monkeypatch.setattr(module, "Emitter", FakeEmitter)
    monkeypatch.setattr(module, "emitted_since", emitted_since)
    return made


@pytest.fixture
def session() -> Iterator[Session]:
    """Airflow's tables of runs and task instances, in memory."""
    from airflow.models import import_all_models
    from airflow.models.base import Base

    import_all_models()  # tables refer to each other
    engine = create_engine("sqlite://")
    names = ("log_template", "dag_run", "task_instance", "dag_tag")
    Base.metadata.create_all(engine, [Base.metadata.tables[name] for name in names])
    with Session(engine) as made:
        yield made
    engine.dispose()


def add_run(session: Session, run_id: str, state: str | None, minutes: float | None, **given: Any) -> None:
    """A run of the DAG `daily` that ended so many minutes after SINCE."""
    from airflow.models.dagrun import DagRun

    ended = None if minutes is None else SINCE + timedelta(minutes=minutes)
    about = {
        "dag_id": "daily", "run_id": run_id, "_state": state, "run_type": "scheduled", "run_after": SINCE,
        "end_date": ended, "clear_number": 0, "span_status": "ended",
    }  # fmt: skip
    session.execute(insert(DagRun.__table__).values(**_columns(DagRun, about | given)))


def add_task(session: Session, run_id: str, task_id: str, state: str | None, minutes: float) -> None:
    from airflow.models.taskinstance import TaskInstance

    about = {
        "id": uuid.uuid4(), "dag_id": "daily", "run_id": run_id, "task_id": task_id, "map_index": -1,
        "state": state, "end_date": SINCE + timedelta(minutes=minutes), "try_number": 1, "max_tries": 0,
        "pool": "default_pool", "pool_slots": 1, "span_status": "ended",
    }  # fmt: skip
    session.execute(insert(TaskInstance.__table__).values(**_columns(TaskInstance, about)))


def _columns(model: Any, values: dict[str, Any]) -> dict[str, Any]:
    renamed = {"_state": "state"}
    return {renamed.get(k, k): v for k, v in values.items() if renamed.get(k, k) in model.__table__.columns}


def told(events: Any) -> list[tuple[str, str]]:
    return [(event.type.removeprefix("interlock.airflow."), event.payload["run_id"]) for event in events]


def test_the_ends_of_the_range_are_emitted_in_their_order(session: Session, bus: Bus) -> None:
    add_run(session, "before", "success", -1)
    add_run(session, "at its end", "success", 60)
    add_run(session, "second", "failed", 2)
    add_run(session, "first", "success", 0)
    add_run(session, "running", "running", None)
    add_task(session, "first", "a", "skipped", 1)
    add_task(session, "second", "b", "failed", 1.5)
    add_task(session, "second", "c", "upstream_failed", 1.5)
    add_task(session, "second", "d", "up_for_retry", 1.5)
    found = reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert told(bus.emitted) == [
        ("dag_run.succeeded", "first"),
        ("task_instance.skipped", "first"),
        ("task_instance.failed", "second"),
        ("dag_run.failed", "second"),
    ]
    assert (found.ends, list(found.missing)) == (4, bus.emitted)


def test_what_the_bus_holds_is_not_emitted_again(session: Session, bus: Bus) -> None:
    add_run(session, "one", "success", 1)
    add_run(session, "two", "success", 2)
    reconcile(CONFIG, session, SINCE, SINCE + timedelta(minutes=1.5), ALL)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert reconcile(CONFIG, session, SINCE, UNTIL, ALL) == Reconciled(2, ())
    assert [run_id for _, run_id in told(bus.emitted)] == ["one", "two"]
    assert set(bus.asked_since) == {int((SINCE - CLOCK_SKEW).timestamp() * 1000)}


def test_a_run_that_was_cleared_and_ended_again_is_another_end(session: Session, bus: Bus) -> None:
    add_run(session, "one", "success", 1)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    from airflow.models.dagrun import DagRun
    from sqlalchemy import update

    session.execute(update(DagRun.__table__).values(clear_number=1))
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert len({event.id for event in bus.emitted}) == 2


def test_the_listener_and_reconcile_give_one_end_one_event(session: Session, bus: Bus) -> None:
    import os

    from airflow.models.dagrun import DagRun
    from interlock.plugin.listener import EndListener

    add_run(session, "one", "success", 1, logical_date=SINCE, partition_key="eu", clear_number=2)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    listener = EndListener(ALL)
    heard: list[Event] = []
    listener._outboxes[os.getpid()] = type("Outbox", (), {"put": staticmethod(heard.append)})()
    listener.on_dag_run_success(session.query(DagRun).one())
    assert heard == bus.emitted


def test_a_dry_run_emits_nothing(session: Session, bus: Bus) -> None:
    add_run(session, "one", "success", 1)
    found = reconcile(CONFIG, session, SINCE, UNTIL, ALL, dry_run=True)
    assert (len(found.missing), bus.emitted) == (1, [])


def test_nothing_to_tell_asks_no_broker(session: Session, bus: Bus) -> None:
    assert reconcile(CONFIG, session, SINCE, UNTIL, ALL) == Reconciled(0, ())
    assert bus.asked_since == []


def test_kinds_dags_and_tags_choose(session: Session, bus: Bus) -> None:
    from airflow.models.dag import DagTag

    add_run(session, "one", "success", 1)
    add_run(session, "two", "success", 2, dag_id="hourly")
    add_run(session, "tried", "success", 3, triggered_by="TEST")
    add_task(session, "one", "a", "success", 1)
    session.execute(insert(DagTag.__table__).values(dag_id="hourly", name="gold"))
    gold, only_runs = frozenset({"gold"}), frozenset({"dag_run"})

    def found(**wanted: Any) -> list[str]:
        settings = ListenerSettings(**({"kinds": only_runs} | wanted))
        missing = reconcile(CONFIG, session, SINCE, UNTIL, settings, dry_run=True).missing
        return [run_id for _, run_id in told(missing)]

    assert found() == ["one", "two"]
    assert found(tags=gold) == ["two"]
    assert found(dags=patterns_of("d*")) == ["one"]
    assert found(dags=patterns_of("!daily")) == ["two"]
    assert len(found(kinds=frozenset({"task_instance"}))) == 1
