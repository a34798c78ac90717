"""Reconcile: emits events that are missing on the bus, with the listener's ids."""

from __future__ import annotations

import sys
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.events.attributes import parse_timestamp
from interlock.plugin.completions import reconcile as module
from interlock.plugin.completions.reconcile import CLOCK_SKEW, SOON
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

    timestamps: dict[tuple[str, str], int] = field(default_factory=dict)  # {identity: timestamp}
    emitted: list[Event] = field(default_factory=list)
    queries: list[tuple[int, int | None, int]] = field(default_factory=list)  # since, until, events wanted
    on_query: Callable[[], None] = lambda: None


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
            made.timestamps |= dict.fromkeys((event.identity for event in events), ms(UNTIL))

    class FakeEmitted:
        def __init__(self, config: BusConfig) -> None:
            assert config is CONFIG

        def among(self, wanted: Any, since_ms: int, until_ms: int | None = None) -> set[tuple[str, str]]:
            made.on_query()
            made.queries.append((since_ms, until_ms, len(wanted)))
            last = sys.maxsize if until_ms is None else until_ms
            return {each for each in wanted if since_ms <= made.timestamps.get(each, -1) < last}

    monkeypatch.setattr(module, "Emitter", FakeEmitter)
    monkeypatch.setattr(module, "Emitted", FakeEmitted)
    return made


@pytest.fixture
def session() -> Iterator[Session]:
    """A session on an in-memory database with Airflow's tables of runs and task instances."""
    from airflow.models import import_all_models
    from airflow.models.base import Base

    import_all_models()  # tables refer to each other
    engine = create_engine("sqlite://")
    names = (
        "log_template", "dag_run", "task_instance", "dag_tag", "task_instance_history", "task_reschedule",
        "task_instance_note", "hitl_detail", "dag_version",
    )  # fmt: skip
    Base.metadata.create_all(engine, [Base.metadata.tables[name] for name in names])
    with Session(engine) as made:
        yield made
    engine.dispose()


def add_run(session: Session, run_id: str, state: str | None, minutes: float | None, **given: Any) -> None:
    """Adds a run of the DAG `daily` that ended `minutes` after SINCE."""
    from airflow.models.dagrun import DagRun

    ended = None if minutes is None else SINCE + timedelta(minutes=minutes)
    about = {
        "dag_id": "daily", "run_id": run_id, "_state": state, "run_type": "scheduled", "run_after": SINCE,
        "end_date": ended, "clear_number": 0, "span_status": "ended",
    }  # fmt: skip
    session.execute(insert(DagRun.__table__).values(**_columns(DagRun, about | given)))


def add_task(
    session: Session, run_id: str, task_id: str, state: str | None, minutes: float, **given: Any
) -> None:
    from airflow.models.taskinstance import TaskInstance

    about = {
        "id": uuid.uuid4(), "dag_id": "daily", "run_id": run_id, "task_id": task_id, "map_index": -1,
        "state": state, "end_date": SINCE + timedelta(minutes=minutes), "try_number": 1, "max_tries": 0,
        "pool": "default_pool", "pool_slots": 1, "span_status": "ended",
    }  # fmt: skip
    session.execute(insert(TaskInstance.__table__).values(**_columns(TaskInstance, about | given)))


def _columns(model: Any, values: dict[str, Any]) -> dict[str, Any]:
    renamed = {"_state": "state"}
    return {renamed.get(k, k): v for k, v in values.items() if renamed.get(k, k) in model.__table__.columns}


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@dataclass
class Result:
    completions: int
    missing: list[Event]


def reconcile(*arguments: Any, **options: Any) -> Result:
    steps = list(module.reconcile(*arguments, **options))
    missing = [event for step in steps for event in step.missing]
    return Result(sum(step.completions for step in steps), missing)


def types_and_runs(events: Any) -> list[tuple[str, str]]:
    return [(event.type.removeprefix("interlock.airflow."), event.payload["run_id"]) for event in events]


def test_completions_of_the_range_are_emitted_in_the_order_of_time(session: Session, bus: Bus) -> None:
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
    assert types_and_runs(bus.emitted) == [
        ("dag_run.succeeded", "first"),
        ("task_instance.skipped", "first"),
        ("task_instance.failed", "second"),
        ("dag_run.failed", "second"),
    ]
    assert (found.completions, found.missing) == (4, bus.emitted)


def test_columns_that_no_event_needs_may_be_unreadable(session: Session, bus: Bus) -> None:
    from sqlalchemy import text

    add_run(session, "one", "success", 1)
    add_task(session, "one", "a", "success", 1)
    session.execute(text("UPDATE task_instance SET executor_config = X'00ff', context_carrier = '{'"))
    session.execute(text("UPDATE dag_run SET conf = '{', context_carrier = '{'"))
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert types_and_runs(bus.emitted) == [("dag_run.succeeded", "one"), ("task_instance.succeeded", "one")]


def test_events_on_the_bus_are_not_emitted_again(session: Session, bus: Bus) -> None:
    add_run(session, "one", "success", 1)
    add_run(session, "two", "success", 2)
    reconcile(CONFIG, session, SINCE, SINCE + timedelta(minutes=1.5), ALL)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert reconcile(CONFIG, session, SINCE, UNTIL, ALL) == Result(2, [])
    assert [run_id for _, run_id in types_and_runs(bus.emitted)] == ["one", "two"]
    assert bus.queries[-2][0] == ms(SINCE - CLOCK_SKEW)


