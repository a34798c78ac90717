"""The sections of the page: their texts, charts and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from . import charts, formats
from .charts import Chart
from .columns import (
    HEADS,
    PERCENTILES,
    Column,
    count,
    firing_counts,
    latencies,
    moment,
    percentiles,
    run,
    text,
    who,
)
from .columns import kind as kind_of
from .figures import Figures, Row, Table
from .latencies import LATENCIES

CHARTED: Final = 15  # most rows of a table in its chart
LABELS: Final = 12  # columns of the picture of what was missing
_EACH: Final = "p50, p90 and p99 of"


@dataclass(frozen=True)
class Section:
    """id: unique on the page. lead: explains the figures. nothing: the text if there are none.

    table: the rows to show. folder: the complete table, beside the page.
    """

    id: str
    title: str
    lead: str
    nothing: str
    columns: Sequence[Column]
    table: Table
    chart: Chart | None
    folder: str

    @property
    def groups(self) -> list[tuple[str, int]]:
        """[(head, number of columns below it)], in order; empty if no column has a group."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found if any(group for group, _ in found) else []


def sections(figures: Figures, now_ms: int) -> Iterator[Section]:
    """All sections, including those without figures. now_ms: when the report is made."""
    yield _by_dag(figures)
    yield _by_condition(figures)
    yield _by_type(figures)
    yield _expired(figures)
    yield _lacking(figures)
    yield _unacknowledged(figures, now_ms)
    yield _producers(figures)
    yield _unwaited(figures)
    yield _volume(figures)


def _by_dag(figures: Figures) -> Section:
    table = figures.table("latencies_by_dag")
    return Section(
        "dags",
        "Latencies by DAG",
        "Event → firing: from the last event of a firing (or the start of the wait, or its timer, if later)"
        " to the firing. Firing → resume: from there to its acknowledgement, which the resumed task writes."
        " Open: firings not acknowledged yet.",
        "Nothing fired.",
        [Column("DAG and task", who), *firing_counts(), *latencies(*LATENCIES)],
        table,
        _spread_chart("dags", "by DAG and task", table, who, LATENCIES),
        "latencies_by_dag",
    )


def _by_condition(figures: Figures) -> Section:
    table = figures.table("latencies_by_condition")

    def condition(row: Row) -> str:
        if row["condition_id"] is None:
            return "(registration not in the archive)"
        return formats.printable(row["condition"] or f"(unreadable, {row['condition_id']})", 300)

    def user(row: Row) -> str:
        """Who uses the condition: texts of conditions begin alike, and are cut in a chart."""
        others = row["dags"] - 1
        name = who(row) if row.get("dag") is not None else condition(row)
        return name + (f" and {formats.counted(others, 'other DAG')}" if others > 0 else "")

    return Section(
        "conditions",
        "Latencies by condition",
        "The same latencies, for all waits and dispatchers that share a condition.",
        "Nothing fired.",
        [
            Column("Condition", condition),
            Column("Used by", user),
            count("DAGs", "dags"),
            *firing_counts(),
            *latencies(*LATENCIES),
        ],
        table,
        _spread_chart(
            "conditions", "by condition, named by a DAG and task that uses it", table, user, LATENCIES
        ),
        "latencies_by_condition",
    )


def _by_type(figures: Figures) -> Section:
    table = figures.table("latencies_by_type")
    kind = kind_of("(large events, type not recorded)")
    return Section(
        "types",
        "Latencies by event type",
        "Event → firing: for firings in which an event of this type came last. Held: for all firings with an"
        " event of this type, from its last event to the firing; this includes waiting for other events.",
        "No event took part in a firing.",
        [
            Column("Event type", kind),
            count("Firings", "firings"),
            count("Came last", "completed"),
            *latencies("event_to_firing", "held", "firing_to_resume"),
        ],
        table,
        _spread_chart("types", "by event type", table, kind, ("event_to_firing", "held")),
        "latencies_by_type",
    )


