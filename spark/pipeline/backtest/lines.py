"""The lines of a backtest's summary as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WIDTH: Final = 12
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def line(name: str, text: str) -> str:
    return f"{name:<{_WIDTH}}  {text}"


def moment(ms: int, timespec: str = "milliseconds") -> str:
    """The time in UTC; "… ms" outside the calendar, which a producer's timestamp may be."""
    try:
        found = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return found.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def duration(ms: float) -> str:
    """Such as 250 ms, 2.4 s, 15 min, 5.5 h."""
    size, unit = next((each for each in _UNITS if ms >= each[0]), _UNITS[-1])
    return f"{ms / size:.3g} {unit}"
