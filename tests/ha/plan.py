"""What happens when: events, faults, and the moments of the floor. Times are seconds from the start."""

from __future__ import annotations

import random
from dataclasses import dataclass

AWAY_S = 60.0  # from a fault, for what is measured
# In shares of that: how far faults are apart, and when a triggerer is started for one that was killed.
APART, RESTART_AFTER = 0.75, 0.33
KINDS = (
    "kill a triggerer",
    "start a triggerer",
    "restart the broker",
    "pause the target",
    "unpause the target",
)
# Shares of the waits: before the faults, among them, after them.
SHARES = (0.4, 0.2, 0.4)


@dataclass(frozen=True)
class Second:
    """The second half of a wait is emitted."""

    at_s: float
    wait: int


@dataclass(frozen=True)
class Order:
    """An event is emitted for which the dispatch starts a run; `again`: the same event once more."""

    at_s: float
    order: int
    again: bool = False


@dataclass(frozen=True)
class Fault:
    """What is done to the installation; `kind` is a member of KINDS."""

    at_s: float
    kind: str


@dataclass(frozen=True)
class Plan:
    """events: in their order. floors: when stock triggers yield, as many as waits that are measured."""

    events: tuple[Second | Order, ...]
    faults: tuple[Fault, ...]
    floors: tuple[float, ...]
    ends_s: float


def plan(waits: int, orders: int, calm_s: float, seed: int, away_s: float = AWAY_S) -> Plan:
    """calm_s: how long each of the two measured windows is, `away_s` before and after the faults."""
    r = random.Random(seed)
    first = calm_s + away_s
    kill, broker, again = (first + n * APART * away_s for n in range(3))
    after = again + away_s + 2
    ends = after + calm_s
    faults = [
        Fault(kill - away_s / 6, "pause the target"),
        Fault(kill, "kill a triggerer"),
        Fault(kill + RESTART_AFTER * away_s, "start a triggerer"),
        Fault(broker, "restart the broker"),
        Fault(again, "kill a triggerer"),
        Fault(again + RESTART_AFTER * away_s, "start a triggerer"),
        Fault(again + away_s / 2, "unpause the target"),
    ]
    calm, among = round(waits * SHARES[0]), round(waits * SHARES[1])
    times = [r.uniform(0, calm_s) for _ in range(calm)]
    times += [r.uniform(kill - away_s / 12, again + away_s / 2) for _ in range(among)]
    times += [r.uniform(after, ends) for _ in range(waits - calm - among)]
    numbers = r.sample(range(waits), waits)
    events: list[Second | Order] = [Second(at, wait) for at, wait in zip(times, numbers, strict=True)]
    ordered = [Order(r.uniform(0, ends), order) for order in range(orders)]
    # Producers repeat what they are not sure of: one in ten comes again within seconds.
    repeated = [Order(o.at_s + r.uniform(0.5, 10), o.order, again=True) for o in ordered[::10]]
    measured = [r.uniform(0, calm_s) for _ in range(calm)]
    measured += [r.uniform(after, ends) for _ in range(waits - calm - among)]
    return Plan(
        events=tuple(sorted([*events, *ordered, *repeated], key=lambda each: each.at_s)),
        faults=tuple(faults),
        floors=tuple(sorted(measured)),
        ends_s=max(ends, *(each.at_s for each in repeated), 0.0) if repeated else ends,
    )
