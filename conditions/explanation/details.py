"""The details of a near miss: what its data looks like, and how its text differs from the wanted one.

They cost more than the search, so only the few near misses that are shown get them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...events.event import Event
from ..filters.cel.where import Where
from ..filters.dialects import Comparison, attributes_of
from ..filters.filter import Filter, FilterDecision
from ..nodes.paths import DATA
from .data import (
    member_instead,
    why_no_key,
    why_no_member,
    why_no_number,
    why_no_object,
    why_not_selected,
    why_unreadable,
)
from .likeness import cut_difference, difference, likeness
from .moments import other_reading
from .near_miss import NearMiss
from .timestamps import why_no_timestamp
from .wording import clean

MAX_VALUE_CHARS: Final = 80
MAX_TERM_CHARS: Final = 512
# Parts of the CEL library's errors: a member is missing, or the value above it has no members.
_NO_MEMBER: Final = ("Key not found", "Applying SELECT")
# A text and a number are compared or added, or a text is to be converted.
_NUMBERS: Final = ("int64", "uint64", "double")
_NO_NUMBER: Final = "cannot convert string to"


def detailed(
    miss: NearMiss,
    event: Event,
    refused: Sequence[tuple[Filter, FilterDecision]],
    paths: Sequence[str],
    distinct: Sequence[str] = (),
) -> NearMiss:
    """The near miss with its details.

    refused: the terms that refused the event. paths: those of the key. distinct: those of count(distinct=).
    """
    if miss.why == "no value":
        reason = why_no_key(distinct, event)
        return replace(miss, data=None if reason is None else clean(reason, MAX_TERM_CHARS))
    if miss.why == "no key":
        reason, data = why_no_key(paths, event), why_unreadable(event)
        if reason is None:
            return miss
        why = "no key" if data is None or not reason.startswith(data) else "no data"
        shown = clean(reason, MAX_TERM_CHARS)
        return replace(miss, why=why, data=shown, error=shown if why == "no data" else None)  # type: ignore[arg-type]
    if miss.why == "key":
        wanted = miss.wanted or ""
        differs = _difference(miss.key or "", wanted) or other_reading(paths, event, wanted)
        return replace(miss, difference=differs)
    if not refused:
        return miss
    term, verdict = refused[0]
    if isinstance(term, Where) and "data" in term.source:
        failed = verdict.error is not None
        data = why_no_object(event) if failed else why_unreadable(event)
        if data is None and failed:
            data = _why_failed(verdict.error or "", term, event)
        if data is not None:
            return replace(miss, data=clean(data, MAX_TERM_CHARS))
    for name in attributes_of(term) if verdict.attribute is None else (verdict.attribute,):
        data = member_instead(name, event, f'where="{DATA}{name} == ..."')
        if data is not None:
            return replace(miss, data=clean(data, MAX_TERM_CHARS))
    differs = likeness(term, event)
    if verdict.attribute is not None and isinstance(term, Comparison):
        value, wanted = event.attributes.get(verdict.attribute, ""), dict(term.pairs)[verdict.attribute]
        cut = None if differs else cut_difference(value, wanted, MAX_VALUE_CHARS)
        differs = differs or (cut and f"its {verdict.attribute} differs {cut}")
    if differs is None and miss.key is not None:
        differs = _difference(miss.key, miss.wanted or "")
    return replace(miss, difference=None if differs is None else clean(differs, MAX_TERM_CHARS))


def _why_failed(error: str, term: Where, event: Event) -> str | None:
    """Which member of the data makes a predicate fail with this error of the CEL library."""
    paths = term.members
    if any(each in error for each in _NO_MEMBER):
        return why_no_member(paths, event) or why_not_selected(paths, event)
    if "timestamp" in error.casefold():
        return why_no_timestamp(paths, event)
    is_text = (
        "No matching overload" in error and "string" in error and any(kind in error for kind in _NUMBERS)
    )
    return why_no_number(paths, event) if is_text or _NO_NUMBER in error else None


def _difference(key: str, wanted: str) -> str | None:
    found = difference(key, wanted) or cut_difference(key, wanted, MAX_VALUE_CHARS)
    return None if found is None else f"the key differs {found}"
