"""The figures of deliveries as lines of the summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .....engine.sending.expected import METHOD
from .....events.visible import visible
from ..lines import duration, line, moment
from .figures import USUAL_HEADER_BYTES, DeliveryFigures, Outage

_MOST_CHARS: Final = 60
_MOST_TYPES: Final = 5


def lines_of(figures: DeliveryFigures) -> Iterator[str]:
    """What the summary says of them."""
    sink = figures.sink
    path = f"{METHOD} {sink['path']}" if sink["path"] else METHOD
    yield line(
        "deliveries",
        f"{figures.deliveries:,} to {sink['subscription']}: {path} of connection {sink['conn_id']}; send"
        f" {sink['send']}, format {sink['format']}",
    )
    refused = figures.refused
    yield line("not sent", f"{sum(refused.values()):,}")
    for reason, count in refused.items():
        yield line("", f"{count:,}: {reason}")
    if not figures.deliveries:
        return
    yield line("types", _types(figures))
    yield line("lanes", _lanes(figures))
    if (most := figures.peak_day) is not None:
        day = moment(most.start_ms)[:10]
        average = (
            f"{figures.average_a_day:,.3g}"
            if figures.average_a_day < 100
            else f"{figures.average_a_day:,.0f}"
        )
        yield line(
            "a day", f"{average} on average; most on {day}: {most.deliveries:,} with {most.bytes:,} bytes"
        )
    yield from _peaks(figures)
    if figures.answer_within_ms is not None:
        yield line(
            "keeps up",
            f"with {sink['max_in_flight']} at a time: in the peak minute, if the sink answers within"
            f" {duration(figures.answer_within_ms)}",
        )
    yield from _sizes(figures)
    if figures.with_references:
        yield line("references", f"{figures.with_references:,} have data only as dataref: they do not fit")
    if figures.without_reply:
        yield line("replies", f"{figures.without_reply:,} would be refused: interlockhops is used up")
    if figures.outage is not None:
        yield from _outage(figures.outage)
    for number, row in enumerate(figures.first):
        parts = (
            row["lane"] or "",
            row["type"],
            row["id"],
            row["subject"] or "",
            f"{row['body_bytes']:,} bytes",
        )
        yield line(
            "" if number else "first", "  ".join([moment(row["fired_ms"]), *map(_short, filter(None, parts))])
        )
    if figures.deliveries > len(figures.first):
        yield line("", f"and {figures.deliveries - len(figures.first):,} more: see --output")


def _types(figures: DeliveryFigures) -> str:
    types = [*figures.types.items()]
    text = ", ".join(f"{count:,} {_short(name)}" for name, count in types[:_MOST_TYPES])
    return text if len(types) <= _MOST_TYPES else f"{text}, and others"


def _lanes(figures: DeliveryFigures) -> str:
    order = figures.sink["order"]
    if order == "none":
        return "each delivery has its own, order none"
    busiest = figures.busiest_lane
    if figures.lanes is None or busiest is None:
        return f"not known, order {order}: give --partitions"
    return (
        f"{figures.lanes:,}, order {order}; the busiest one, {_short(busiest.lane or '')!r}, gets"
        f" {busiest.deliveries:,}"
    )


def _peaks(figures: DeliveryFigures) -> Iterator[str]:
    second, minute, of_lane = figures.peak_second, figures.peak_minute, figures.peak_lane_minute
    if second is not None and minute is not None:
        in_second = f"{second.deliveries:,} in a second, at {moment(second.start_ms, 'seconds')}"
        in_minute = f"{minute.deliveries:,} in a minute, at {moment(minute.start_ms, 'minutes')}"
        yield line("peak", f"{in_second}; {in_minute}")
    if of_lane is not None:
        at = f"{moment(of_lane.start_ms, 'minutes')}: {_short(of_lane.lane or '')}"
        yield line("", f"{of_lane.deliveries:,} in a minute of one lane, at {at}")


def _sizes(figures: DeliveryFigures) -> Iterator[str]:
    average = figures.body_bytes / figures.deliveries
    yield line("size", f"{average:,.0f} bytes of body on average, {figures.largest_body:,} at most")
    yield line("", f"{figures.largest_headers:,} bytes of headers at most, without the connection's")
    if figures.large_headers:
        more = f"{figures.large_headers:,} requests have more than {USUAL_HEADER_BYTES:,}"
        yield line("", f"{more}, which servers often refuse")


def _outage(outage: Outage) -> Iterator[str]:
    text = f"of {duration(outage.outage_ms)}: at most {outage.waiting:,} wait at its end"
    of_lane = "" if outage.in_a_lane is None else f", {outage.in_a_lane:,} of them in one lane"
    yield line("outage", text + of_lane)
    if outage.given_up:
        yield line("", f"up to {outage.given_up:,} of them are given up for their age")
    if outage.catch_up_ms is not None and outage.answer_ms is not None:
        least, each = duration(outage.catch_up_ms), duration(outage.answer_ms)
        yield line("", f"then at least {least} to catch up, if each answer takes {each}")


def _short(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= _MOST_CHARS else f"{shown[: _MOST_CHARS - 1]}…"
