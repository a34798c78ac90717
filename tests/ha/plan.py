"""What happens when: events, faults, and the moments of the floor. Times are seconds from the start."""

from __future__ import annotations

import random
from dataclasses import dataclass

AWAY_S = 60.0  # from a fault, for what is measured
# In shares of that: how far faults are apart, and when a triggerer is started for one that was killed.
APART, RESTART_AFTER = 0.75, 0.33
# Seconds: longer than Airflow's triggerer_health_check_threshold of 30 s and the looks of the others.
HANG_S, AFTER_HANG_S = 45.0, 20.0
DISTURBING = ("kill a triggerer", "restart the broker", "stop a triggerer", "continue the triggerer")
KINDS = (*DISTURBING, "start a triggerer", "pause the target", "unpause the target")
GOLDEN = 0.6180339887498949
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
    """What is done to the installation; `kind` is a member of KINDS. To stop is SIGSTOP, to kill SIGKILL.

    victims: triggerers by age, 0 the oldest, in the order in which they are considered. with_waits: the first
    of them is passed over for one that has waits.
    """

    at_s: float
    kind: str
    victims: tuple[int, ...] = ()
    with_waits: bool = False


@dataclass(frozen=True)
class Plan:
    """events: in their order. floors: when stock triggers yield, as many as waits that are measured."""

    events: tuple[Second | Order, ...]
    faults: tuple[Fault, ...]
    floors: tuple[float, ...]
    ends_s: float


def plan(
    waits: int, orders: int, calm_s: float, seed: int, away_s: float = AWAY_S, triggerers: int = 2
) -> Plan:
    """calm_s: how long each of the two measured windows is, `away_s` before and after the faults.

    A stop takes all waits from its triggerer, and Airflow gives none back: the first kill may meet that one,
    which has an engine only. One fault of each kind meets waits.
    """
    r = random.Random(seed)
    hang = calm_s + away_s
    kill, broker, again = (hang + HANG_S + AFTER_HANG_S + n * APART * away_s for n in range(3))
    after = again + away_s + 2
    ends = after + calm_s
    calm, among = round(waits * SHARES[0]), round(waits * SHARES[1])
    times = _spread(r, calm, 0, calm_s)
    times += [r.uniform(hang, again + away_s / 2) for _ in range(among)]
    times += _spread(r, waits - calm - among, after, calm_s)
    numbers = r.sample(range(waits), waits)
    events: list[Second | Order] = [Second(at, wait) for at, wait in zip(times, numbers, strict=True)]
    ordered = [Order(r.uniform(0, ends), order) for order in range(orders)]
    # Producers repeat what they are not sure of: one in ten comes again within seconds.
    repeated = [Order(o.at_s + r.uniform(0.5, 10), o.order, again=True) for o in ordered[::10]]
    measured = _spread(r, calm, 0, calm_s) + _spread(r, waits - calm - among, after, calm_s)
    stopped, first, second = (tuple(r.sample(range(triggerers), triggerers)) for _ in range(3))
    faults = [
        Fault(hang, "stop a triggerer", stopped, with_waits=True),
        Fault(hang + HANG_S, "continue the triggerer"),
        Fault(kill - away_s / 6, "pause the target"),
        Fault(kill, "kill a triggerer", first),
        Fault(kill + RESTART_AFTER * away_s, "start a triggerer"),
        Fault(broker, "restart the broker"),
        Fault(again, "kill a triggerer", second, with_waits=True),
        Fault(again + RESTART_AFTER * away_s, "start a triggerer"),
        Fault(again + away_s / 2, "unpause the target"),
    ]
    return Plan(
        events=tuple(sorted([*events, *ordered, *repeated], key=lambda each: each.at_s)),
        faults=tuple(sorted(faults, key=lambda each: each.at_s)),
        floors=tuple(sorted(measured)),
        ends_s=max(ends, *(each.at_s for each in repeated), 0.0) if repeated else ends,
    )


def _spread(r: random.Random, count: int, begin: float, length: float) -> list[float]:
    """Times over a window, of which the fractions of a second are spread as well.

    A triggerer hands on what was yielded once a second: with fractions left to chance, the medians of 160
    waits and of 160 stock triggers differ by a tenth for no other reason.
    """
    shift = r.random()
    return [begin + int(n * length / count) + (shift + n * GOLDEN) % 1 for n in range(count)]