def _expired(figures: Figures) -> Section:
    table, by_dag = figures.table("expired"), figures.table("expired_by_dag")
    return Section(
        "expired",
        "Waits that expired",
        "Their condition expired before it was met; the latest first. Incomplete: at that time the"
        " engine had possibly not seen all earlier events.",
        "No wait expired.",
        [
            Column("Fired (UTC)", moment("moment_ms"), line=True),
            Column("DAG and task", who),
            Column("Run", run),
            Column("Key", text("key", formats.NONE)),
            Column("Missing", lambda row: formats.printable(", ".join(row["missing"] or ()) or formats.NONE)),
            Column("Incomplete", lambda row: "yes" if row["incomplete"] else "no"),
        ],
        table,
        _bar_chart("expired", "Waits that expired, by DAG and task", by_dag, who, "expired"),
        "expired",
    )


def _lacking(figures: Figures) -> Section:
    table = figures.table("lacking")
    rows = list(dict.fromkeys(map(who, table.rows)))[:CHARTED]
    labels = list(dict.fromkeys(str(row["label"]) for row in table.rows if who(row) in rows))[:LABELS]
    cells = {
        (rows.index(who(row)), labels.index(str(row["label"]))): row["expired"]
        for row in table.rows
        if who(row) in rows and row["label"] in labels
    }
    return Section(
        "lacking",
        "What expired waits lacked",
        "How often a wait expired without an event of a label; a wait that lacked several counts for each.",
        "No expired wait lacked an event.",
        [Column("DAG and task", who), Column("Missing", text("label")), count("Expired", "expired")],
        table,
        charts.grid("lacking", "Expired waits, by what was missing", rows, labels, cells),
        "lacking",
    )


def _unacknowledged(figures: Figures, now_ms: int) -> Section:
    table, by_dag = figures.table("unacknowledged"), figures.table("unacknowledged_by_dag")
    return Section(
        "unacknowledged",
        "Firings not acknowledged yet",
        "The condition fired, but the archive has no record that the task resumed or the run was created; the"
        " oldest first. Age: from the firing to the making of this report.",
        "All firings are acknowledged.",
        [
            Column("Fired (UTC)", moment("moment_ms"), line=True),
            Column("Age", lambda row: formats.duration(now_ms - row["moment_ms"]), number=True),
            Column("DAG and task", who),
            Column("Run", run),
            Column("Key", text("key", formats.NONE)),
            Column("Outcome", text("outcome")),
        ],
        table,
        _bar_chart("unacknowledged", "Firings not acknowledged, by DAG and task", by_dag, who, "open"),
        "unacknowledged",
    )


def _producers(figures: Figures) -> Section:
    table = figures.table("producers")

    def name(row: Row) -> str:
        return f"{row['source']} · {row['type']}"

    return Section(
        "producers",
        "Slowest producers",
        "From an event's own time to the append of its record. Ahead: events with a time after their append;"
        " their producer's clock is fast.",
        "No event has its own time.",
        [
            Column("Source", text("source")),
            Column("Event type", text("type")),
            count("Events", "events"),
            count("Ahead", "ahead"),
            *percentiles("delay", "time → append"),
        ],
        table,
        charts.spreads(
            "producers",
            _charted(f"{_EACH} time → append, by source and type", table),
            [name(row) for row in table.rows[:CHARTED]],
            {"time → append": [_spread(row, "delay") for row in table.rows[:CHARTED]]},
        ),
        "producers",
    )


def _unwaited(figures: Figures) -> Section:
    table = figures.table("unwaited_types")
    lead = (
        "Types of events in the archive that no condition in force could accept, whatever other attributes"
        " and data the event has. Plain records count by topic."
    )
    if figures.without_type:
        lead += (
            f" Not considered: matchers that name neither a type nor a source, of"
            f" {formats.counted(figures.without_type, 'condition')}; they could accept events of any type."
        )
    if figures.unreadable_conditions:
        lead += (
            f" Not considered: {formats.counted(figures.unreadable_conditions, 'condition')} that this"
            " version cannot read."
        )
    return Section(
        "unwaited",
        "Event types nobody waits for",
        lead,
        "For each type in the archive, some condition could accept it.",
        [
            Column("Event type", kind_of()),
            count("Events", "events"),
            Column("First (UTC)", moment("first_ms"), line=True),
            Column("Last (UTC)", moment("last_ms"), line=True),
        ],
        table,
        _bar_chart("unwaited", "Events of types nobody waits for", table, kind_of(), "events"),
        "unwaited_types",
    )


