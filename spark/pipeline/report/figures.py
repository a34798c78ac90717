"""The part of a report that page and summary show: totals, and the first rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """The first rows of a table, and how many it has."""

    name: str
    rows: tuple[Row, ...] = ()
    total: int = 0

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True)
class Figures:
    """All that page and summary show.

    since_ms, until_ms: the requested range; None: unlimited. first_ms, last_ms: append times of its first and
    last event. overall: counts and latencies of all firings, as in a row of `latencies_by_dag`.
    conditions: in force at some time of the range. unreadable_actions, unreadable_conditions: left out of the
    tables, since this version cannot read them. without_type: conditions with a matcher that names neither a
    type nor a source. step_ms: of the time axis; None: a day. tables: by name.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    events: int = 0
    types: int = 0
    overall: Row = field(default_factory=dict)
    conditions: int = 0
    unreadable_actions: int = 0
    unreadable_conditions: int = 0
    without_type: int = 0
    step_ms: int | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.events and not self.overall.get("firings")

    def table(self, name: str) -> Table:
        return self.tables.get(name) or Table(name)

    def summary(self) -> dict[str, Any]:
        """As one JSON object; times in milliseconds."""
        return {
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "events": self.events,
            "types": self.types,
            "types_nobody_waits_for": self.table("unwaited_types").total,
            "conditions": self.conditions,
            "conditions_without_type": self.without_type,
            **self.overall,
            "unreadable_actions": self.unreadable_actions,
            "unreadable_conditions": self.unreadable_conditions,
        }
