"""A wait's key that is a day in UTC, where its matchers read days of another time zone.

That is case K40 of docs/use/conditions.md. `{{ ds }}` is such a day, and so are `{{ logical_date | ds }}` and
`{{ ts[:10] }}`. To find out whether a template gives one, it is rendered for runs whose day in UTC is
another one than in the zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from ..conditions import Condition, ConditionError, canonical_key
from ..conditions.filters.filter import quoted
from ..conditions.nodes.condition import shortened
from ..conditions.nodes.matcher import Matcher
from ..conditions.nodes.paths import parse_path
from ..conditions.nodes.shapes import reads_ds
from ..conditions.nodes.templates import is_template
from ..conditions.nodes.zoned import Zoned, zoned
from .key_shapes import EDGES, rendered_at_edges
from .time_zone import zone_of

_MOST: Final = {"day": 366, "week": 53, "month": 12}  # as for offset=
# {name in a template: (template for the moment that it means, days from the logical date to that moment)}.
# Templates are rendered for daily runs.
_MOMENTS: Final = {
    "data_interval_end": ("{{ data_interval_end }}", 1),
    "data_interval_start": ("{{ data_interval_start }}", 0),
    "run_after": ("{{ dag_run.run_after }}", 1),
    "start_date": ("{{ dag_run.start_date }}", 1),
}


def check_days_of_key(condition: Condition, key: object, dag: Any) -> None:
    """Raises ConditionError if a value of the key is a day, week or month in UTC, and `by` reads a zone's.

    The author may mean that. So the error shows how to write either key.
    """
    parts = key if isinstance(key, (list, tuple)) else (key,)
    for matcher in condition.matchers:
        paths = (matcher.by,) if isinstance(matcher.by, str) else matcher.by or ()
        for path, part in zip(paths, parts, strict=False):
            of = parse_path(path).zoned
            if isinstance(part, str):
                _check_key_of_zone(path, matcher, part, dag)
            if of is None or of.zone is None or of.name == "hour" or of.unit == "d":
                continue
            if not isinstance(part, str) or not is_template(part) or zoned(part) is not None:
                continue
            shift = _shift_in_utc(of.name, of.zone, rendered_at_edges(part, dag))
            if shift is not None:
                raise ConditionError(
                    f"that is the {of.name} in UTC, and by={quoted(path)} of {shortened(matcher)} reads"
                    f" {of.name}s in {of.zone}, where it is another {of.name} at some hours."
                    f" {_instead(of, part, shift)}"
                )


def _check_key_of_zone(path: str, matcher: Matcher, part: str, dag: Any) -> None:
    """Raises ConditionError if the key is a day of a zone, and the path reads a run's day in UTC (`ds`)."""
    given = zoned(part)
    if given is None or given.name != "day" or not reads_ds(path, matcher):
        return
    zone = given.zone or (None if dag is None else zone_of(dag))
    if zone is not None and _differs_from_utc(zone):
        raise ConditionError(
            f"that is the day in {zone}, and by={quoted(path)} of {shortened(matcher)} reads the day in UTC,"
            f' which is another day at some hours. Write by=day("data.logical_date", tz={quoted(zone)})'
            ' there, or key="{{ ds }}"'
        )


@lru_cache(1000)
def _differs_from_utc(zone: str) -> bool:
    of, in_utc = (Zoned("day", "", each, None, 0, "d") for each in (zone, "UTC"))
    return any(of.key_of(moment.isoformat()) != in_utc.key_of(moment.isoformat()) for moment in EDGES)


def _instead(of: Zoned, text: str, shift: int) -> str:
    """Returns what to write instead of a key's template. shift: of the template, see `_shift_in_utc`."""
    moment, days = next(
        (each for name, each in _MOMENTS.items() if re.search(rf"\b{name}\b", text)), ("{{ ts }}", 0)
    )
    shift -= days if of.name == "day" else 0
    offset = f", offset={shift}" if shift else ""
    in_zone, in_utc = (f'{of.name}("{moment}", tz={quoted(zone)}{offset})' for zone in (of.zone or "", "UTC"))
    return f"Give {in_zone}; or, if the {of.name} in UTC is meant, {in_utc}"


@lru_cache(1000)
def _shift_in_utc(name: Any, zone: str, texts: Sequence[str]) -> int | None:
    """Returns by how many days, weeks or months the texts differ from those of EDGES in UTC.

    None if it is not the same number for each, or if the texts fit the zone as well, which may be UTC under
    another name.
    """
    shift = _shift(name, "UTC", texts)
    return shift if shift is not None and _shift(name, zone, texts) is None else None


def _shift(name: Any, zone: str, texts: Sequence[str]) -> int | None:
    """Returns the shift nearest to 0 by which each text is the day (week, month) of its edge in the zone.

    None if there is none.
    """
    try:
        keys = [canonical_key(text) for text in texts]
    except ConditionError:
        return None
    moments = [moment.isoformat() for moment in EDGES]
    for shift in sorted(range(-_MOST[name], _MOST[name] + 1), key=abs) if keys else ():
        of = Zoned(name, "", zone, None, shift, {"day": "d", "week": "w", "month": "mo"}[name])
        if all(of.key_of(moment) == key for moment, key in zip(moments, keys, strict=True)):
            return shift
    return None
