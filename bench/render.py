"""Makes docs/understand/benchmarks.md and its pictures from results: `make bench-docs`.

No part of that page is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from .benchmarks import BENCHMARKS
from .cells import COLUMNS, digits, row
from .lines import progress
from .pictures import drawn
from .results import RESULTS, ROOT, Line, merge, read

DOCS: Final = ROOT / "docs" / "understand"
PICTURES: Final = "benchmarks"
NOT_MEASURED: Final = "–"

HEAD: Final = """# Benchmarks

<!-- `make bench-docs` writes this page from the results of `make bench`; do not edit it. -->

Above each table are the command that gives its figures, and the commit; a `+` after the commit means
uncommitted changes. Aims, limits, and what was tried: [performance.md](performance.md). The complete results:
[results.jsonl](benchmarks/results.jsonl).

- Broker, load and the measured process share the machine. There is one broker with one replica of each
  partition; `replicas` has two brokers.
- A figure that is the median of several turns is followed by the lowest and the highest turn. Its ratio is
  the median of the ratios of the turns, which can differ from the ratio of two medians. Any other ratio is
  that of two figures. The text above a table says to what its ratios refer.
- In tables with a column for each number of waits, ratios are in brackets; –: not measured.
- Measured once, without turns: `archive`, `backtest`, `eventloop`, `failover`, `peers`, `profile`, `start`,
  `timers`, the largest of `recovery`, the look-backs of `registration`. Two runs differ by more than the
  turns of one.
- Pictures show how each cost grows; both axes are logarithmic. A cost that does not grow is a level line, a
  cost that many share falls. Sizes of 0, and measurements that did not finish, are left out.
"""


def render(lines: Sequence[Line], docs: Path = DOCS) -> None:
    """Writes the page and its pictures into `docs`.

    Leaves out lines of benchmarks that no longer exist, and of those that only run when named.
    """
    order = [name for name, each in BENCHMARKS.items() if not each.by_name]
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
    benchmark = BENCHMARKS[name]
    yield f"## {benchmark.about[0].upper()}{benchmark.about[1:]}\n"
    first = lines[0]
    versions = ", ".join(f"{package} {version}" for package, version in first["versions"].items())
    yield f"```sh\nmake bench ONLY={name}\n```\n"
    files = f", the broker's files {first['files']}" if "files" in first else ""
    ratio = f" Ratios are {benchmark.ratio}." if benchmark.ratio else ""
    took = f" Took {digits(first['took_s'])} s." if "took_s" in first else ""
    day = f", {first['time'][:10]}" if "time" in first else ""
    memory = f", {first['memory_gib']} GiB" if "memory_gib" in first else ""
    processor = f" of {first['processor']}" if "processor" in first else ""
    machine = f"{first['cores']} cores{processor}{memory}"
    yield f"At {first['commit']}{day}, {machine}{files}; {versions}.{took}{ratio}\n"
    yield from _table([line for line in lines if "table" not in line])
    yield from _tables_by_kind([line for line in lines if "table" in line])
    for about, picture in drawn(benchmark, lines, pictures):
        yield f"![{about}]({PICTURES}/{picture.name})\n"


def _table(lines: Sequence[Line]) -> Iterator[str]:
    if lines:
        yield f"| {' | '.join(COLUMNS)} |"
        yield "|---|---:|---|---:|---|"
        for line in lines:
            yield f"| {' | '.join(row(line))} |"
        yield ""


def _tables_by_kind(lines: Sequence[Line]) -> Iterator[str]:
    """A table for each figure, with a row for each kind and a column for each size."""
    for table in dict.fromkeys(line["table"] for line in lines):
        of_table = [line for line in lines if line["table"] == table]
        kinds, columns = (list(dict.fromkeys(line[of] for line in of_table)) for of in ("row", "column"))
        columns.sort(key=lambda text: int(text.split()[0]))
        texts = {(line["row"], line["column"]): _cell(line) for line in of_table}
        yield f"| {table} | {' | '.join(columns)} |"
        yield f"|---|{'---:|' * len(columns)}"
        for kind in kinds:
            yield f"| {kind} | {' | '.join(texts.get((kind, column), NOT_MEASURED) for column in columns)} |"
        yield ""


def _cell(line: Line) -> str:
    """The figure, and its ratio in brackets."""
    if not line.get("finished", True):
        return "did not finish"
    ratio = line.get("ratio")
    return digits(line["figure"]) + ("" if ratio is None else f" ({digits(ratio)})")


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m bench.render", description="docs/understand/benchmarks.md from results."
    ).parse_args()
    kept = DOCS / PICTURES / "results.jsonl"
    replaced = merge(RESULTS, kept)
    render(read(kept))
    page = "docs/understand/benchmarks.md"
    progress(
        f"{page} has new results of {', '.join(replaced)}; the others are unchanged."
        if replaced
        else f"{page} has no new results: {RESULTS.relative_to(ROOT)} has none that is later."
    )


if __name__ == "__main__":
    main()
