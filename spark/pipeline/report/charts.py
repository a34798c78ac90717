"""Charts as SVG for an HTML page: text remains text, colours come from the page.

Matplotlib draws with placeholder colours, which are replaced by CSS variables, so that one drawing fits the
light and the dark page. External texts are drawn literally: no mathematics between dollar signs.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec
from xml.etree import ElementTree  # of what matplotlib wrote; nothing from elsewhere is parsed

from .formats import counted, distinct, duration, number, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Placeholder colours, used by nothing else, and the CSS variables that replace them.
TEXT: Final = "#0a0b01"
MUTED: Final = "#0a0b02"
GRID: Final = "#0a0b03"
SURFACE: Final = "#0a0b04"
SERIES: Final = tuple(f"#0a0c0{number}" for number in range(1, 7))
_VARIABLES: Final = {
    TEXT: "var(--text)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SURFACE: "var(--surface)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES, 1)},
}
WIDTH_IN: Final = 11.5  # of 72 pt: 1,104 px, so that 9 pt are 12 px on the page
ROW_IN: Final = 0.27
MOST_LABEL: Final = 44  # characters
MOST_DAYS: Final = 12  # labels on an axis of days
# The ticks of a logarithmic axis of milliseconds; it ends after the largest value.
_TICKS: Final = {
    1: "≤ 1 ms",
    10: "10 ms",
    100: "100 ms",
    1000: "1 s",
    10_000: "10 s",
    60_000: "1 min",
    600_000: "10 min",
    3_600_000: "1 h",
    36_000_000: "10 h",
    86_400_000: "1 d",
    864_000_000: "10 d",
    8_640_000_000: "100 d",
}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "interlock",  # so that the same figures give the same page
    "font.family": "sans-serif",
    # Comes with matplotlib; only for measuring, the page uses its own font.
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "text.color": TEXT,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.titlecolor": TEXT,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": TEXT,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.transparent": True,
}
_SVG: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "http://www.w3.org/1999/xlink"
_COLOUR: Final = re.compile("|".join(_VARIABLES))
_FAMILY: Final = re.compile(r"font-family: [^;]*; ")

P = ParamSpec("P")
Spread = tuple[int | None, int | None, int | None]  # p50, p90, p99 in milliseconds


@dataclass(frozen=True)
class Chart:
    """text: a description for screen readers. svg: the complete element."""

    title: str
    text: str
    svg: str


def _styled(draw: Callable[P, Chart | None]) -> Callable[P, Chart | None]:
    """Applies our style to the whole drawing: matplotlib's objects take their style when they are created."""

    @wraps(draw)
    def drawn(*arguments: P.args, **named: P.kwargs) -> Chart | None:
        import matplotlib as mpl

        with mpl.rc_context(_STYLE), warnings.catch_warnings():
            # The measuring font lacks a character; the page's font may have it.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
            return draw(*arguments, **named)

    return drawn


@_styled
def spreads(
    name: str, title: str, labels: Sequence[str], panels: Mapping[str, Sequence[Spread]]
) -> Chart | None:
    """Percentiles on a logarithmic axis: a line for each label, a panel for each latency.

    name: unique on the page. None if there is nothing to draw.
    """
    values = [value for rows in panels.values() for row in rows for value in row if value is not None]
    if not labels or not values:
        return None
    figure, axes = _figure(len(labels), len(panels))
    ticks = _ticks(max(values))
    for place, (axis, (panel, rows)) in enumerate(zip(axes, panels.items(), strict=True)):
        colour = SERIES[place]
        for row, (p50, p90, p99) in enumerate(rows):
            if p50 is None or p90 is None or p99 is None:
                continue
            low, middle, high = (max(each, 1) for each in (p50, p90, p99))
            axis.plot([low, high], [row, row], color=colour, linewidth=2.5, alpha=0.45, zorder=2)
            axis.plot([low], [row], "o", color=colour, markersize=6.5, zorder=4)
            axis.plot([middle], [row], "|", color=colour, markersize=9, markeredgewidth=2, zorder=3)
            axis.plot([high], [row], "o", color=colour, markerfacecolor=SURFACE, markersize=6.5, zorder=4)
        axis.set_xscale("log")
        axis.set_xlim(0.8, ticks[-1] * 1.25)
        axis.set_xticks(ticks, [_TICKS[tick] for tick in ticks])
        axis.minorticks_off()
        axis.set_title(panel, loc="left", fontweight="bold")
        _rows(axis, labels)
    _legend(figure)
    p99s = (
        (row[2], label, panel)
        for panel, rows in panels.items()
        for row, label in zip(rows, labels, strict=True)
        if row[2] is not None
    )
    slowest = max(p99s, key=lambda each: each[0])
    text = (
        f"{counted(len(labels), 'line')}, p50, p90 and p99. The largest p99 is {duration(slowest[0])}:"
        f" {printable(slowest[1], MOST_LABEL)}, {slowest[2]}. The table below has all figures."
    )
    return Chart(title, text, _svg(figure, name, title, text))


