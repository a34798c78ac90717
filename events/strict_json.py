"""Reads JSON in which no member may appear twice: readers disagree on which of the two counts."""

from __future__ import annotations

import json
from typing import Any

from .attributes import shown
from .content import parse_json
from .errors import EventError


def parse_strictly(text: bytes) -> object:
    """Returns the value of a JSON text. Raises EventError if it is invalid, or repeats a member anywhere."""
    value = parse_json(text)
    refuse_repeated(text)
    return value


def refuse_repeated(text: bytes) -> None:
    """Raises EventError if an object in this text, which `parse_json` can read, has a member twice."""
    try:
        # int() refuses numbers of more than 4,300 digits.
        json.loads(text.decode(), object_pairs_hook=_refuse_repeated, parse_int=str)
    except RecursionError:
        raise EventError("data is nested too deeply to be read as JSON") from None


def _refuse_repeated(members: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise EventError(f"the JSON has a member twice: {shown(name)}")
        seen.add(name)
