"""Which awaited completion events are said not to come, because the listener does not emit them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from interlock import Event, dag_run, event, task_instance
from interlock.conditions import Seen
from interlock.conditions.filters import Prefix
from interlock.engine.config import BusConfig
from interlock.plugin.completions.unemitted import note_of, tags_here
from interlock.triggers.settings import ListenerSettings, patterns_of
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

CONFIG = BusConfig(name="bus", client={"bootstrap.servers": "192.0.2.1:1"}, deployment="airflow")
RUNS = {"kinds": frozenset({"dag_run"})}
LOAD = task_instance("ingest", "load")


def note(
    awaited: Any, listener: dict[str, Any], *seen: Event, tags: frozenset[str] | None = frozenset()
) -> str | None:
    settings = ListenerSettings(**listener)
    return note_of(awaited, [Seen(each) for each in seen], CONFIG, settings, lambda _: tags)


OF_TASKS = (
    "As configured here, this Airflow's listener emits dag_run ends only ([interlock] listener), so no "
    "task_instance event of DAG 'ingest' comes by itself. Set it, or emit them with: airflow interlock "
    "reconcile --kinds task_instance --bus bus"
)
LEFT_OUT = (
    "As configured here, this Airflow's listener leaves this DAG out ([interlock] listener_dags, "
    "listener_tags), so no dag_run event of DAG 'ingest' comes by itself. Change them."
)


@pytest.mark.parametrize(
    ("awaited", "listener", "expected"),
    [
        (LOAD, RUNS, OF_TASKS),
        (dag_run("ingest", by="ds"), {}, "is off ([interlock] listener), so no dag_run event"),
        (dag_run("ingest", state=["success", "failed"], deployment="airflow"), {}, "so no dag_run event"),
        (dag_run("ingest"), {**RUNS, "dags": patterns_of("ledger_*")}, LEFT_OUT),
        (dag_run("ingest"), {**RUNS, "tags": frozenset({"gold"})}, LEFT_OUT),
        (
            event(filters=[Prefix(type="interlock.airflow.")], subject="ingest"),
            {},
            "so no dag_run or task_instance event",
        ),
    ],
)
def test_an_event_that_the_listener_does_not_emit_is_noted(
    awaited: Any, listener: dict[str, Any], expected: str
) -> None:
    assert expected in (note(awaited, listener) or "")


@pytest.mark.parametrize(
    ("awaited", "listener"),
    [
        (dag_run("ingest"), RUNS),
        (dag_run("ingest"), {**RUNS, "dags": patterns_of("in*"), "tags": frozenset({"gold"})}),
        (dag_run("ingest", deployment="other"), {}),
        (event("interlock.spark.application.succeeded", subject="ingest"), {}),
        (event("interlock.airflow.dag_run.succeeded", filters=[Prefix(subject="in")]), {}),
        (event(source="/airflow/ingest"), {}),
        (event(subject="ingest", where="data.state == 'success'"), {}),
    ],
)
def test_an_event_that_the_listener_or_somebody_else_may_emit_is_not_noted(
    awaited: Any, listener: dict[str, Any]
) -> None:
    assert note(awaited, listener, tags=frozenset({"gold"})) is None


def test_a_dag_of_which_such_events_came_is_not_noted() -> None:
    def came(event_type: str, subject: str) -> Event:
        return Event.of(event_type, "/airflow/ingest", subject=subject)

    assert note(LOAD, RUNS, came("interlock.airflow.task_instance.failed", "ingest/check")) is None
    assert note(LOAD, RUNS, came("interlock.airflow.task_instance.failed", "ingest_2/check")) is not None
    assert note(LOAD, RUNS, came("interlock.airflow.dag_run.succeeded", "ingest")) is not None


def test_a_dag_that_this_airflow_does_not_have_is_not_noted() -> None:
    assert note(LOAD, RUNS, tags=None) is None


def test_the_tags_of_a_dag_are_those_in_airflows_database(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from airflow.models.dag import DagModel, DagTag

    import_all_models()
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with Session(engine) as made:

        @contextmanager
        def create_session() -> Iterator[Session]:
            yield made

        monkeypatch.setattr("airflow.utils.session.create_session", create_session)
        assert tags_here("a") is None  # without tables
        made.rollback()
        Base.metadata.create_all(engine, [Base.metadata.tables[name] for name in ("dag", "dag_tag")])
        needed = ("max_active_tasks", "max_consecutive_failed_dag_runs", "has_task_concurrency_limits")
        for dag_id in ("a", "b"):
            columns = {"dag_id": dag_id, "bundle_name": "x", **dict.fromkeys(needed, 0)}
            made.execute(insert(DagModel.__table__).values(columns))
        made.execute(insert(DagTag.__table__).values([{"dag_id": "a", "name": n} for n in ("gold", "eu")]))
        assert [tags_here(dag_id) for dag_id in ("a", "b", "c")] == [{"gold", "eu"}, set(), None]
    engine.dispose()
