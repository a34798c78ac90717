"""Events a second by factors that a user chooses: one factor varied from a centre, or all combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from .. import lines
from ..lines import report
from ..sizes import number
from .points import Point, Side, Throughput

CENTRE: Final = Point()
TURNS: Final = 2  # of each point, alternating with the centre
FACTORS: Final[Mapping[str, tuple[str, tuple[int, ...]]]] = {
    "match_percent": ("% of the events match", (0, 1, 10, 100)),
    "parts": ("parts of the condition", (1, 2, 10)),
    "others": ("waits for other types", (1, 100, 10_000, 100_000)),
    "keyed": ("waits for other keys of the events' types", (0, 100, 10_000, 100_000)),
    "partitions": ("partitions", (1, 8, 32)),
    "engines": ("engines", (1, 2)),
}


def run(bootstrap_servers: str) -> None:
    """Measures the centre, and each factor's other values alternating with it; ratios are to its turns."""
    events = number("EVENTS", 45_000)
    with Side(bootstrap_servers, "centre", CENTRE, events) as centre:
        centre.turn()  # a freshly started broker is slower
        first = Throughput([centre.turn() for _ in range(TURNS)], centre.kib)
        report(
            f"the centre, on its own: {description(CENTRE)}", first.rate, "events/s", 1.0, turns=first.rates
        )
        for factor in FACTORS:
            _vary(bootstrap_servers, factor, centre, first.rate, events)


def _vary(bootstrap_servers: str, factor: str, centre: Side, centre_rate: float, events: int) -> None:
    what, values = FACTORS[factor]
    at_centre: list[float] = []
    found: dict[int, tuple[Throughput, float]] = {}
    for value in values:
        point = replace(CENTRE, **{factor: value})  # type: ignore[arg-type]  # all factors are int
        if point == CENTRE:
            continue
        with Side(bootstrap_servers, f"{factor.replace('_', '-')}-{value}", point, events) as side:
            turns = [(centre.turn(), side.turn()) for _ in range(TURNS)]
            beside, own = (
                Throughput([one for one, _ in turns], centre.kib),
                Throughput([two for _, two in turns], side.kib),
            )
        at_centre += beside.rates
        found[value] = own, own.ratio_to(beside)
    for value in values:
        own, ratio = found.get(value) or (Throughput(at_centre, centre.kib), 1.0)
        unit = f"us/event, by {what}"  # one picture per factor
        # Computed from the ratio: the machine's speed changes between the points of a picture.
        cost = lines.point("an event", value, 1e6 / (centre_rate * ratio), unit) if value else {}
        about = f"{value} {what}" + (" (the centre)" if value not in found else "")
        report(about, own.rate, "events/s", ratio, turns=own.rates, **cost)
        if factor == "others" and value > CENTRE.others:
            _report_memory(value, own.kib, centre.kib)


def _report_memory(waits: int, kib: float, centre_kib: float) -> None:
    each = (kib - centre_kib) / (waits - CENTRE.others)
    cost = lines.point("memory of an engine for a wait", waits, each, "KiB/wait")
    report(f"memory of an engine for each of {waits} waits for other types", each, "KiB", **cost)


def combinations() -> Iterator[Point]:
    """All combinations of the factors' values, without more engines than partitions: one would own none."""
    for values in itertools.product(*(values for _, values in FACTORS.values())):
        point = Point(**dict(zip(FACTORS, values, strict=True)))  # type: ignore[arg-type]  # as above
        if point.engines <= point.partitions:
            yield point


def full(bootstrap_servers: str) -> None:
    """Measures every combination in one turn, beside a turn of the centre."""
    events = number("EVENTS", 120_000)
    with Side(bootstrap_servers, "centre", CENTRE, events) as centre:
        for n, point in enumerate(combinations()):
            with Side(bootstrap_servers, f"full-{n}", point, events) as side:
                beside, own = centre.turn(), side.turn()
            values = {factor: getattr(point, factor) for factor in FACTORS}
            report(description(point), own, "events/s", own / beside, **values)


def description(point: Point) -> str:
    """The values of all factors."""
    return ", ".join(f"{getattr(point, factor)} {what}" for factor, (what, _) in FACTORS.items())
