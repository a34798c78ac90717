"""What a bench prints: one JSON object a line."""

from __future__ import annotations

import json
import sys
from typing import Any


def tell(question: str, figure: float, unit: str, ratio: float | None = None, **more: Any) -> None:
    """question, figure, unit, and the ratio to the baseline of the same run."""
    line: dict[str, Any] = {"question": question, "figure": round(figure, 3), "unit": unit}
    if ratio is not None:
        line["ratio"] = round(ratio, 3)
    print(json.dumps({**line, **more}), flush=True)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
