"""The time zone of a DAG's days: that of its timetable, else the DAG's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from ..conditions import Condition
from ..conditions.nodes.zones import in_zone

T = TypeVar("T")
_MAX_INNER: Final = 4  # timetables inside each other


def zone_of(dag: Any) -> str | None:
    """Returns the name of the DAG's time zone; None if it has none, or one that is only an offset.

    dag: of the SDK, or as the scheduler reads it. A timetable such as CronDataIntervalTimetable may have
    another zone than the DAG, whose own is that of its start date, or Airflow's default.
    """
    for owner in (*_timetables(getattr(dag, "timetable", None)), dag):
        for name in ("timezone", "_timezone"):
            zone = getattr(owner, name, None)
            found = getattr(zone, "key", None) or getattr(zone, "name", None) or zone
            if isinstance(found, str):
                return found if found[:1].isalpha() else None
    return None


def _timetables(timetable: Any) -> Iterator[Any]:
    """Yields the timetable and the one in it, of AssetOrTimeSchedule and MultipleCronTriggerTimetable.

    The crons of the latter have one zone. A timetable of a plugin might hold itself, hence the limit.
    """
    for _ in range(_MAX_INNER):
        yield timetable
        inner = getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None) or [None]
        timetable = getattr(timetable, "timetable", None) or inner[0]


def in_zone_of(dag: Any, condition: T) -> T | Condition:
    """Returns the condition with the DAG's zone in its keys that name none; anything else unchanged."""
    return in_zone(condition, zone_of(dag)) if isinstance(condition, Condition) else condition
