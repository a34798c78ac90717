"""Reconcile: emits the ends that Airflow's database knows and the bus has not been told.

For what a crash, an outage or a full queue swallowed, and for ends that Airflow calls no listener for. The
ids are the listener's, so what was told after all is a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from ...engine.config import BusConfig
from ...engine.reading.emitted import Emitted
from ...events.completions import End
from ...events.emitter import Emitter
from ...events.event import Event
from ...events.taxonomy import DAG_RUN, TASK_INSTANCE
from ...triggers.settings import ListenerSettings
from .airflow_objects import dag_run_end, task_instance_end, word_of

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import Select
    from sqlalchemy.orm import Bundle, Session

# The clock of a machine that ended something may be ahead of the broker's, which stamps the event.
CLOCK_SKEW: Final = timedelta(minutes=5)
SOON: Final = timedelta(minutes=10)  # by then the listener has told nearly all
PAGE: Final = 2000  # ends that are held at once, a few times over; one is about 3 kB
# What is used of the tables' rows.
_OF_RUN: Final = (
    "id", "dag_id", "run_id", "run_type", "run_after", "logical_date", "data_interval_start",
    "data_interval_end", "partition_key", "clear_number", "state", "start_date", "end_date", "triggered_by",
)  # fmt: skip
_OF_TASK: Final = ("id", "task_id", "map_index", "try_number", "max_tries", "state", "start_date", "end_date")
_BATCH: Final = 500
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Reconciled:
    """One step: how many ends it went over and up to which, and what of them and earlier ones was missing."""

    ends: int
    until: datetime
    missing: tuple[Event, ...]


def reconcile(
    config: BusConfig,
    session: Session,
    since: datetime,
    until: datetime,
    wanted: ListenerSettings,
    *,
    dry_run: bool = False,
) -> Iterator[Reconciled]:
    """Emit what is missing of the ends from `since` to before `until`; `wanted` says of which DAGs and kinds.

    Step by step, in the order of their time; memory does not grow with the number of ends. The session's
    transaction is committed with each. EngineError and EmitError as the bus gives them: what was emitted by
    then stays, and a repeat goes on.
    """
    emitted: Emitted | None = None
    late: list[Event] = []  # what was not told soon, and perhaps later
    late_since = since
    for page in _pages(_ends(session, since, until, wanted, config.deployment)):
        begin = since if emitted is None else _when(page[0])
        emitted = emitted or Emitted(config)
        soon = _when(page[-1]) + SOON
        events = [end.event() for end in page]
        told = emitted.among(_identities(events), _ms(begin - CLOCK_SKEW), _ms(soon))
        if not late:
            late_since = soon
        late += [event for event in events if event.identity not in told]
        missing: tuple[Event, ...] = ()
        if len(late) >= PAGE:  # for so many, the rest of the topic is read once
            missing = _emit_missing(config, emitted, late, late_since, dry_run=dry_run)
            late.clear()
        yield Reconciled(len(page), _when(page[-1]), missing)
    if emitted is not None and late:
        yield Reconciled(0, until, _emit_missing(config, emitted, late, late_since, dry_run=dry_run))


def _emit_missing(
    config: BusConfig, emitted: Emitted, late: list[Event], since: datetime, *, dry_run: bool
) -> tuple[Event, ...]:
    told = emitted.among(_identities(late), _ms(since))
    missing = tuple(event for event in late if event.identity not in told)
    if missing and not dry_run:
        with Emitter(config.client, config.topic("event")) as emitter:
            for at in range(0, len(missing), _BATCH):
                emitter.emit_all(missing[at : at + _BATCH], timeout_s=_TIMEOUT_S)
    return missing


def _pages(ends: Iterator[End]) -> Iterator[list[End]]:
    while page := list(islice(ends, PAGE)):
        yield page


def _ends(
    session: Session, since: datetime, until: datetime, wanted: ListenerSettings, deployment: str
) -> Iterator[End]:
    """In the order of their time."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    tags = _tags(session) if wanted.tags else _no_tags

    def of_run(run: Any) -> End | None:
        return dag_run_end(run, word_of(run.state), deployment) if _is_told(run, wanted, tags) else None

    def of_task(ti: Any, run: Any) -> End | None:
        return (
            task_instance_end(ti, run, word_of(ti.state), deployment) if _is_told(run, wanted, tags) else None
        )

    found: list[Iterator[End]] = []
    if "dag_run" in wanted.kinds:
        runs = select(_read(DagRun, _OF_RUN)).where(DagRun.state.in_(list(DAG_RUN)))
        found.append(_in_order(session, runs, DagRun, since, until, of_run))
    if "task_instance" in wanted.kinds:
        instances = (
            select(_read(TaskInstance, _OF_TASK), _read(DagRun, _OF_RUN))
            .select_from(TaskInstance)
            .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
            .where(TaskInstance.state.in_(list(TASK_INSTANCE)))
        )
        found.append(_in_order(session, instances, TaskInstance, since, until, of_task))
    return merge(*found, key=_when)


def _read(model: type[DagRun | TaskInstance], names: tuple[str, ...]) -> Bundle[Any]:
    """These columns as one object: whole rows hold pickles, and one that cannot be read would end all."""
    from sqlalchemy.orm import Bundle

    return Bundle(model.__tablename__, *(getattr(model, name) for name in names))


def _in_order(
    session: Session,
    asked: Select[*tuple[Any, ...]],
    model: type[DagRun | TaskInstance],
    since: datetime,
    until: datetime,
    make: Callable[..., End | None],
) -> Iterator[End]:
    """A query for each page: an open cursor would hold a transaction as long as the bus is read."""
    from sqlalchemy import and_, or_

    asked = asked.where(model.end_date < until).order_by(model.end_date, model.id).limit(PAGE)
    after = model.end_date >= since
    while True:
        rows = session.execute(asked.where(after)).all()
        if rows:
            last = rows[-1][0]
            after = or_(
                model.end_date > last.end_date, and_(model.end_date == last.end_date, model.id > last.id)
            )
        ends = [end for row in rows if (end := make(*row)) is not None]
        whole = len(rows) < PAGE
        del rows
        session.commit()
        yield from ends
        if whole:
            return


def _is_told(run: Any, wanted: ListenerSettings, tags: Callable[[str], Collection[str]]) -> bool:
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


def _identities(events: list[Event]) -> list[tuple[str, str]]:
    return [event.identity for event in events]


def _when(end: End) -> datetime:
    return cast("datetime", end.ended_at)  # by which it was asked for


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
