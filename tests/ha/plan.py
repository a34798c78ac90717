"""The plan of a run: events, faults, and the times of the stock triggers. Times are seconds from the
start."""

from __future__ import annotations

import random
from dataclasses import dataclass

AWAY_S = 60.0  # least distance from a fault of what is measured
# Shares of AWAY_S: the time between faults, and until a killed triggerer is replaced.
APART, RESTART_AFTER = 0.75, 0.33
# Longer than Airflow's triggerer_health_check_threshold of 30 s plus the other triggerers' check interval.
HANG_S, AFTER_HANG_S = 45.0, 20.0
DISTURBING = ("kill a triggerer", "restart the broker", "stop a triggerer", "continue the triggerer")
KINDS = (*DISTURBING, "start a triggerer", "pause the target", "unpause the target")
GOLDEN = 0.6180339887498949
# Shares of the waits: before the faults, among them, after them.
SHARES = (0.4, 0.2, 0.4)


@dataclass(frozen=True)
class Second:
    """Emits the second event of a wait."""

    at_s: float
    wait: int


@dataclass(frozen=True)
class Order:
    """Emits an event for which the dispatch starts a run. again: a repetition of the event."""

    at_s: float
    order: int
    again: bool = False


@dataclass(frozen=True)
class Fault:
    """A fault. kind: of KINDS; to stop means SIGSTOP, to kill SIGKILL.

    victims: triggerers by age, 0 the oldest, in order of preference. with_waits: prefer one that has waits.
    """

    at_s: float
    kind: str
    victims: tuple[int, ...] = ()
    with_waits: bool = False


@dataclass(frozen=True)
class Plan:
    """events: in order of time. floors: when stock triggers yield, one for each measured wait."""

    events: tuple[Second | Order, ...]
    faults: tuple[Fault, ...]
    floors: tuple[float, ...]
    ends_s: float


def plan(
    waits: int, orders: int, calm_s: float, seed: int, away_s: float = AWAY_S, triggerers: int = 2
) -> Plan:
    """Plans a run. calm_s: length of the two measured windows, `away_s` before and after the faults.

    A stopped triggerer loses all waits, and Airflow does not return them: the first kill may hit that one,
    which has only an engine. One fault of each kind hits a triggerer with waits.
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
    # Producers repeat events without an acknowledgement: one in ten is repeated within seconds.
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
    """Times spread over a window; their fractions of a second are spread evenly too.

    A triggerer processes yielded events once a second: with random fractions, the medians of 160 waits and of
    160 stock triggers differ by 10 % for that reason alone.
    """
    shift = r.random()
    return [begin + int(n * length / count) + (shift + n * GOLDEN) % 1 for n in range(count)]
