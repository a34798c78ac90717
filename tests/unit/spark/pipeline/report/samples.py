"""Invented figures for a report's page."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from interlock.spark.pipeline.report.figures import Figures, Row, Table

NOW_MS = 1_795_500_000_000  # 2026-11-24
HOSTILE = "<script>alert('x')</script> & \"$x_1$\""


def spread(span: str, p50: int | None, p90: int | None, p99: int | None, most: int | None) -> dict[str, Any]:
    names = ("p50", "p90", "p99", "max")
    return {f"{span}_{name}_ms": value for name, value in zip(names, (p50, p90, p99, most), strict=True)}


def latencies(event_to_firing: tuple[int, ...], firing_to_resume: tuple[int, ...]) -> dict[str, Any]:
    return {**spread("event_to_firing", *event_to_firing), **spread("firing_to_resume", *firing_to_resume)}


def place(dag: str, task: str | None = "ready", waiter: str = "wait") -> dict[str, Any]:
    return {"waiter": waiter, "dag": dag, "task": task}


def counts(firings: int, expired: int = 0, open_: int = 0) -> dict[str, Any]:
    acknowledged = firings - open_
    return {
        "firings": firings, "met": firings - expired, "fail_on": 0, "expired": expired,
        "acknowledged": acknowledged, "open": open_,
    }  # fmt: skip


def table(name: str, *rows: Row, total: int | None = None) -> Table:
    return Table(name, rows, len(rows) if total is None else total)


def figures(text: str = HOSTILE) -> Figures:
    """All sections filled; `text` is in every place for external text."""
    quick = latencies((4, 12, 45, 210), (850, 1900, 4200, 61_000))
    slow = latencies((40, 2_300, 95_000, 7_200_000), (1200, 2500, 9_000, 3_700_000))
    dags = ("daily_report", "settle_on_trades", "risk.intraday", "rates_ingest", text)
    by_dag = [
        {**place(dag), **counts(120 * n, expired=2 * n, open_=n % 2), **(slow if n % 2 else quick)}
        for n, dag in enumerate(dags, 1)
    ]
    by_dag.append({**place("settle_on_trades", None, "dispatch"), **counts(4812), **quick})
    wait = {"run": "scheduled__2026-11-20T06:00:00+00:00", "map_index": None, "subscription": "s"}
    days = [date(2026, 11, 1) + timedelta(days=n) for n in range(23)]
    types = ("com.bank.rates.published", "com.shop.orders.done", "interlock.airflow.dag_run.succeeded", text)
    volume = [
        {"date": day, "type": kind, "events": 900 + 731 * (n + 2) * (day.day % 7 + 1) % 4000}
        for day in days
        for n, kind in enumerate((*types, None))
    ]
    of_days = {day: sum(row["events"] for row in volume if row["date"] == day) for day in days}
    tables = [
        table("latencies_by_dag", *by_dag),
        table(
            "latencies_by_condition",
            {"condition_id": "a1", "condition": f'(event(type="{text}", by="data.date") & event(type='
             '"com.bank.rates.published", by="data.day")).within("2h")', "dags": 3, **counts(400, 9), **slow},
            {"condition_id": None, "condition": None, "dags": 1, **counts(7), **quick},
            {"condition_id": "b2", "condition": None, "dags": 1, **counts(3),
             **latencies((None,) * 4, (None,) * 4)},
        ),
        table(
            "latencies_by_type",
            *({"type": kind, "firings": 300 * n, "completed": 100 * n, **quick,
               **spread("held", 1000, 60_000, 3_600_000, 86_400_000)} for n, kind in enumerate(types, 1)),
            {"type": None, "firings": 1, "completed": 0, **latencies((None,) * 4, (1, 1, 1, 1)),
             **spread("held", 1, 1, 1, 1)},
        ),
        table(
            "expired",
            *({**place(dag), **wait, "firing_id": "f", "key": key, "missing": [text, "rates"],
               "moment_ms": NOW_MS - 3_600_000 * n, "acked_ms": None, "incomplete": n == 2}
              for n, (dag, key) in enumerate(zip(dags, ("2026-11-20", text, None, "7", "x"), strict=True))),
            total=57,
        ),
        table(
            "lacking",
            *({**place(dag), "label": label, "expired": 40 // n + len(label) % 3}
              for n, dag in enumerate(dags, 1) for label in (text, "rates", "orders")[n % 3 :]),
        ),
        table("expired_by_dag", *(row for row in by_dag if row["expired"])),
        table(
            "unacknowledged",
            {**place(text), **wait, "map_index": 3, "firing_id": "f", "key": text, "outcome": "met",
             "moment_ms": NOW_MS - 7_300_000},
        ),
        table("unacknowledged_by_dag", *(row for row in by_dag if row["open"])),
        table(
            "producers",
            *({"source": f"/shop/{n}", "type": kind, "events": 1000 * n, "ahead": n - 1,
               **spread("delay", -5 if n == 4 else 20, 400 * n, 60_000 * n, 7_000_000)}
              for n, kind in enumerate(types, 1)),
        ),
        table(
            "unwaited_types",
            {"type": text, "events": 7421, "first_ms": NOW_MS - 10**9, "last_ms": NOW_MS},
            {"type": "com.shop.cart.touched", "events": 312, "first_ms": NOW_MS - 10**8, "last_ms": NOW_MS},
        ),
        table("types", *({"type": kind, "events": 10, "first_ms": 0, "last_ms": 1} for kind in types)),
        table(
            "days",
            *({"date": day, "events": of_days[day], "bytes": of_days[day] * 512} for day in reversed(days)),
        ),
        table("volume", *volume),
    ]  # fmt: skip
    return Figures(
        since_ms=NOW_MS - 23 * 86_400_000,
        first_ms=NOW_MS - 22 * 86_400_000,
        last_ms=NOW_MS - 1000,
        events=sum(of_days.values()),
        types=9,
        overall={**counts(6_612, 30, 3), **slow},
        conditions=12,
        unreadable_actions=1,
        unreadable_conditions=2,
        tables={each.name: each for each in tables},
    )
