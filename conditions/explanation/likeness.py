"""Texts that look alike but are not equal, and how they differ: case, spaces, Unicode forms, characters."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from ...events.event import Event
from ..filters.cel.where import Where
from ..filters.dialects import Comparison, FilterGroup, Prefix, Sql, Suffix
from ..filters.filter import Filter
from ..nodes.paths import member_at
from .formats import kind_of

_MAX_CHARS: Final = 2048  # the longest value that a filter compares
_SHOWN: Final = 20  # characters around a difference
# Characters of other scripts that look like those of Latin texts; NFKC leaves them as they are.
_LOOK_ALIKE: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d"  # Cyrillic
    "\u0432\u043a\u043c\u043d\u0442"  # Cyrillic whose capitals look so: `look_of` compares without case
    "\u03bf\u03bd\u03b1\u03c1\u03c5\u03b9\u03ba"  # Greek
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2018\u2019\u201c\u201d",
    "aeopcyxijsdhqwbkmhtovapuik-------''\"\"",
)
_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")  # texts in an expression


def difference(here: str, wanted: str, start: bool = True, end: bool = True) -> str | None:
    """How a text differs from the wanted one that it looks like; None if they are equal or look different.

    start, end: False if other characters may stand before `wanted` (a suffix), or after it (a prefix).
    """
    if here == wanted or not wanted:
        return None
    here, whole = here[: 2 * _MAX_CHARS], here
    if not (start and end):
        part = _part(here, wanted, start)
        return None if part is None or part == wanted else _difference(part, wanted)
    if look_of(here) != look_of(wanted):
        return None
    return _difference(whole, wanted)


def look_of(text: str) -> str:
    """One text for all texts that look about the same."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_LOOK_ALIKE)
    if not folded.isprintable():  # zero-width characters, byte order marks, line breaks
        folded = "".join(char if char.isprintable() else " " if char.isspace() else "" for char in folded)
    return unicodedata.normalize("NFKC", " ".join(folded.split()).strip("\"'"))


def likeness(term: Filter, event: Event) -> str | None:
    """How a value of the event differs from a text of the term that it looks like; None if none does."""
    if isinstance(term, Where):
        return _likeness_in_data(term, event)
    for attribute, value, wanted, ends in _compared(term, event):
        found = difference(value, wanted, *ends)
        if found is not None:
            return f"its {attribute} differs {found}"
    return None


def _likeness_in_data(term: Where, event: Event) -> str | None:
    for compared in term.comparisons:
        value, path = _value_at(compared.path, event), ".".join(compared.path)
        if value is None:
            continue
        if compared.other is not None:
            other = _value_at(compared.other, event)
            if other is not None and kind_of(other) != kind_of(value):
                there = ".".join(compared.other)
                return f"its {path} is {kind_of(value)}, and its {there} is {kind_of(other)}"
            continue
        kinds = dict.fromkeys(map(kind_of, compared.wanted))
        if kind_of(value) not in kinds:
            return f"its {path} is {kind_of(value)}, and {' or '.join(kinds)} is wanted"
        texts = [each for each in compared.wanted if isinstance(each, str)] if compared.equal else []
        if isinstance(value, str) and value not in texts:
            found = next(filter(None, (difference(value, wanted) for wanted in texts)), None)
            if found is not None:
                return f"its {path} differs {found}"
    return None


def _value_at(path: tuple[str, ...], event: Event) -> object:
    """The value at a path that begins with its variable; None if it has none."""
    root, *members = path
    return event.attributes.get(members[0]) if root == "event" else member_at(tuple(members), event)


def _compared(term: Filter, event: Event) -> Iterator[tuple[str, str, str, tuple[bool, bool]]]:
    """What a term compares: (name, value in the event, text in the term, (start, end) as in `difference`)."""
    if isinstance(term, Comparison):
        ends = (not isinstance(term, Suffix), not isinstance(term, Prefix))
        for name, wanted in term.pairs:
            yield name, event.attributes.get(name, ""), wanted, ends
    elif isinstance(term, FilterGroup):
        for each in term.filters:
            yield from _compared(each, event)
    elif isinstance(term, Sql):
        named = [item for item in event.attributes.items() if item[0] in term.expression.casefold()]
        for one, other in _QUOTED.findall(term.expression):
            yield from ((name, value, one or other, (True, True)) for name, value in named)


def _difference(here: str, wanted: str) -> str:
    if unicodedata.normalize("NFC", here) == unicodedata.normalize("NFC", wanted):
        return (
            f"only in its Unicode form: {_escaped(here)} ({_form(here)}) here, "
            f"{_escaped(wanted)} ({_form(wanted)}) wanted"
        )
    if here.strip() == wanted.strip():
        return "only in spaces at its beginning or end"
    if here.strip("\"'") == wanted.strip("\"'"):
        return "only in quotation marks around it"
    # lower(): casefold() also makes letters equal that look different, such as the ligature of fi and the two
    if here.lower() == wanted.lower():
        return "only in upper and lower case"
    if here.strip().lower() == wanted.strip().lower():
        return "in upper and lower case, and in spaces at its beginning or end"
    at = first_difference(here, wanted)
    return f"in character {at + 1}: {_named(here, at)} here, {_named(wanted, at)} wanted"


def cut_difference(here: str, wanted: str, shown: int) -> str | None:
    """Where two texts differ after the first `shown` characters; None if they already differ in these."""
    if here[:shown] != wanted[:shown] or here == wanted:
        return None
    at = first_difference(here, wanted)
    near = slice(at, at + _SHOWN)
    return f"from character {at + 1} on: {_escaped(here[near])} here, {_escaped(wanted[near])} wanted"


def first_difference(here: str, wanted: str) -> int:
    """The place of the first character that differs; if one begins with the other, the end of the shorter."""
    pairs = enumerate(zip(here, wanted, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(here), len(wanted)))


def _named(text: str, at: int) -> str:
    if at >= len(text):
        return "nothing"
    return f"U+{ord(text[at]):04X} {unicodedata.name(text[at], '')}".rstrip()


def _form(text: str) -> str:
    return next((form for form in ("NFC", "NFD") if unicodedata.is_normalized(form, text)), "mixed")


def _escaped(text: str) -> str:
    return json.dumps(text if len(text) <= _SHOWN * 2 else text[: _SHOWN * 2] + "...")


def _part(here: str, wanted: str, start: bool) -> str | None:
    """The start or end of `here` that looks like `wanted`; None if it has none."""
    like = look_of(wanted)
    for size in sorted(range(1, min(len(here), 2 * len(wanted)) + 1), key=lambda n: abs(n - len(wanted)))[
        :16
    ]:
        part = here[:size] if start else here[-size:]
        if look_of(part) == like:
            return part
    return None
