"""Reconcile: emits the ends that Airflow's database knows and the bus has not been told.

For what a crash, an outage or a full queue swallowed, and for ends that Airflow calls no listener for. The
ids are the listener's, so what was told after all is a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ..engine.config import BusConfig
from ..engine.emitted import emitted_since
from ..events.emitter import Emitter
from ..events.ends import End
from ..events.event import Event
from ..events.taxonomy import DAG_RUN, TASK_INSTANCE
from ..triggers.settings import ListenerSettings
from .ends import dag_run_end, task_instance_end, word_of

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

# The clock of a machine that ended something may be ahead of the broker's, which stamps the event.
CLOCK_SKEW: Final = timedelta(minutes=5)
_BATCH: Final = 500
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Reconciled:
    """What was found: ends in the range, and the events of those that the bus had not been told, by time."""

    ends: int
    missing: tuple[Event, ...]


def reconcile(
    config: BusConfig,
    session: Session,
    since: datetime,
    until: datetime,
    wanted: ListenerSettings,
    *,
    dry_run: bool = False,
) -> Reconciled:
    """Emit what is missing of the ends from `since` to before `until`; `wanted` says of which DAGs and kinds.

    EngineError and EmitError as the bus gives them: what was emitted by then stays, and a repeat goes on.
    """
    ends = sorted(_ends(session, since, until, wanted, config.deployment), key=_when)
    events = [end.event() for end in ends]
    if not events:
        return Reconciled(0, ())
    since_ms = int((since - CLOCK_SKEW).timestamp() * 1000)
    there = emitted_since(config, since_ms, [event.identity for event in events])
    missing = tuple(event for event in events if event.identity not in there)
    if missing and not dry_run:
        with Emitter(config.client, config.topic("event")) as emitter:
            for at in range(0, len(missing), _BATCH):
                emitter.emit_all(missing[at : at + _BATCH], timeout_s=_TIMEOUT_S)
    return Reconciled(len(events), missing)


def _ends(
    session: Session, since: datetime, until: datetime, wanted: ListenerSettings, deployment: str
) -> Iterator[End]:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    tags = _tags(session) if wanted.tags else _no_tags
    if "dag_run" in wanted.kinds:
        runs = select(DagRun).where(
            DagRun.state.in_(list(DAG_RUN)), DagRun.end_date >= since, DagRun.end_date < until
        )
        for run in session.scalars(runs):
            if _is_told(run, wanted, tags):
                yield dag_run_end(run, word_of(run.state), deployment)
    if "task_instance" in wanted.kinds:
        instances = (
            select(TaskInstance, DagRun)
            .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
            .where(
                TaskInstance.state.in_(list(TASK_INSTANCE)),
                TaskInstance.end_date >= since,
                TaskInstance.end_date < until,
            )
        )
        for ti, run in session.execute(instances):
            if _is_told(run, wanted, tags):
                yield task_instance_end(ti, run, word_of(ti.state), deployment)


def _is_told(run: DagRun, wanted: ListenerSettings, tags: Callable[[str], Collection[str]]) -> bool:
    # What dag.test() ends concerns nobody else.
    return word_of(run.triggered_by) != "test" and wanted.wants(run.dag_id, lambda: tags(run.dag_id))


def _tags(session: Session) -> Callable[[str], Collection[str]]:
    from airflow.models.dag import DagTag
    from sqlalchemy import select

    found: dict[str, set[str]] = {}
    for dag_id, name in session.execute(select(DagTag.dag_id, DagTag.name)):
        found.setdefault(dag_id, set()).add(name)
    return lambda dag_id: found.get(dag_id, ())


def _no_tags(_dag_id: str) -> Collection[str]:
    return ()


def _when(end: End) -> tuple[bool, datetime | None]:
    return end.ended_at is None, end.ended_at
