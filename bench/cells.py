"""Formats results for the cells of a table."""

from __future__ import annotations

from .results import Line

COLUMNS = ("question", "figure", "unit", "ratio", "aim")


def digits(value: float) -> str:
    """Three significant digits, or all before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def unit(text: str) -> str:
    """The unit with µ for the u of JSON lines."""
    return f"µ{text[1:]}" if text == "us" or text.startswith("us/") else text


def row(line: Line) -> tuple[str, ...]:
    """The cells of COLUMNS. The line of a failed benchmark has only a figure."""
    spread = f" ({digits(line['lowest'])} to {digits(line['highest'])})" if "lowest" in line else ""
    ratio = "" if line.get("ratio") is None else f"{line['ratio']:.3g}"
    aim = ""
    if line.get("aim") is not None:
        aim = f"{line['bound']} {line['aim']:g}: {'met' if line['met'] else 'missed'}"
    return str(line["question"]), digits(line["figure"]) + spread, unit(line["unit"]), ratio, aim
