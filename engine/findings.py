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

    unknown_runs: of these runs, those that its database does not have; None: it cannot be asked.
    """

    airflow: str
    default_deployment: str = "airflow"
    multi_team: bool = False
    team: str | None = None
    queues: bool = False
    unknown_runs: Callable[[Collection[Run]], Collection[Run]] | None = None
