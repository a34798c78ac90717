"""Sizes of the benchmarks' loads, set by environment variables."""

from __future__ import annotations

import os
from typing import Final

SIZES: Final = (
    "CONDITION",
    "CORES",
    "ENDED",
    "EVENTS",
    "HISTORY",
    "KEYS",
    "PARTITIONS",
    "RATE",
    "SUBSCRIPTIONS",
)
_TEXTS: Final = ("CONDITION", "CORES")


def number(name: str, default: int) -> int:
    """The size from the environment. SystemExit if it is not a whole number from 1 on."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not int(text):
        raise SystemExit(f"bench: {name} must be a whole number from 1 on, not {text!r}")
    return int(text)


def sizes_given() -> dict[str, str]:
    """{name: text} of the sizes in the environment. SystemExit as for `number`."""
    given = {name: text for name in SIZES if (text := os.environ.get(name))}
    for name in given.keys() - set(_TEXTS):
        number(name, 1)
    return given
