"""Notes on awaited completion events that this Airflow's listener does not emit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ...conditions import Matcher, Seen
from ...conditions.nodes.kinds import kinds_of
from ...engine.config import BusConfig
from ...engine.errors import ConfigError
from ...events.completions import airflow_source
from ...events.taxonomy import DAG_RUN, TASK_INSTANCE
from ...triggers.settings import ListenerSettings, listener_settings

if TYPE_CHECKING:
    from ...engine.admin.explaining import SubscriptionReport

# As `tags_here`.
Tags: TypeAlias = Callable[[str], Collection[str] | None]
_KINDS: Final[Mapping[str, Collection[str]]] = {
    "dag_run": tuple(DAG_RUN.values()),
    "task_instance": tuple(TASK_INSTANCE.values()),
}


def unemitted(report: SubscriptionReport, config: BusConfig) -> list[str]:
    """A sentence for each missing event of a subscription that this Airflow could emit, but does not.

    Empty for a subscription of another deployment, and if a setting of the listener is invalid.
    """
    of_deployment = report.registered.registration.subscription.partition("/")[0] == config.deployment
    if report.explanation is None or report.closed or not of_deployment:
        return []
    try:
        listener = listener_settings()
    except ConfigError:
        return []
    condition, missing = report.registered.condition, report.explanation.missing
    awaited = [m for m, label in zip(condition.matchers, condition.labels, strict=True) if label in missing]
    notes = (note_of(each, report.searched, config, listener, tags_here) for each in awaited)
    return list(dict.fromkeys(note for note in notes if note is not None))


def note_of(
    awaited: Matcher, searched: Iterable[Seen], config: BusConfig, listener: ListenerSettings, tags: Tags
) -> str | None:
    """Why this listener emits no event that the matcher awaits; None if it does, or if that is not known.

    None also if the searched events have one of this kind and DAG: somebody emits them.
    """
    kinds = sorted(kinds_of(awaited) or ())
    dag = dict(awaited.exact).get("subject", "").partition("/")[0]
    if not kinds or not set(kinds) <= _KINDS.keys() or not dag or not _may_be_of(awaited, config.deployment):
        return None
    types = {each for kind in kinds for each in _KINDS[kind]}
    if any(_is_of(seen, types, dag) for seen in searched):
        return None
    dag_tags = tags(dag)
    if dag_tags is None:
        return None
    reconcile = config.command(f"reconcile --kinds {','.join(kinds)}")
    remedy = f"Set it, or emit them with: {reconcile}"
    if not listener.kinds:
        why = "is off ([interlock] listener)"
    elif listener.kinds.isdisjoint(kinds):
        why = f"emits {' and '.join(sorted(listener.kinds))} ends only ([interlock] listener)"
    elif not listener.wants(dag, lambda: dag_tags):
        why, remedy = "leaves this DAG out ([interlock] listener_dags, listener_tags)", "Change them."
    else:
        return None
    return (
        f"As configured here, this Airflow's listener {why}, so no {' or '.join(kinds)} event of DAG {dag!r} "
        f"comes by itself. {remedy}"
    )


def tags_here(dag_id: str) -> Collection[str] | None:
    """The tags of a DAG in this Airflow's database; None if it is not there, or cannot be asked for."""
    from airflow.models.dag import DagModel, DagTag
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            if session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id)) is None:
                return None
            return frozenset(session.scalars(select(DagTag.name).where(DagTag.dag_id == dag_id)))
    except SQLAlchemyError:
        return None


def _may_be_of(matcher: Matcher, deployment: str) -> bool:
    source = dict(matcher.exact).get("source")
    return source is None or source.startswith(airflow_source(deployment, ""))


def _is_of(seen: Seen, types: Collection[str], dag: str) -> bool:
    return seen.event.type in types and (seen.event.subject or "").partition("/")[0] == dag
