"""Reconcile: emits the completion events that the bus lacks, computed from Airflow's database.

Events are missing after a crash, an outage or a full queue, and where Airflow calls no listener. The ids are
those of the listener, so an event that is emitted twice counts once.
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
from ...events.completions import Completion
from ...events.emitter import Emitter
from ...events.event import Event
from ...events.taxonomy import DAG_RUN, TASK_INSTANCE
from ...triggers.settings import ListenerSettings
from .airflow_objects import dag_run_completion, task_instance_completion, text_of

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import Select
    from sqlalchemy.orm import Bundle, Session

# Airflow's clock, from which `ended_at` comes, may be ahead of the broker's, which stamps the event.
CLOCK_SKEW: Final = timedelta(minutes=5)
SOON: Final = timedelta(minutes=10)  # the listener emits nearly all events within this time
PAGE: Final = 2000  # completions in one query; memory holds a few pages, 3 kB per completion
_RUN_COLUMNS: Final = (
    "id", "dag_id", "run_id", "run_type", "run_after", "logical_date", "data_interval_start",
    "data_interval_end", "partition_key", "clear_number", "state", "start_date", "end_date", "triggered_by",
)  # fmt: skip
_TASK_COLUMNS: Final = (
    "id",
    "task_id",
    "map_index",
    "try_number",
    "max_tries",
    "state",
    "start_date",
    "end_date",
)
_BATCH: Final = 500
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Reconciled:
    """One step of `reconcile`.

    completions: how many it compared. until: the end time of the last of them. missing: the events that were
    missing, which may belong to completions of earlier steps.
    """

    completions: int
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
    """Emits missing events of completions from `since` to before `until`; `wanted` chooses DAGs and kinds.

    Yields after each step, in the order of time. Memory does not grow with the number of completions. Each
    step commits the session's transaction. Raises EngineError and EmitError; call it again then: it emits
    what is still missing.

    For each page of completions, it searches the part of the topic that holds nearly all their events: up to
    SOON after the last end. The others may have been emitted later. Since the rest of the topic costs much to
    read, it collects them, and searches the rest for many of them at once. Events that are not there either
    are missing.
    """
    emitted: Emitted | None = None
    not_found: list[Event] = []
    rest_begins = since
    for page in _pages(_completions(session, since, until, wanted, config.deployment)):
        begin = since if emitted is None else _ended_at(page[0])
        emitted = emitted or Emitted(config)
        soon = _ended_at(page[-1]) + SOON
        events = [completion.event() for completion in page]
        found = emitted.among(_identities(events), _ms(begin - CLOCK_SKEW), _ms(soon))
        if not not_found:
            rest_begins = soon
        not_found += [event for event in events if event.identity not in found]
        missing: tuple[Event, ...] = ()
        if len(not_found) >= PAGE:
            missing = _emit_missing(config, emitted, not_found, rest_begins, dry_run=dry_run)
            not_found.clear()
        yield Reconciled(len(page), _ended_at(page[-1]), missing)
    if emitted is not None and not_found:
        yield Reconciled(0, until, _emit_missing(config, emitted, not_found, rest_begins, dry_run=dry_run))


def _emit_missing(
    config: BusConfig, emitted: Emitted, events: list[Event], since: datetime, *, dry_run: bool
) -> tuple[Event, ...]:
    """Emits those of the events that the topic does not have from `since` on, and returns them."""
    found = emitted.among(_identities(events), _ms(since))
    missing = tuple(event for event in events if event.identity not in found)
    if missing and not dry_run:
        with Emitter(config.client, config.topic("event")) as emitter:
            for start in range(0, len(missing), _BATCH):
                emitter.emit_all(missing[start : start + _BATCH], timeout_s=_TIMEOUT_S)
    return missing


def _pages(completions: Iterator[Completion]) -> Iterator[list[Completion]]:
    while page := list(islice(completions, PAGE)):
        yield page


def _completions(
    session: Session, since: datetime, until: datetime, wanted: ListenerSettings, deployment: str
) -> Iterator[Completion]:
    """Yields them in the order of time."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    tags = _tags(session) if wanted.tags else lambda _dag_id: ()

    def of_run(run: Any) -> Completion | None:
        if not _is_wanted(run, wanted, tags):
            return None
        return dag_run_completion(run, text_of(run.state), deployment)

    def of_task(ti: Any, run: Any) -> Completion | None:
        if not _is_wanted(run, wanted, tags):
            return None
        return task_instance_completion(ti, run, text_of(ti.state), deployment)

    found: list[Iterator[Completion]] = []
    if "dag_run" in wanted.kinds:
        runs = select(_columns(DagRun, _RUN_COLUMNS)).where(DagRun.state.in_(list(DAG_RUN)))
        found.append(_in_order(session, runs, DagRun, since, until, of_run))
    if "task_instance" in wanted.kinds:
        instances = (
            select(_columns(TaskInstance, _TASK_COLUMNS), _columns(DagRun, _RUN_COLUMNS))
            .select_from(TaskInstance)
            .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
            .where(TaskInstance.state.in_(list(TASK_INSTANCE)))
        )
        found.append(_in_order(session, instances, TaskInstance, since, until, of_task))
    return merge(*found, key=_ended_at)


def _columns(model: type[DagRun | TaskInstance], names: tuple[str, ...]) -> Bundle[Any]:
    """Returns these columns as one object. Whole rows hold pickles, which may be unreadable."""
    from sqlalchemy.orm import Bundle

    return Bundle(model.__tablename__, *(getattr(model, name) for name in names))


def _in_order(
    session: Session,
    query: Select[*tuple[Any, ...]],
    model: type[DagRun | TaskInstance],
    since: datetime,
    until: datetime,
    make: Callable[..., Completion | None],
) -> Iterator[Completion]:
    """Queries page by page: an open cursor would hold its transaction while the bus is read."""
    from sqlalchemy import and_, or_

    query = query.where(model.end_date < until).order_by(model.end_date, model.id).limit(PAGE)
    after = model.end_date >= since
    while True:
        rows = session.execute(query.where(after)).all()
        if rows:
            last = rows[-1][0]
            after = or_(
                model.end_date > last.end_date, and_(model.end_date == last.end_date, model.id > last.id)
            )
        completions = [completion for row in rows if (completion := make(*row)) is not None]
        is_last = len(rows) < PAGE
        del rows
        session.commit()
        yield from completions
        if is_last:
            return


def _is_wanted(run: Any, wanted: ListenerSettings, tags: Callable[[str], Collection[str]]) -> bool:
    # dag.test() must not emit events.
    return text_of(run.triggered_by) != "test" and wanted.wants(run.dag_id, lambda: tags(run.dag_id))


def _tags(session: Session) -> Callable[[str], Collection[str]]:
    from airflow.models.dag import DagTag
    from sqlalchemy import select

    found: dict[str, set[str]] = {}
    for dag_id, name in session.execute(select(DagTag.dag_id, DagTag.name)):
        found.setdefault(dag_id, set()).add(name)
    return lambda dag_id: found.get(dag_id, ())


def _identities(events: list[Event]) -> list[tuple[str, str]]:
    return [event.identity for event in events]


def _ended_at(completion: Completion) -> datetime:
    return cast("datetime", completion.ended_at)  # the query selects by it, so it is not None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
