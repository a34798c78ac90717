"""`make backtest-scale`: compares a backtest in 512 MB of memory with a loop of `step`: result and speed."""

from __future__ import annotations

import os
import sys

from ..folders import folder
from ..lines import progress, report
from ..sizes import number
from .log import CONDITION, write
from .measuring import backtest, loop


def run(_: str) -> None:
    """Runs both; CORES and CONDITION come from the environment."""
    events, keys = number("EVENTS", 200_000), number("KEYS", 100_000)
    condition = os.environ.get("CONDITION") or CONDITION
    with folder() as place:
        progress(f"== {events} events of {keys} keys; {condition}")
        write(place / "archive", events, keys)
        progress("== the plain loop of step")
        plain = loop(place / "archive", condition)
        report("plain loop of step", plain.events_per_s, "events/s", firings=plain.firings)
        equal = True
        for cores in map(int, (os.environ.get("CORES") or "1,2").split(",")):
            progress(f"== backtest, local[{cores}]")
            found = backtest(place, place / f"output-{cores}", condition, cores)
            same = found.answer == plain.answer
            equal = equal and same
            report(
                f"backtest, Spark on {cores} core{'' if cores == 1 else 's'}",
                found.events_per_s,
                "events/s",
                found.events_per_s / plain.events_per_s,
                firings=found.firings,
                equals_loop=same,
            )
    if not equal:
        sys.exit("bench: the backtest and the loop of step do not make the same firings")
