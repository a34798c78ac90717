"""What the doctor's checks return (`Finding`), and what they need to know about Airflow (`AirflowInfo`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ..delivery.addresses import Network
from ..sending.targets import Lookup

Level: TypeAlias = Literal["ok", "note", "wrong"]
DagRunId: TypeAlias = tuple[str, str]  # the DAG's id and the run's id


class Finding(NamedTuple):
    """The result of a check. text: a sentence, and what to do if something is wrong.

    alert: the alert rule that fires for it, if there is one.
    """

    check: str
    level: Level
    text: str
    alert: str | None = None


@dataclass(frozen=True)
class SinkAccess:
    """How this process reaches sinks. lookup: the target of an Airflow connection; raises TargetError.

    networks: those that deliveries may reach although they are not public.
    """

    lookup: Lookup
    networks: tuple[Network, ...] = ()


@dataclass(frozen=True)
class AirflowInfo:
    """What the checks need to know about Airflow. version: Airflow's. team: the connection's team.

    unknown_runs, unknown_dags: return those of the given ones that Airflow's database does not have; None if
    the database cannot be queried. triggerer_hosts: where triggerers ran in the last minutes; None: unknown.
    sinks: the connections of sinks; None if a setting of deliveries is invalid.
    """

    version: str
    default_deployment: str = "airflow"
    multi_team: bool = False
    team: str | None = None
    queues: bool = False
    unknown_runs: Callable[[Collection[DagRunId]], Collection[DagRunId]] | None = None
    unknown_dags: Callable[[Collection[str]], Collection[str]] | None = None
    triggerer_hosts: Collection[str] | None = None
    sinks: SinkAccess | None = None
