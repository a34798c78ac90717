"""The sizes of benchmarks, which the environment may change."""

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
    """The environment's size of this name; what is none ends the bench with a sentence."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not int(text):
        raise SystemExit(f"bench: {name} is a whole number from 1 on, not {text!r}")
    return int(text)


def sizes_given() -> dict[str, str]:
    """{size: what the environment says}, those that are numbers looked at."""
    given = {name: text for name in SIZES if (text := os.environ.get(name))}
    for name in given.keys() - set(_TEXTS):
        number(name, 1)
    return given
