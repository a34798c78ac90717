"""Pictures of cost by size: one for each unit of a benchmark, with a line for each curve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .benchmarks import Benchmark
from .cells import unit
from .results import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DECADES: Final = 2.0  # least height, so that level lines look level
FEW: Final = 6  # up to this many sizes, the axis names each
MARKERS: Final = "os^Dv"  # to distinguish lines that lie on each other
STYLE: Final = {
    "svg.hashsalt": "interlock",  # so that the same figures give the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.facecolor": "white",
}


def drawn(benchmark: Benchmark, lines: Sequence[Line], folder: Path) -> Iterator[tuple[str, Path]]:
    """Draws the pictures of a benchmark: (description, file). A curve has the same style in all of them."""
    grown = [line for line in lines if "curve" in line and line["cost"] > 0]
    looks = {curve: n for n, curve in enumerate(dict.fromkeys(_look(line["curve"]) for line in grown))}
    for cost_unit, of_unit in groupby(sorted(grown, key=_unit), key=_unit):
        curves: dict[str, list[Line]] = {}
        for line in of_unit:
            curves.setdefault(line["curve"], []).append(line)
        measure, _, factor = cost_unit.partition(", by ")
        axis = factor or benchmark.axis
        picture = folder / f"{benchmark.name}-{re.sub('[^A-Za-z0-9]+', '-', cost_unit)}.svg"
        _draw(benchmark.about, curves, looks, unit(measure), axis, picture)
        yield f"{unit(measure)} against {axis}: {'; '.join(curves)}", picture


def _unit(line: Line) -> str:
    return str(line["cost_unit"])


def _look(curve: str) -> str:
    """The curve without its percentile: percentiles of one thing differ only in the line's style."""
    return curve.removesuffix(", p50").removesuffix(", p99")


def _draw(
    title: str,
    curves: Mapping[str, Sequence[Line]],
    looks: Mapping[str, int],
    measure: str,
    axis: str,
    picture: Path,
) -> None:
    """Draws cost by size, with logarithmic axes."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its stub knows fewer names than it has
        figure, axes = plt.subplots(figsize=(7.2, 2.8 + 0.18 * len(curves)))
        for name, points in curves.items():
            ordered = sorted(points, key=lambda line: line["size"])
            look = looks[_look(name)]
            axes.loglog(
                [p["size"] for p in ordered],
                [p["cost"] for p in ordered],
                "--" if name.endswith(", p99") else "-",
                marker=MARKERS[look % len(MARKERS)],
                color=f"C{look}",
                label=name,
                lw=1.3,
                ms=4,
                alpha=0.8,
            )
        axes.set_title(title, fontsize=9, loc="left")
        axes.set_xlabel(axis)
        axes.set_ylabel(measure)
        _at_least(axes, DECADES)
        _plain_numbers(axes, sorted({line["size"] for points in curves.values() for line in points}))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False, fontsize=8)
        figure.savefig(picture, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def _at_least(axes: Axes, decades: float) -> None:
    low, high = axes.get_ylim()
    middle = (low * high) ** 0.5
    axes.set_ylim(min(low, middle / 10 ** (decades / 2)), max(high, middle * 10 ** (decades / 2)))


def _plain_numbers(axes: Axes, sizes: Sequence[int]) -> None:
    """Labels axes without powers of ten; names each size if they are few."""
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    for each in (axes.xaxis, axes.yaxis):
        each.set_major_formatter(plain)
        each.set_minor_formatter(NullFormatter())
    if len(sizes) <= FEW:
        axes.set_xticks(sizes)
        axes.xaxis.set_minor_locator(NullLocator())
