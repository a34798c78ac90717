"""Events a second by replicas of each partition, on two brokers of one cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .. import brokers
from ..lines import point, report
from ..sizes import number
from .points import Point, Side, in_turns

TURNS: Final = 3
REPLICAS: Final = (1, 2)
LOADS: Final = (10, 100)  # % of the events match
CENTRE: Final = Point()


def run(_: str) -> None:
    """Measures a condition of two parts with one replica and with two, in turns; ratios are to one replica.

    Kafka's internal topics have two replicas. All acknowledgements wait for both.
    """
    events = number("EVENTS", 45_000)
    with brokers.two_started() as bootstrap_servers:
        with Side(bootstrap_servers, "warm", CENTRE, events) as warm:  # freshly started brokers are slower
            warm.turn()
        for percent in LOADS:
            sides = {
                f"{percent}-{replicas}": (
                    replace(CENTRE, match_percent=percent, replicas=replicas),
                    events // (2 if percent == 100 else 1),
                )
                for replicas in REPLICAS
            }
            found = in_turns(bootstrap_servers, sides, TURNS)
            one = found[f"{percent}-1"]
            for replicas in REPLICAS:
                own = found[f"{percent}-{replicas}"]
                ratio = own.ratio_to(one)
                cost = point(
                    f"{percent} % of the events match", replicas, 1e6 / (one.rate * ratio), "us/event"
                )
                about = f"{percent} % of the events match, {replicas} replica{'' if replicas == 1 else 's'}"
                report(about, own.rate, "events/s", ratio, turns=own.rates, **cost)
