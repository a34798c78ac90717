"""What a bench prints: one JSON object a line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any


def tell(
    question: str,
    figure: float,
    unit: str,
    ratio: float | None = None,
    *,
    least_ratio: float | None = None,
    most_ratio: float | None = None,
    most: float | None = None,
    turns: Sequence[float] = (),
    **more: Any,
) -> None:
    """question, figure, unit, ratio to the baseline of the same run; aim, whether it is met, and its bound.

    turns: what the figure is the median of; of several, lowest and highest are told. The aim is
    `least_ratio`, which the ratio is to reach, `most_ratio`, which it is not to exceed, or `most`, which the
    figure is not to exceed; null where there is none.
    """
    aim, met, bound = None, None, None
    if ratio is None and (least_ratio, most_ratio) != (None, None):
        raise ValueError(
            f"{question}: an aim for a ratio, and no ratio: give what the figure is compared with"
        )
    if ratio is not None and least_ratio is not None:
        aim, met, bound = least_ratio, ratio >= least_ratio, "ratio at least"
    elif ratio is not None and most_ratio is not None:
        aim, met, bound = most_ratio, ratio <= most_ratio, "ratio at most"
    elif most is not None:
        aim, met, bound = most, figure <= most, "figure at most"
    line = {
        "question": question,
        "figure": round(figure, 3),
        "unit": unit,
        "ratio": None if ratio is None else round(ratio, 3),
        "aim": aim,
        "met": met,
        "bound": bound,
    }
    if len(turns) > 1:
        line |= {"lowest": round(min(turns), 3), "highest": round(max(turns), 3)}
    print(json.dumps({**line, **more}), flush=True)


def point(curve: str, size: int, cost: float, unit: str) -> dict[str, Any]:
    """For `tell`: where the figure lies in a picture of what grows with size. cost: of each, in unit."""
    return {"curve": curve, "size": size, "cost": round(cost, 4), "cost_unit": unit}


def place(table: str, row: str, column: str) -> dict[str, Any]:
    """For `tell`: where the figure stands on the page, in a table of its own that has a row for each kind."""
    return {"table": table, "row": row, "column": column}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def percentile(values: list[float], share: float) -> float:
    """The least value that this share of them does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
