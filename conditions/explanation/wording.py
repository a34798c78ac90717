"""The wording of an explanation: times, durations, and texts that are cut and made safe to print."""

from __future__ import annotations

import re
from typing import Final

from ...events.visible import visible
from ..nodes.duration import duration_text
from ..nodes.timers import moment_text

_THINGS_IN_TEXT: Final = 3
_MAX_CHARS: Final = 80
# (from this length on, to this unit): a duration is shown in two units.
_COARSE: Final = ((86_400_000, 3_600_000), (3_600_000, 60_000), (60_000, 1000))
_SURROGATES = re.compile("[\ud800-\udfff]")


def some(things: tuple[object, ...], of: int) -> str:
    """The first few things, and how many more there are."""
    shown = things[:_THINGS_IN_TEXT]
    more = f" and {of - len(shown)} more" if of > len(shown) else ""
    return ", ".join(map(str, shown)) + more


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def moment(ms: int) -> str:
    """The time in RFC 3339, or the number if it is outside the years of RFC 3339."""
    try:
        return moment_text(ms)
    except (OverflowError, ValueError):
        return f"{ms} ms"


def when(at_ms: int, now_ms: int) -> str:
    """A time, and how far it is from now."""
    if at_ms == now_ms:
        return f"{moment(at_ms)} (now)"
    left = f"in {about(at_ms - now_ms)}" if at_ms > now_ms else f"{about(now_ms - at_ms)} ago"
    return f"{moment(at_ms)} ({left})"


def about(ms: int) -> str:
    """A duration in two units: 1h20m for 1h20m13s."""
    for unit, step in _COARSE:
        if ms >= unit:
            ms -= ms % step
            break
    return duration_text(ms)


def printed(text: str, limit: int = _MAX_CHARS) -> str:
    """`text` cut to `limit` characters, and made visible.

    It is quoted if it is empty, or begins or ends with a space, which nobody would see.
    """
    safe = visible(text if len(text) <= limit else text[:limit] + "...")
    return safe if safe and safe == safe.strip() else f'"{safe}"'


def valued(text: str) -> str:
    """As `printed`, for the value of an attribute: a value that reads like a missing one is quoted too."""
    return f'"{text}"' if text == "none" else printed(text)


def clean(text: str, limit: int) -> str:
    """`text` cut to `limit` characters; lone surrogates, which JSON cannot carry, become "?"."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    return _SURROGATES.sub("?", cut)


def given(values: dict[str, object]) -> dict[str, object]:
    """The members that are not None."""
    return {name: value for name, value in values.items() if value is not None}
