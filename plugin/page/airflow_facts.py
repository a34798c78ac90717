"""What Airflow's database knows of a task that waits, and of a dispatcher. Read for each question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from ...engine.following.owner import Owner
from ...events.visible import visible_logger

_DISPATCH: Final = "dispatch"  # the task of a dispatcher
_TRIGGERS: Final = "interlock.triggers."
_MOST_DISPATCHERS: Final = 500
log = visible_logger(__name__)


class TaskFacts(NamedTuple):
    """A task instance. Times in ms since the epoch; None if there is none, or it is not known.

    state: in Airflow's words. waits: it is deferred for a trigger of Interlock. timeout_ms: when its wait
    ends. retry_ms: when Airflow tries it again. running_ms: when it began to run, or continued, last.
    """

    state: str | None = None
    waits: bool = False
    timeout_ms: int | None = None
    retry_ms: int | None = None
    running_ms: int | None = None


class Dispatching(NamedTuple):
    """What a dispatcher does. target: the DAG of which it creates runs.

    in_flight: how many of these runs are queued or running. held: firings without a run, which it could not
    create; None if it is not known, because its task does not wait now.
    """

    target: str
    in_flight: int = 0
    held: int | None = None


def task_facts(owner: Owner) -> TaskFacts:
    """What Airflow knows of a task instance; nothing if it has none of these ids."""
    from airflow.models.log import Log
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import select

    map_index = -1 if owner.map_index is None else owner.map_index
    ids = (owner.dag_id, owner.run_id, owner.task_id, map_index)
    with create_session() as session:
        columns = (TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
        found = session.scalar(select(TaskInstance).where(*_equal(columns, ids)))
        if found is None:
            return TaskFacts()
        trigger = session.get(Trigger, found.trigger_id) if found.trigger_id is not None else None
        logged = (Log.dag_id, Log.run_id, Log.task_id, Log.map_index)
        running = session.scalar(
            select(Log.dttm)
            .where(*_equal(logged, ids), Log.event == "running")
            .order_by(Log.dttm.desc())
            .limit(1)
        )
        return TaskFacts(
            str(found.state) if found.state else None,
            trigger is not None and trigger.classpath.startswith(_TRIGGERS),
            None if trigger is None else _timeout_ms(trigger),
            _retry_ms(found, session),
            _ms(running),
        )


def dispatching(dag_ids: Collection[str]) -> Mapping[str, Dispatching]:
    """{dispatcher's DAG: what it does}, for those of these DAGs of which the DAG file is known."""
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import func, select

    wanted = sorted(dag_ids)[:_MOST_DISPATCHERS]
    found: dict[str, Dispatching] = {}
    with create_session() as session:
        for dag_id in wanted:
            model = SerializedDagModel.get(dag_id, session=session)
            target = None if model is None else _target_in(model.data)
            if target is not None:
                found[dag_id] = Dispatching(target)
        runs = session.execute(
            select(DagRun.dag_id, func.count())
            .where(
                DagRun.dag_id.in_({each.target for each in found.values()}),
                DagRun.state.in_((DagRunState.QUEUED, DagRunState.RUNNING)),
            )
            .group_by(DagRun.dag_id)
        )
        in_flight = {dag_id: int(count) for dag_id, count in runs}
        for dag_id, each in found.items():
            found[dag_id] = each._replace(in_flight=in_flight.get(each.target, 0))
        deferred = session.execute(
            select(TaskInstance.dag_id, Trigger)
            .join(Trigger, TaskInstance.trigger_id == Trigger.id)
            .where(TaskInstance.dag_id.in_(found), TaskInstance.task_id == _DISPATCH)
        )
        for dag_id, trigger in deferred:
            held = _arguments(trigger).get("held")
            if isinstance(held, (list, tuple)):
                found[dag_id] = found[dag_id]._replace(held=len(held))
    return found


def _equal(columns: tuple[Any, ...], values: tuple[Any, ...]) -> list[Any]:
    return [column == value for column, value in zip(columns, values, strict=True)]


def _target_in(data: Any) -> str | None:
    """`trigger_dag_id` of a serialised dispatcher; None for other DAGs, and for one that is a template."""
    with suppress(KeyError, TypeError, AttributeError):
        for task in data["dag"]["tasks"]:
            task = task.get("__var", task)
            target = task.get("trigger_dag_id")
            if task.get("task_id") == _DISPATCH and isinstance(target, str) and "{" not in target:
                return target
    return None


def _timeout_ms(trigger: Any) -> int | None:
    text = _arguments(trigger).get("timeout_at")
    try:
        return _ms(datetime.fromisoformat(text)) if isinstance(text, str) else None
    except ValueError:
        return None


def _arguments(trigger: Any) -> Mapping[str, Any]:
    try:
        found = trigger.kwargs
    except Exception as error:  # noqa: BLE001  # a key that was changed, or a class that is gone
        log.debug("The arguments of trigger %s cannot be read: %s", trigger.id, error)
        return {}
    return found if isinstance(found, Mapping) else {}


def _retry_ms(found: Any, session: Any) -> int | None:
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.state import TaskInstanceState

    if found.state != TaskInstanceState.UP_FOR_RETRY:
        return None
    try:
        dag: Any = SerializedDagModel.get_dag(found.dag_id, session=session)
        found.task = dag.get_task(found.task_id)
        return _ms(found.next_retry_datetime())
    except Exception as error:  # noqa: BLE001  # a DAG that was changed meanwhile, say
        log.debug("When %s is tried again is not known: %s", found.task_id, error)
        return None


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
