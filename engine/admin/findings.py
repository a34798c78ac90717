"""What the doctor finds, and what only Airflow can tell it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Level: TypeAlias = Literal["ok", "note", "wrong"]
Run: TypeAlias = tuple[str, str]  # a DAG's id, and its run's


class Finding(NamedTuple):
    """What one check found: a sentence, and what to do where something is wrong."""

    check: str
    level: Level
    text: str


@dataclass(frozen=True)
class Host:
    """What only Airflow can tell. airflow: its version. team: that the connection belongs to.

    unknown_runs, unknown_dags: of these, those that its database does not have; None: it cannot be asked.
    triggerer_hosts: where its triggerers ran in the last minutes; None: it is not known.
    """

    airflow: str
    default_deployment: str = "airflow"
    multi_team: bool = False
    team: str | None = None
    queues: bool = False
    unknown_runs: Callable[[Collection[Run]], Collection[Run]] | None = None
    unknown_dags: Callable[[Collection[str]], Collection[str]] | None = None
    triggerer_hosts: Collection[str] | None = None
