"""Paths of `by` and `distinct` that mean something else than they say: an error of the DAG file.

A stored condition may have them, because a member of JSON may have any name.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import ConditionError
from ..filters.filter import quoted
from .condition import Condition
from .paths import Path, parse_path

_DURATION: Final = r"\d+(?:ms|[smhdw])(?:\d+(?:ms|[smhdw]))*"
# "-" without a space is part of many names, as in "last-7d".
_OFFSET: Final = re.compile(rf"(.+?)(?:\s+([+-])\s*|\s*([+-])\s+|(\+))({_DURATION})\s*")
_SEVERAL: Final = re.compile(r"\s*(?:,|;|\|\|?|&&?)\s*(?=data\.|(?:subject|source|type|id|time)$)")


def check_paths(condition: Condition) -> None:
    """Raises ConditionError for a path that was meant as an offset, as several paths or as a pattern."""
    for matcher in condition.matchers:
        for path in (matcher.by,) if isinstance(matcher.by, str) else matcher.by or ():
            _check("by", path)
    for paths in condition.distinct_of.values():
        for path in (paths,) if isinstance(paths, str) else paths or ():
            _check("distinct", path)


def _check(argument: str, path: str) -> None:
    read = parse_path(path)
    if read.members is None:
        return  # an attribute, whose name is checked
    instead = _instead(argument, path, read)
    if instead is not None:
        member = quoted(".".join(read.members)[:80])
        raise ConditionError(f"{argument}={quoted(path)} reads the member {member} of the data: {instead}")


def _instead(argument: str, path: str, read: Path) -> str | None:
    """What to write instead; None if the path means what it says."""
    found = _OFFSET.fullmatch(read.base)
    if found is not None and read.offset_ms:
        return "a path has one offset: write the sum of both"
    if found is not None and read.zoned is not None:
        return f"the offset stands after the bracket, {read.zoned.name}(...) + 1"
    if found is not None:
        sign = found[2] or found[3] or found[4]
        return f"for an offset write {argument}={quoted(f'{found[1].strip()} {sign} {found[5]}')}"
    parts = _SEVERAL.split(read.base)
    if len(parts) > 1:
        return f"for several paths write {argument}=[{', '.join(map(quoted, parts))}]"
    members = read.base.split(".")
    stripped = ".".join(member.strip() for member in members)
    if stripped != read.base:
        return f"write {argument}={quoted(path.replace(read.base, stripped))}"
    return "a path is no pattern, and names one member" if "*" in members else None