@_styled
def bars(name: str, title: str, labels: Sequence[str], values: Sequence[int]) -> Chart | None:
    """A bar for each label, with its number at the end. None if there is nothing to draw."""
    if not labels:
        return None
    figure, (axis,) = _figure(len(labels), 1, 0.25)
    axis.barh(range(len(labels)), values, height=0.5, color=SERIES[0], zorder=2)
    for row, value in enumerate(values):
        axis.annotate(number(value), (value, row), (4, 0), textcoords="offset points", va="center")
    axis.set_xlim(0, max(values) * 1.1 or 1)
    axis.set_xticks([])
    axis.spines["bottom"].set_visible(False)
    _rows(axis, labels, grid=False)
    axis.set_ylim(max(len(labels), 2) - 0.4, -0.6)  # keeps a single bar as thin as several
    top = values.index(max(values))
    text = (
        f"{counted(len(labels), 'bar')}. The longest is {printable(labels[top], MOST_LABEL)} with"
        f" {number(values[top])}. The table below has all figures."
    )
    return Chart(title, text, _svg(figure, name, title, text))


@_styled
def stacked(
    name: str, title: str, moments: Sequence[date], series: Mapping[str, Sequence[int]], unit: str = "day"
) -> Chart | None:
    """A stacked column for each day, or shorter time, with the series in their order; no more series than
    colours. None if there is nothing to draw.

    moments: the starts, at equal distances; datetimes if they are within days.
    """
    if not moments or not series:
        return None
    figure, (axis,) = _figure(9, 1)
    below = [0] * len(moments)
    names = distinct(list(series), MOST_LABEL)
    for colour, label, values in zip(SERIES, names, series.values(), strict=False):
        axis.bar(
            range(len(moments)), values, bottom=below, width=0.75, color=colour,
            edgecolor=SURFACE, linewidth=0.8, label=_named(label), zorder=2,
        )  # fmt: skip
        below = [low + value for low, value in zip(below, values, strict=True)]
    axis.set_xlim(-0.6, max(len(moments), 6) - 0.4)  # keeps the columns of a few days thin
    step = -(-len(moments) // MOST_DAYS)
    axis.set_xticks(range(0, len(moments), step), _moments(moments)[::step])
    axis.set_ylim(0, max(below) * 1.08 or 1)
    axis.yaxis.get_major_locator().set_params(integer=True, nbins=5)  # type: ignore[call-arg]
    axis.yaxis.set_major_formatter(lambda value, _: number(int(value)))
    axis.tick_params(axis="y", labelcolor=MUTED)
    axis.grid(visible=True, axis="y", zorder=0)
    axis.set_axisbelow(True)
    handles, shown = axis.get_legend_handles_labels()
    axis.legend(handles[::-1], shown[::-1], loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0)
    most = below.index(max(below))
    text = (
        f"{counted(len(moments), 'column')}, one for each {unit}, from {moments[0]} to {moments[-1]}. The"
        f" largest is {moments[most]} with {number(below[most])} events. The table below has all figures"
        f"{'' if unit == 'day' else ', by day'}."
    )
    return Chart(title, text, _svg(figure, name, title, text))


@_styled
def grid(
    name: str, title: str, rows: Sequence[str], columns: Sequence[str], counts: Mapping[tuple[int, int], int]
) -> Chart | None:
    """A cell for each row and column, darker for larger counts, with the count in it. None without counts.

    counts: {(row, column): count}; a pair that is absent has an empty cell.
    """
    if not counts:
        return None
    from matplotlib.patches import Rectangle

    figure, (axis,) = _figure(len(rows), 1, 1.6)
    most = max(counts.values())
    for (row, column), value in counts.items():
        alpha = 0.2 + 0.6 * value / most
        cell = Rectangle((column - 0.46, row - 0.4), 0.92, 0.8, color=SERIES[0], alpha=alpha, linewidth=0)
        axis.add_patch(cell)
        axis.annotate(number(value), (column, row), ha="center", va="center", color=TEXT)
    _rows(axis, rows, grid=False)
    axis.set_xlim(-0.5, max(len(columns), 4) - 0.5)
    labels = distinct(columns, MOST_LABEL // 2)
    axis.set_xticks(range(len(columns)), labels, rotation=25, ha="left")
    axis.xaxis.tick_top()
    axis.tick_params(axis="x", length=0, labelcolor=TEXT)
    axis.spines["bottom"].set_visible(False)
    row, column = max(counts, key=lambda each: counts[each])
    text = (
        f"{counted(len(rows), 'wait')}, and the labels of the events that they lacked. Most often,"
        f" {printable(rows[row], MOST_LABEL)} lacked {printable(columns[column], MOST_LABEL)},"
        f" {number(most)} times. The table below has all figures."
    )
    return Chart(title, text, _svg(figure, name, title, text))


def _moments(moments: Sequence[date]) -> list[str]:
    """The labels of a time axis; the day is written where it begins."""
    texts: list[str] = []
    last: date | None = None
    for moment in moments:
        if not isinstance(moment, datetime):
            texts.append(f"{moment:%d %b}")
            continue
        day = moment.date()
        texts.append(f"{moment:%H:%M}" if day == last else f"{moment:%H:%M}\n{moment:%d %b}")
        last = day
    return texts


def _figure(rows: int, panels: int, around_in: float = 0.75) -> tuple[Figure, Sequence[Axes]]:
    """around_in: inches for titles and the axis."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, around_in + ROW_IN * max(rows, 2)), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])


def _named(label: str) -> str:
    """A distinct label for the legend. Matplotlib omits labels that begin with `_`, hence the space."""
    return f" {label}" if label.startswith("_") else label


def _rows(axis: Axes, labels: Sequence[str], *, grid: bool = True) -> None:
    """A row for each label, the first one on top."""
    axis.set_yticks(range(len(labels)), distinct(labels, MOST_LABEL))
    axis.set_ylim(len(labels) - 0.4, -0.6)
    if grid:
        axis.grid(visible=True, axis="both", zorder=0)
        axis.set_axisbelow(True)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    figure.legend(
        handles=[
            Line2D([], [], marker="o", linestyle="", color=MUTED, label="p50"),
            Line2D(
                [], [], marker="|", linestyle="", color=MUTED, markeredgewidth=2, markersize=9, label="p90"
            ),
            Line2D([], [], marker="o", linestyle="", color=MUTED, markerfacecolor=SURFACE, label="p99"),
        ],
        loc="outside upper right",
        ncols=3,
        handletextpad=0.2,
        columnspacing=1.2,
    )


def _ticks(most: int) -> list[int]:
    """From 1 ms to the first tick that is not below `most`."""
    ticks = list(_TICKS)
    last = next((place for place, tick in enumerate(ticks) if tick >= most), len(ticks) - 1)
    return ticks[: max(last, 1) + 1]


def _svg(figure: Figure, name: str, title: str, text: str) -> str:
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    return _embedded(buffer.getvalue(), name, title, text)


def _embedded(svg: str, name: str, title: str, text: str) -> str:
    """The SVG as an element of the page: with title and description, unique ids, the page's colours and
    font."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(svg)  # noqa: S314  # matplotlib wrote it
    for element in root.iter():
        for attribute, value in element.attrib.items():
            element.set(attribute, _page_value(attribute, value, name))
        # a style sheet in it would apply to the whole page, which has these rules anyway
        for sheet in element.findall(f"{{{_SVG}}}style"):
            element.remove(sheet)
    for place, (tag, words) in enumerate({"title": title, "desc": text}.items()):
        child = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        child.text = words
        root.insert(place, child)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    return ElementTree.tostring(root, encoding="unicode")


def _page_value(attribute: str, value: str, name: str) -> str:
    if attribute == "id":
        return f"{name}-{value}"
    if attribute == f"{{{_XLINK}}}href":
        return f"#{name}-{value.removeprefix('#')}"
    if attribute == "style":
        value = _FAMILY.sub("", _COLOUR.sub(lambda found: _VARIABLES[found[0]], value))
    return value.replace("url(#", f"url(#{name}-")
