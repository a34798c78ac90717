"""Kept results, those of `make bench` and those of the page: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / ".build" / "bench" / "results.jsonl"
Line = Mapping[str, Any]


def keep(name: str, lines: Sequence[Line], results: Path = RESULTS) -> None:
    """Replaces the kept lines of a benchmark by these."""
    before = results.read_text().splitlines() if results.exists() else []
    others = [text for text in before if json.loads(text)["name"] != name]
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text("".join(f"{text}\n" for text in [*others, *map(json.dumps, lines)]))


def merge(results: Path, kept: Path) -> list[str]:
    """Replaces kept results of the page by later ones. Returns the names of their benchmarks.

    Ignores results earlier than the kept ones: they are of an older checkout, or somebody measured since.
    """
    newer, older = _by_name(results), _by_name(kept)
    replaced = [name for name, lines in newer.items() if _time(lines) > _time(older.get(name, []))]
    for name in replaced:
        keep(name, newer[name], kept)
    return replaced


def read(path: Path) -> list[Line]:
    """All lines, grouped by benchmark; none if the file does not exist."""
    return [line for lines in _by_name(path).values() for line in lines]


def _by_name(path: Path) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        found.setdefault(line["name"], []).append(line)
    return found


def _time(lines: Sequence[Line]) -> str:
    """When they were measured; "" if they do not say, which is before any other."""
    return max((str(line.get("time", "")) for line in lines), default="")
