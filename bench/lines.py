"""The output of a benchmark: one JSON object per line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple


class Aim(NamedTuple):
    """A goal for a figure, or for its ratio."""

    bound: Literal["ratio at least", "ratio at most", "figure at least", "figure at most"]
    limit: float


def report(
    question: str,
    figure: float,
    unit: str,
    ratio: float | None = None,
    *,
    aim: Aim | None = None,
    turns: Sequence[float] = (),
    **more: Any,
) -> None:
    """Prints a line: question, figure, unit, ratio to the baseline of the same run, aim, met, bound.

    turns: the values whose median is the figure; of several, the line has the lowest and highest.
    """
    met = None
    if aim is not None:
        value = figure if aim.bound.startswith("figure") else ratio
        if value is None:
            raise ValueError(
                f"{question}: an aim for a ratio, but no ratio: give what the figure is compared with"
            )
        met = value >= aim.limit if aim.bound.endswith("least") else value <= aim.limit
    line = {
        "question": question,
        "figure": round(figure, 3),
        "unit": unit,
        "ratio": None if ratio is None else round(ratio, 3),
        "aim": None if aim is None else aim.limit,
        "met": met,
        "bound": None if aim is None else aim.bound,
    }
    if len(turns) > 1:
        line |= {"lowest": round(min(turns), 3), "highest": round(max(turns), 3)}
    print(json.dumps({**line, **more}), flush=True)


def point(curve: str, size: int, cost: float, unit: str) -> dict[str, Any]:
    """Arguments of `report`: the figure's point in a picture of cost by size. cost: per item, in `unit`."""
    return {"curve": curve, "size": size, "cost": round(cost, 4), "cost_unit": unit}


def table_cell(table: str, row: str, column: str) -> dict[str, Any]:
    """Arguments of `report`: the figure's cell on the page, in a table with a row for each kind."""
    return {"table": table, "row": row, "column": column}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def percentile(values: list[float], share: float) -> float:
    """The least value with at least this share of all values at or below it (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
