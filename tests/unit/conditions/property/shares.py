"""Counts properties of random cases, to notice a generator that never produces something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from interlock.conditions import Match
from interlock.conditions.nodes.windows import Reset

from .choices import time_of
from .generators import Case
from .oracle import Cancel, Fired, nodes
from .periods import period_of

NODES = ("Matcher", "AllOf", "AnyOf", "AtLeast", "Count", "Sequence", "Within", "Not", "Reset", "Absent")
NODES += ("Quiet", "Expires", "Ordered")
# What is asked of the random cases, in percent.
LEAST = {**dict.fromkeys(NODES, 5), "with a firing": 30, "with an expiry": 5, "with a reset": 5}
ENOUGH = 5_000  # cases, so that a share depends on the generator and not on chance
TABLES: list[str] = []  # for the terminal's summary


class Shares:
    """Counts over the cases of one property."""

    def __init__(self) -> None:
        self.cases = 0
        self.counts: Counter[str] = Counter()

    def add(self, case: Case, fired: list[Fired]) -> None:
        self.cases += 1
        seen = {type(node).__name__ for node in nodes(case.condition)}
        seen |= set(_truths(case, fired))
        self.counts.update(seen)

    def percent(self, name: str) -> float:
        return 100 * self.counts[name] / self.cases

    def table(self) -> str:
        lines = [f"{self.cases:,} random cases of conditions, share of cases with", ""]
        for name, count in sorted(self.counts.items(), key=lambda item: -item[1]):
            least = f"  (at least {LEAST[name]} %)" if name in LEAST else ""
            lines.append(f"{name:>28} {100 * count / self.cases:5.1f} %{least}")
        return "\n".join(lines)

    def check(self) -> None:
        """AssertionError with the table if a property is too rare among ENOUGH cases."""
        TABLES.append(self.table())
        if self.cases < ENOUGH:
            return
        rare = [name for name, least in LEAST.items() if self.percent(name) < least]
        assert not rare, f"too rare: {', '.join(rare)}\n{self.table()}"


def _truths(case: Case, fired: list[Fired]) -> Iterable[str]:
    matches = [given for given in case.inputs if isinstance(given, Match)]
    if fired:
        yield "with a firing"
    if len(fired) > 1:
        yield "with several firings"
    if any(each.outcome == "expired" for each in fired):
        yield "with an expiry"
    if any(each.timer_ms is not None and each.outcome == "met" for each in fired):
        yield "met by a due time"
    if any(isinstance(node, Reset) and _passes_a_reset(node, matches) for node in nodes(case.condition)):
        yield "with a reset"
    if len({match.identity for match in matches}) < len(matches):
        yield "with a repeat"
    if any(later.timestamp_ms < one.timestamp_ms for one, later in pairwise(matches)):
        yield "with stamps out of order"
    if any(isinstance(given, Cancel) for given in case.inputs):
        yield "with a cancel"
    if case.opened is not None:
        yield "armed by the subscription"


def _passes_a_reset(node: Reset, matches: list[Match]) -> bool:
    return len({period_of(node.cron, node.timezone, time_of(match)) for match in matches}) > 1
