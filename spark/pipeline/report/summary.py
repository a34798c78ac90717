"""The summary of a report as text."""

from __future__ import annotations

from collections.abc import Iterator

from .figures import Figures
from .formats import counted, duration, number

_HEADS = ("p50", "p90", "p99", "max")


def summary(figures: Figures, page: str) -> str:
    """The summary for a terminal. page: the path of the report."""
    if figures.empty:
        return f"The archive has no events and no firings in this range.\n{page}\n"
    return "\n".join(_lines(figures, page)) + "\n"


def _lines(figures: Figures, page: str) -> Iterator[str]:
    overall = figures.overall
    nobody = figures.table("unwaited_types").total
    names = ("firings", "met", "fail_on", "expired", "acknowledged", "open")
    count = {name: number(overall[name]) for name in names}
    types = f"{counted(figures.types, 'type')}; nobody waits for {number(nobody)} of them"
    yield f"events            {number(figures.events)} of {types}"
    yield f"conditions        {number(figures.conditions)} in force"
    outcomes = f"{count['met']} met, {count['fail_on']} failed by fail_on, {count['expired']} expired"
    yield f"firings           {count['firings']}: {outcomes}"
    yield f"acknowledged      {count['acknowledged']}; {count['open']} not yet"
    if figures.unreadable_actions or figures.unreadable_conditions:
        yield (
            f"unreadable        {counted(figures.unreadable_actions, 'record')} of firings,"
            f" {counted(figures.unreadable_conditions, 'condition')}"
        )
    yield " " * 18 + "".join(f"{head:>14}" for head in _HEADS)
    for name, latency in (("event -> firing", "event_to_firing"), ("firing -> resume", "firing_to_resume")):
        yield f"{name:18}" + "".join(f"{duration(overall[f'{latency}_{head}_ms']):>14}" for head in _HEADS)
    yield page
