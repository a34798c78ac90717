"""Paths as an author writes them, in `by` and in `distinct`: checked, and as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from ...events.attributes import is_name
from ..errors import ConditionError
from ..filters.filter import checked_text, quoted
from .key import MAX_KEY_PARTS
from .paths import DATA, parse_path

MAX_PATH_CHARS: Final = 256
_HINT: Final = 'give a path in a string, such as "subject" or "data.order.date"'

# What only a member of the data can be called: attributes have neither _ nor dots.
_MEMBER: Final = re.compile(r"(?=.*[._])\w+(\.\w+)*")

By: TypeAlias = str | Sequence[str]


def checked_paths(call: str, argument: str, given: object) -> str | tuple[str, ...]:
    """One path, or a tuple of 2 to 8 different ones; ConditionError names the call and its argument."""
    if not isinstance(given, (list, tuple)):
        return _checked_path(call, argument, given)
    if not 2 <= len(given) <= MAX_KEY_PARTS:
        what = "a composite key has" if argument == "by" else "give"
        raise ConditionError(
            f"{call}({argument}=[...]) has {len(given)} path{'' if len(given) == 1 else 's'}: {what} 2 to"
            f' {MAX_KEY_PARTS}; a single path is given as a string, {argument}="subject"'
        )
    paths = tuple(_checked_path(call, argument, path) for path in given)
    if len(set(paths)) < len(paths):
        raise ConditionError(f"{call}({argument}={paths_text(paths)}) names a path twice")
    return paths


def paths_text(paths: str | tuple[str, ...]) -> str:
    """One path or several as the text of a condition writes them."""
    return quoted(paths) if isinstance(paths, str) else f"({', '.join(map(quoted, paths))})"


def _checked_path(call: str, argument: str, path: object) -> str:
    whole = checked_text(call, argument, path, MAX_PATH_CHARS, _HINT)
    try:
        text = parse_path(whole).base
    except ConditionError as error:
        raise ConditionError(f"{call}({argument}=...): {error}") from error
    if text.startswith(DATA):
        if "[" in text or "]" in text:
            raise ConditionError(
                f"{call}({argument}={quoted(text)}): items of lists cannot be reached; name a member"
            )
        if "" in text.split("."):
            raise ConditionError(
                f"{call}({argument}={quoted(text)}) has an empty member: write it as data.order.date"
            )
    elif not is_name(text):
        hint = f"{DATA}{text}" if _MEMBER.fullmatch(text) else "data.order.date"
        raise ConditionError(
            f"{call}({argument}={quoted(text)}) is not a path: write an attribute's name, or {hint} for a"
            " value in the data"
        )
    return whole
