"""docs/benchmarks.md and its pictures, from results: `make bench-docs`.

Nothing in that page is written by hand. Above each table stands the command whose lines it shows.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .__main__ import RESULTS, ROOT, keep
from .questions import QUESTIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS: Final = ROOT / "docs"
PICTURES: Final = "benchmarks"
Line = Mapping[str, Any]

HEAD: Final = """# Benchmarks

<!-- Made by `make bench-docs` from what `make bench` answered; not written by hand. -->

Each table is what the command above it printed, at the commit named there; a `+` behind it tells of changes
that were not committed. The lines themselves are in [results.jsonl](benchmarks/results.jsonl). Broker, load
and what is measured share the machine. What a ratio is to stands above its table; of sides that take turns it
is the median of the ratios turn by turn, but of figures that are the least of many turns (`conditions`,
`hops`) or a percentile (of single events, of delays) the ratio of the two that are told. Behind a figure that
is the median of several turns stand the lowest and the highest of them; `archive`, `backtest`, `failover`,
`peers`, `recovery`, `start`, `timers` and the look-backs of `registration` are asked once. Pictures show how
cost grows: both axes are logarithmic, so what does not grow is a level line.

Where the time goes, what bounds it and what was tried: [performance.md](performance.md).
"""
# Level lines stay level in a picture of at least so many decades.
DECADES: Final = 2.0
STYLE: Final = {
    "svg.hashsalt": "interlock",  # the same file for the same figures
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.facecolor": "white",
}


def render(lines: Sequence[Line], docs: Path = DOCS) -> None:
    """Write the page and its pictures into `docs`.

    Left out are lines of questions that there are no more, and of those that are asked by name alone.
    """
    order = [name for name, each in QUESTIONS.items() if not each.by_name]
    known = sorted(
        (line for line in lines if line["name"] in order), key=lambda one: order.index(one["name"])
    )
    pictures = docs / PICTURES
    pictures.mkdir(exist_ok=True, parents=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    parts = [HEAD]
    for name, found in groupby(known, key=lambda line: str(line["name"])):
        parts.append("\n".join(_section(name, list(found), pictures)))
    (docs / "benchmarks.md").write_text("\n".join(parts))


def _section(name: str, lines: Sequence[Line], pictures: Path) -> Iterator[str]:
    question = QUESTIONS[name]
    yield f"## {question.about[0].upper()}{question.about[1:]}\n"
    first = lines[0]
    versions = ", ".join(f"{package} {version}" for package, version in first["versions"].items())
    yield f"```sh\nmake bench ONLY={name}\n```\n"
    files = f", the broker's files {first['files']}" if "files" in first else ""
    ratio = f" Ratios are {question.ratio}." if question.ratio else ""
    took = f" Asking took {digits(first['took_s'])} s." if "took_s" in first else ""
    day = f", {first['time'][:10]}" if "time" in first else ""
    memory = f", {first['memory_gib']} GiB" if "memory_gib" in first else ""
    processor = f" of {first['processor']}" if "processor" in first else ""
    machine = f"{first['cores']} cores{processor}{memory}"
    yield f"At {first['commit']}{day}, {machine}{files}; {versions}.{took}{ratio}\n"
    yield "| question | figure | unit | ratio | aim |"
    yield "|---|---:|---|---:|---|"
    for line in lines:
        cells = line["question"], _figure(line), line["unit"], _ratio(line), _aim(line)
        yield f"| {' | '.join(cells)} |"
    yield ""
    for unit, grown in groupby(sorted(filter(_is_grown, lines), key=_unit), key=_unit):
        kinds = {curve: list(points) for curve, points in groupby(sorted(grown, key=_curve), key=_curve)}
        picture = pictures / f"{name}-{re.sub('[^A-Za-z0-9]+', '-', unit)}.svg"
        unit, _, factor = unit.partition(", by ")
        axis = factor or question.axis
        draw(kinds, unit, axis, picture)
        yield f"![{unit} against {axis}: {', '.join(kinds)}]({PICTURES}/{picture.name})\n"


def _is_grown(line: Line) -> bool:
    return "curve" in line and line["cost"] > 0


def _unit(line: Line) -> str:
    return str(line["cost_unit"])


def _curve(line: Line) -> str:
    return str(line["curve"])


def draw(curves: Mapping[str, Sequence[Line]], unit: str, axis: str, picture: Path) -> None:
    """Cost against what grows, both logarithmic."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its stub knows fewer names than it has
        figure, axes = plt.subplots(figsize=(7.2, 2.6 + 0.18 * len(curves)))
        for name, points in curves.items():
            ordered = sorted(points, key=lambda line: line["size"])
            axes.loglog(
                [p["size"] for p in ordered], [p["cost"] for p in ordered], "o-", label=name, lw=1.3, ms=3.5
            )
        axes.set_xlabel(axis)
        axes.set_ylabel(unit)
        _at_least(axes, DECADES)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False, fontsize=8)
        figure.savefig(picture, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def _at_least(axes: Axes, decades: float) -> None:
    low, high = axes.get_ylim()
    middle = (low * high) ** 0.5
    axes.set_ylim(min(low, middle / 10 ** (decades / 2)), max(high, middle * 10 ** (decades / 2)))


def digits(value: float) -> str:
    """Three figures, and no more digits than a reader compares."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _figure(line: Line) -> str:
    spread = f" ({digits(line['lowest'])} to {digits(line['highest'])})" if "lowest" in line else ""
    return digits(line["figure"]) + spread


def _ratio(line: Line) -> str:
    return "" if line.get("ratio") is None else f"{line['ratio']:.3g}"


def _aim(line: Line) -> str:
    aim = line.get("aim")
    if aim is None:
        return ""
    return f"{line['bound']} {aim:g}: {'met' if line['met'] else 'missed'}"


def merged(results: Path, kept: Path) -> list[Line]:
    """Put later answers in the place of those that are kept of the same questions; all there are then.

    Answers of before the kept ones stay out: they are of an older checkout, or somebody else has asked since.
    """
    newer = _by_name(results) if results.exists() else {}
    for name, lines in newer.items():
        if _time(lines) > _time(_by_name(kept).get(name, [])):
            keep(name, lines, kept)
    return [line for lines in _by_name(kept).values() for line in lines]


def _by_name(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        found.setdefault(line["name"], []).append(line)
    return found


def _time(lines: Sequence[Line]) -> str:
    """When they were taken; earlier than any other where they do not tell."""
    return max((str(line.get("time", "")) for line in lines), default="")


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m bench.render", description="docs/benchmarks.md from results."
    ).parse_args()
    render(merged(RESULTS, DOCS / PICTURES / "results.jsonl"))


if __name__ == "__main__":
    main()
