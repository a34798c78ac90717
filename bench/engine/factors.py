"""Events a second by what a user chooses: one factor at a time from a centre, or all combinations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from .. import lines
from ..lines import tell
from .points import Found, Point, measure

CENTRE: Final = Point()
CENTRE_TURNS: Final = 5  # each ratio is to it
FACTORS: Final[Mapping[str, tuple[str, tuple[int, ...]]]] = {
    "match_percent": ("% of the events match", (0, 1, 10, 100)),
    "parts": ("parts of the condition", (1, 2, 10)),
    "others": ("subscriptions to other types", (1, 100, 10_000, 100_000)),
    "partitions": ("partitions", (1, 8, 32)),
    "engines": ("engines", (1, 2)),
}


def run(bootstrap_servers: str, events: int) -> None:
    """The centre, and each factor's other values beside it; ratios are to the centre."""
    measure(bootstrap_servers, "warm", CENTRE, events)  # a broker that has just begun is slower
    centre = measure(bootstrap_servers, "centre", CENTRE, events, turns=CENTRE_TURNS)
    tell(f"the centre: {told(CENTRE)}", centre.rate, "events/s", 1.0, turns=centre.rates)
    for factor, (what, values) in FACTORS.items():
        for value in values:
            point, found = replace(CENTRE, **{factor: value}), centre
            if point != CENTRE:
                name = f"{factor.replace('_', '-')}-{value}"
                found = measure(bootstrap_servers, name, point, events)
            unit = f"us/event, by {what}"  # a picture each
            cost = lines.point("an event", value, 1e6 / found.rate, unit) if value else {}
            tell(f"{value} {what}", found.rate, "events/s", found.rate / centre.rate, **cost)
            if factor == "others" and value > CENTRE.others:
                _tell_memory(value, found, centre)


def _tell_memory(waits: int, found: Found, centre: Found) -> None:
    kib = (found.kib - centre.kib) / (waits - CENTRE.others)
    cost = lines.point("memory of an engine for a wait", waits, kib, "KiB/wait")
    tell(f"memory of an engine for each of {waits} waits", kib, "KiB", **cost)


def full(bootstrap_servers: str, events: int) -> None:
    """Every combination of the factors' values."""
    names = list(FACTORS)
    for number, values in enumerate(itertools.product(*(FACTORS[name][1] for name in names))):
        point = Point(**dict(zip(names, values, strict=True)))
        found = measure(bootstrap_servers, f"full-{number}", point, events)
        tell(told(point), found.rate, "events/s", **dict(zip(names, values, strict=True)))


def told(point: Point) -> str:
    """The values of all factors."""
    return ", ".join(f"{getattr(point, factor)} {what}" for factor, (what, _) in FACTORS.items())