@pytest.mark.parametrize(
    ("arrived", "queries"),
    [
        (SINCE + timedelta(minutes=3), 1),
        (SINCE + timedelta(minutes=2) - CLOCK_SKEW, 1),  # the machine's clock is ahead
        (SINCE + timedelta(minutes=2) + SOON, 2),
        (UNTIL + timedelta(days=7), 2),
    ],
)
def test_late_events_are_searched_in_the_rest_of_the_topic(
    arrived: datetime, queries: int, session: Session, bus: Bus
) -> None:
    add_run(session, "one", "success", 2)
    [missing] = reconcile(CONFIG, session, SINCE, UNTIL, ALL, dry_run=True).missing
    bus.queries.clear()
    bus.timestamps[missing.identity] = ms(arrived)
    assert reconcile(CONFIG, session, SINCE, UNTIL, ALL).missing == []
    assert len(bus.queries) == queries


@pytest.mark.parametrize("emitted_soon", [True, False])
def test_memory_holds_only_a_few_pages(
    emitted_soon: bool, session: Session, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 10)
    for n in range(200):
        add_run(session, f"r{n:03}", "success", n / 10)
        if n % 2:
            add_task(session, f"r{n:03}", "t", "success", n // 14)  # some ended at the same time

    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def counted(make: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            completion = make(*arguments)
            made.append(weakref.ref(completion))
            return completion

        return count

    for name in ("dag_run_completion", "task_instance_completion"):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    if emitted_soon:
        missing = reconcile(CONFIG, session, SINCE, UNTIL, ALL, dry_run=True).missing
        bus.timestamps = {
            each.identity: ms(parse_timestamp(str(each.attributes["time"]))) for each in missing
        }
        bus.queries.clear()
    bus.emitted = _Discarding()
    bus.on_query = lambda: alive.append(sum(completion() is not None for completion in made))
    completions = count = 0
    for step in module.reconcile(CONFIG, session, SINCE, UNTIL, ALL):
        completions, count = completions + step.completions, count + len(step.missing)
    assert (completions, count) == (300, 0 if emitted_soon else 300)
    assert max(alive) <= 4 * module.PAGE  # a page of runs, one of tasks, and those that are compared
    assert max(count for _, _, count in bus.queries) < 2 * module.PAGE
    # The rest of the topic is read once for each full page of missing events, and never if none is missing.
    assert sum(until is None for _, until, _ in bus.queries) == (0 if emitted_soon else 30)


class _Discarding(list[Event]):
    """Discards emitted events."""

    def __iadd__(self, events: Any) -> _Discarding:  # type: ignore[override,misc]
        return self


def test_a_run_that_was_cleared_and_ended_again_has_another_event(session: Session, bus: Bus) -> None:
    add_run(session, "one", "success", 1)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    from airflow.models.dagrun import DagRun
    from sqlalchemy import update

    session.execute(update(DagRun.__table__).values(clear_number=1))
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert len({event.id for event in bus.emitted}) == 2


@pytest.mark.parametrize(
    ("retries", "tries", "edited", "is_new"),
    [
        (1, 1, 1, True),
        (0, 1, 0, True),
        (1, 2, 0, True),
        (2, 1, 0, True),
        (1, 1, 2, True),
        (1, 1, 0, False),
        (3, 2, 1, False),
    ],
)
def test_a_cleared_task_has_a_new_event_unless_its_retries_were_lowered_by_its_tries(
    retries: int,
    tries: int,
    edited: int,
    is_new: bool,
    session: Session,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clear sets max_tries to the tries so far plus the current retries, ADR 20."""
    from airflow.models.dagbag import DBDagBag
    from airflow.models.taskinstance import TaskInstance, clear_task_instances
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization
    from sqlalchemy import update

    add_run(session, "one", "success", None)
    add_task(session, "one", "a", "success", 1, try_number=tries, max_tries=retries)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)

    with DAG("daily", schedule=None) as dag:
        EmptyOperator(task_id="a", retries=edited)
    latest = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    for name in ("get_latest_version_of_dag", "get_dag_for_run"):  # the latter by Airflow 3.3.0
        monkeypatch.setattr(DBDagBag, name, lambda *_, **__: latest)
    clear_task_instances([session.query(TaskInstance).one()], session, dag_run_state=False)
    ended_again = {"state": "success", "end_date": SINCE + timedelta(minutes=2), "try_number": tries + 1}
    session.execute(update(TaskInstance.__table__).values(ended_again))
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    assert len({event.id for event in bus.emitted}) == (2 if is_new else 1)


def test_the_listener_and_reconcile_emit_the_same_event(session: Session, bus: Bus) -> None:
    import os

    from airflow.models.dagrun import DagRun
    from interlock.plugin.completions.listener import CompletionListener

    add_run(session, "one", "success", 1, logical_date=SINCE, partition_key="eu", clear_number=2)
    reconcile(CONFIG, session, SINCE, UNTIL, ALL)
    listener = CompletionListener(ALL)
    from_listener: list[Event] = []
    listener.outboxes[os.getpid()] = type("Outbox", (), {"put": staticmethod(from_listener.append)})()
    listener.on_dag_run_success(session.query(DagRun).one())
    assert from_listener == bus.emitted


def test_a_dry_run_emits_nothing(session: Session, bus: Bus) -> None:
    add_run(session, "one", "success", 1)
    found = reconcile(CONFIG, session, SINCE, UNTIL, ALL, dry_run=True)
    assert (len(found.missing), bus.emitted) == (1, [])


def test_without_completions_no_broker_is_queried(session: Session, bus: Bus) -> None:
    assert reconcile(CONFIG, session, SINCE, UNTIL, ALL) == Result(0, [])
    assert bus.queries == []


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
        return [run_id for _, run_id in types_and_runs(missing)]

    assert found() == ["one", "two"]
    assert found(tags=gold) == ["two"]
    assert found(dags=patterns_of("d*")) == ["one"]
    assert found(dags=patterns_of("!daily")) == ["two"]
    assert len(found(kinds=frozenset({"task_instance"}))) == 1
