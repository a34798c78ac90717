"""The time zone in which a DAG's dates are days: that of its timetable, else the DAG's own."""

from __future__ import annotations

from typing import Any, TypeVar

from ..conditions import Condition
from ..conditions.nodes.zones import in_zone

T = TypeVar("T")


def zone_of(dag: Any) -> str | None:
    """Returns the name of the DAG's time zone; None if it has none, or one that is only an offset.

    dag: of the SDK, or as the scheduler reads it. A timetable such as CronDataIntervalTimetable may have
    another zone than the DAG, whose own is that of its start date, or Airflow's default.
    """
    timetable = getattr(dag, "timetable", None)
    for owner in (timetable, dag):
        for name in ("timezone", "_timezone"):
            zone = getattr(owner, name, None)
            found = getattr(zone, "key", None) or getattr(zone, "name", None) or zone
            if isinstance(found, str):
                return found if found[:1].isalpha() else None
    return None


def in_zone_of(dag: Any, condition: T) -> T | Condition:
    """Returns the condition with the DAG's zone in its keys that name none; anything else unchanged."""
    return in_zone(condition, zone_of(dag)) if isinstance(condition, Condition) else condition