def _volume(figures: Figures) -> Section:
    """A table of its own form: a row for each day, a column for each of the most frequent types."""
    names = [formats.kind(row["type"], row.get("topic")) for row in figures.table("types").rows]
    days = figures.table("days")
    by_day: dict[date, dict[str | None, int]] = {row["date"]: {} for row in reversed(days.rows)}
    for row in figures.table("volume").rows:
        by_day[row["date"]][row["type"]] = row["events"]
    others = any(None in counts for counts in by_day.values())
    series: dict[str | None, str] = dict(zip(names, formats.distinct(names, 200), strict=True))
    if others:
        series[None] = "all others"
    title = "Events per day and type"

    def counted(name: str | None) -> Callable[[Row], str]:
        return lambda row: formats.number(by_day[row["date"]].get(name, 0))

    return Section(
        "volume",
        title,
        "By the UTC day on which records were appended; the latest day first.",
        "There are no events.",
        [
            Column("Day", lambda row: str(row["date"]), line=True),
            *(Column(label, counted(name), number=True, named=True) for name, label in series.items()),
            count("All", "events"),
            Column("Data", lambda row: formats.size(row["bytes"]), number=True),
        ],
        days,
        _volume_chart(figures, by_day, series),
        "volume",
    )


def _volume_chart(
    figures: Figures, by_day: Mapping[date, Mapping[str | None, int]], series: Mapping[str | None, str]
) -> Chart | None:
    """The chart of the volume: a column for each day, or for an hour or less if there are only a few days."""
    found: Mapping[date, Mapping[str | None, int]] = by_day
    unit, step_ms = "day", figures.step_ms
    moments = figures.table("moments").rows
    if step_ms is not None and moments:
        first, last = moments[0]["start_ms"], moments[-1]["start_ms"]
        times = range(first, last + step_ms, step_ms)
        within: dict[int, dict[str | None, int]] = {start: {} for start in times}
        for row in moments:
            within[row["start_ms"]][row["type"]] = row["events"]
        found = {datetime.fromtimestamp(start / 1000, UTC): counts for start, counts in within.items()}
        unit = formats.duration(step_ms)
    each = {label: [counts.get(name, 0) for counts in found.values()] for name, label in series.items()}
    title = "Events per day and type" if unit == "day" else f"Events per {formats.duration(step_ms)} and type"
    return charts.stacked("volume", title, list(found), each, unit)


def _spread_chart(
    name: str, by: str, table: Table, label: Callable[[Row], str], latencies: Sequence[str]
) -> Chart | None:
    rows = table.rows[:CHARTED]
    title = f"{_EACH} {' and '.join(HEADS[latency] for latency in latencies)}, {by}"
    panels = {HEADS[latency]: [_spread(row, latency) for row in rows] for latency in latencies}
    return charts.spreads(name, _charted(title, table), [label(row) for row in rows], panels)


def _bar_chart(name: str, title: str, table: Table, label: Callable[[Row], str], member: str) -> Chart | None:
    rows = table.rows[:CHARTED]
    title = _charted(title, table)
    return charts.bars(name, title, [label(row) for row in rows], [row[member] for row in rows])


def _charted(title: str, table: Table) -> str:
    """The title of a chart; says so if the chart shows only the first rows."""
    return title if table.total <= CHARTED else f"{title}: the first {CHARTED} of {table.total:,}"


def _spread(row: Row, latency: str) -> charts.Spread:
    p50, p90, p99 = (row[f"{latency}_{name}_ms"] for name in PERCENTILES)
    return p50, p90, p99
