"""Names that are almost the wanted ones: slips of the pen, and types of other events about the same thing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from .likeness import first_difference, look_of

_SEPARATORS: Final = re.compile(r"[\s._:/-]+")
_LEAST_COMMON: Final = 5  # characters; shorter names are too easily alike
_MOST_ADDED: Final = 4  # as "com." or ".v1"
_MOST_MORE: Final = 16  # with separators and spaces; an event may have a very long type


def is_slip(here: str, wanted: str) -> bool:
    """Whether a writer who meant `wanted` may have written `here`.

    True for other separators, one character more, less or another, two swapped, and a short part at one end.
    False if only numbers differ: "step1" and "step2" are different on purpose.
    """
    return len(here) <= len(wanted) + _MOST_MORE and _is_slip(here, wanted)


@lru_cache(1000)
def _is_slip(here: str, wanted: str) -> bool:
    one, other = _joined(here), _joined(wanted)
    start = first_difference(one, other)
    rest, wanted_rest = one[start:], other[start:]
    end = first_difference(rest[::-1], wanted_rest[::-1])
    rest, wanted_rest = rest[: len(rest) - end], wanted_rest[: len(wanted_rest) - end]
    if here == wanted or start + end < _LEAST_COMMON or (rest + wanted_rest).isdecimal():
        return False
    if not rest or not wanted_rest:
        return len(rest) + len(wanted_rest) <= _MOST_ADDED
    return len(rest) == len(wanted_rest) == 1 or (len(rest) == 2 and rest == wanted_rest[::-1])


def is_other_end(wanted: Mapping[str, str], here: str) -> bool:
    """Whether a type differs from the wanted one only in its last word, as a failure does from a success.

    wanted: the attributes that a matcher names. False unless they say what the event is about: by its subject
    or its source.
    """
    stem = wanted.get("type", "").rpartition(".")[0]
    return (
        bool(stem) and not wanted.keys().isdisjoint(("subject", "source")) and here.rpartition(".")[0] == stem
    )


def _joined(text: str) -> str:
    return _SEPARATORS.sub(".", look_of(text))
