"""What `make bench` has kept of the answers, and what the page has of them: one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / ".build" / "bench" / "results.jsonl"
Line = Mapping[str, Any]


def keep(name: str, lines: Sequence[Line], results: Path = RESULTS) -> None:
    """Put the lines of a question in the place of those that were there of it."""
    before = results.read_text().splitlines() if results.exists() else []
    others = [text for text in before if json.loads(text)["name"] != name]
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text("".join(f"{text}\n" for text in [*others, *map(json.dumps, lines)]))


def merge(results: Path, kept: Path) -> list[str]:
    """Put later answers in the place of those that are kept of the same questions; whose these are.

    Answers of before the kept ones stay out: they are of an older checkout, or somebody else has asked since.
    """
    newer, older = _by_name(results), _by_name(kept)
    replaced = [name for name, lines in newer.items() if _time(lines) > _time(older.get(name, []))]
    for name in replaced:
        keep(name, newer[name], kept)
    return replaced


def read(path: Path) -> list[Line]:
    """All lines there are, in the order of their questions; none where there is no such file."""
    return [line for lines in _by_name(path).values() for line in lines]


def _by_name(path: Path) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        found.setdefault(line["name"], []).append(line)
    return found


def _time(lines: Sequence[Line]) -> str:
    """When they were taken; earlier than any other where they do not tell."""
    return max((str(line.get("time", "")) for line in lines), default="")
