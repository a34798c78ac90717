"""Columns of the page's tables: their heads, and the text of a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import formats
from .figures import Row

PERCENTILES: Final = ("p50", "p90", "p99")
HEADS: Final = {"event_to_firing": "event → firing", "firing_to_resume": "firing → resume", "held": "held"}


@dataclass(frozen=True)
class Column:
    """head: includes the unit if cells lack it. number: right-aligned. line: never wrapped. named: the head
    is external text. group: a common head above neighbouring columns."""

    head: str
    cell: Callable[[Row], str]
    number: bool = False
    line: bool = False
    named: bool = False
    group: str = ""


def firing_counts() -> list[Column]:
    """The numbers of all, expired and open firings."""
    return [count("Firings", "firings"), count("Expired", "expired"), count("Open", "open")]


def latencies(*names: str) -> list[Column]:
    """The percentiles of these latencies, each latency under its own head."""
    return [column for name in names for column in percentiles(name, HEADS[name])]


def percentiles(latency: str, group: str) -> list[Column]:
    """p50, p90, p99 and max of a column, as `latencies.percentiles` computed them."""
    return [
        Column(name, duration(f"{latency}_{name}_ms"), number=True, group=group)
        for name in (*PERCENTILES, "max")
    ]


def duration(member: str) -> Callable[[Row], str]:
    return lambda row: formats.duration(row[member])


def count(head: str, member: str) -> Column:
    return Column(head, lambda row: formats.number(row[member]), number=True)


def moment(member: str) -> Callable[[Row], str]:
    return lambda row: formats.moment(row[member])


def text(member: str, absent: str = "") -> Callable[[Row], str]:
    """External text; `absent` for None."""
    return lambda row: absent if row[member] is None else formats.printable(row[member])


def kind(absent: str = "") -> Callable[[Row], str]:
    """The event type, or the topic of plain records; `absent` for None."""

    def cell(row: Row) -> str:
        return (
            absent if row["type"] is None else formats.printable(formats.kind(row["type"], row.get("topic")))
        )

    return cell


def who(row: Row) -> str:
    """DAG and task, or what else waits."""
    return formats.who(row["waiter"], row["dag"], row["task"])


def run(row: Row) -> str:
    """The run's id, and the map index of a mapped task."""
    if row["run"] is None:
        return formats.NONE
    index = row["map_index"]
    return formats.printable(row["run"]) + ("" if index is None else f" [{index}]")
