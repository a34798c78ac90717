"""Members of the data that CEL's timestamp() cannot read, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ...events.event import Event
from ..nodes.instants import as_date
from ..nodes.paths import DATA, member_at

_NO_ZONE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?")
_MOST_SECONDS: Final = 253_402_300_799  # the end of the year 9999


def why_no_timestamp(paths: Iterable[tuple[str, ...]], event: Event) -> str | None:
    """Which of these members is no time for timestamp(), and what to write; None if that is not clear."""
    for path in paths:
        name, value = f"{DATA}{'.'.join(path)}", member_at(path, event)
        if isinstance(value, (int, float)) and abs(value) > _MOST_SECONDS:
            return (
                f"its {name} is a number, which timestamp() reads as seconds: for milliseconds write"
                f" timestamp(int({name}) / 1000)"
            )
        if not isinstance(value, str):
            continue
        if "-" in value and as_date(value) is not None:
            return f"its {name} is a date: for its midnight in UTC write timestamp({name} + 'T00:00:00Z')"
        if _NO_ZONE.fullmatch(value):
            return f"its {name} is a time without a zone: if it is in UTC write timestamp({name} + 'Z')"
    return None
