"""How many different values the events of one key can have at the paths of `distinct=` (Q9), and which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias

from ...events.completions import DAY
from ..errors import ConditionError
from ..filters.dialects import Any, Exact
from ..filters.filter import Filter, quoted
from .by import paths_text
from .combinations import AtLeast, Count
from .condition import Condition, shortened
from .matcher import Matcher
from .own_events import members_of
from .param import ParamExact
from .paths import DATA, Path, parse_path
from .shapes import fixed_value, shapes_at
from .zoned import Zoned

Paths: TypeAlias = tuple[str, ...]

# From the shortest to the longest. A period lies in one of each longer kind, but a week may be in two months.
_LENGTHS: Final = ("hour", "day", "week", "month")
# {(period of the key, counted period): how many counted periods one key may touch}. A day may have 27 hours:
# Antarctica/Casey sets its clock back by three.
_MOST: Final[Mapping[tuple[str, str], int]] = {
    ("day", "hour"): 27,
    ("week", "hour"): 171,
    ("month", "hour"): 747,
    ("week", "day"): 7,
    ("month", "day"): 31,
    ("month", "week"): 6,
    ("week", "month"): 2,
}
_DS: Final = "day(data.logical_date, UTC)"
_HOURS_IN_UTC: Final = {"day": 24, "week": 168, "month": 744}
_FIRST_DAY: Final = {"day": "", "week": "-1", "month": "-01"}  # what makes a date of a key


def check_counts(condition: Condition) -> None:
    """Raises ConditionError for a `distinct=` that no events of one key can meet: it would wait for ever."""
    if isinstance(condition, Count) and condition.distinct is not None:
        paths = _paths(condition.distinct)
        _check_values("count", paths, [condition.of])
        _check_count(condition, paths)
    if isinstance(condition, AtLeast) and condition.distinct is not None:
        matchers = [each for each in condition.of if isinstance(each, Matcher)]
        paths = _paths(condition.distinct)
        _check_values("at_least", paths, matchers)
        _check_at_least(condition, paths, matchers)
    for operand in condition.operands:
        check_counts(operand)


def values_of_key(path: str, matcher: Matcher, key: str) -> frozenset[str] | None:
    """The values that the events of a key can have at a path of `distinct=`; None if they may be any.

    Known where the path and `by` are periods of the same time in one zone: the hours of a day.
    """
    paths = _paths(matcher.by)
    if len(paths) != 1:
        return None
    counted, of_key = _read(path, matcher), _read(paths[0], matcher)
    if counted.zoned is None or of_key.zoned is None or of_key.zoned.offset:
        return None
    most = _of_key(counted, of_key, counted == of_key)
    return None if most in (None, 1) else _values_in(counted.zoned, of_key.zoned, key)


@lru_cache(100)
def _values_in(counted: Zoned, of_key: Zoned, key: str) -> frozenset[str] | None:
    try:
        first = date.fromisoformat(key + _FIRST_DAY[of_key.name])
        moment = datetime(first.year, first.month, first.day, tzinfo=UTC) - timedelta(days=1)
        end = moment + of_key.longest + timedelta(days=3)
        # a clock that is set in the middle of an hour begins another one
        step = timedelta(minutes=30) if counted.name == "hour" else timedelta(hours=6)
    except (ValueError, OverflowError):
        return None
    found = set()
    while moment < end:
        text = moment.isoformat()
        if of_key.key_of(text) == key:
            found.add(counted.key_of(text))
        moment += step
    return frozenset(each for each in found if each is not None)


def _check_values(call: str, paths: Paths, matchers: Iterable[Matcher]) -> None:
    for matcher in matchers:
        members = members_of(matcher)
        for path in paths:
            begin = (
                f"{call}(..., distinct={quoted(path)}): {shortened(matcher)} never has a value there, so none"
            )
            if not shapes_at(path, matcher):
                raise ConditionError(
                    f"{begin} of its events counts: a day has no hour, and only whole days can be added to it"
                )
            read = parse_path(path).members
            if read is not None and members is not None and read[0] not in members:
                listed = ", ".join(sorted(members))
                raise ConditionError(f"{begin} of its events counts: the members of their data are {listed}")


def _check_count(condition: Count, paths: Paths) -> None:
    bounds = [_bound(path, condition.of) for path in paths]
    most = 1
    for bound in bounds:
        if bound is None:
            return
        most *= bound
    if most < condition.n:
        raise ConditionError(
            f"{shortened(condition)} is never met: {_why(paths, most, condition.of)}"
            f" {condition.n} are wanted. Write distinct=None to count each event, or another path"
        )


def _why(paths: Paths, most: int, matcher: Matcher) -> str:
    what = f"different values of {paths_text(paths if len(paths) > 1 else paths[0])}"
    if matcher.by is None or all(_of_filters(path, matcher) is not None for path in paths):
        return f"its events have at most {most} {what}, and"
    return f"events of one key (by={paths_text(matcher.by)}) have at most {most} {what}, and"


def _check_at_least(condition: AtLeast, paths: Paths, matchers: list[Matcher]) -> None:
    values = [_value(paths, matcher) for matcher in matchers]
    known = {each for each in values if each is not None}
    most = values.count(None) + len(known)
    if most < condition.n:
        raise ConditionError(
            f"{shortened(condition)} is never met: its matchers have at most {most} different"
            f" {'value' if most == 1 else 'values'} of {paths_text(paths if len(paths) > 1 else paths[0])},"
            f" and {condition.n} are wanted. Give another path, or leave out distinct="
        )


def _value(paths: Paths, matcher: Matcher) -> tuple[str, ...] | None:
    """What is known of the values that an event of one key has at the paths; None if one may be any.

    A text for each path: matchers with the same texts always have the same values.
    """
    found = []
    for path in paths:
        exact = [value for name, value in matcher.exact if name == path]
        if exact:
            found.append(f"={exact[0]}")
        elif path in _paths(matcher.by):
            found.append(f"key {len(_paths(matcher.by))} {_paths(matcher.by).index(path)}")
        else:
            return None
    return tuple(found)


def _bound(path: str, matcher: Matcher) -> int | None:
    """How many different values the matcher's events of one key can have at a path; None if unknown."""
    fixed = _of_filters(path, matcher)
    if fixed is not None:
        return fixed
    wanted = _read(path, matcher)
    bounds = [_of_key(wanted, _read(each, matcher), path == each) for each in _paths(matcher.by)]
    return min((each for each in bounds if each is not None), default=None)


def _read(path: str, matcher: Matcher) -> Path:
    """The parsed path. `ds` of Airflow's completion events is the day in UTC of their logical date."""
    read = parse_path(path)
    of_airflow = read.base in (DAY, f"{DATA}{DAY}") and members_of(matcher) is not None
    return parse_path(_DS) if of_airflow and read.zoned is None else read


def _of_filters(path: str, matcher: Matcher) -> int | None:
    read = parse_path(path)
    if fixed_value(read.base, matcher) is not None:
        return 1
    if read.members is not None:
        return None
    of_params = [each.attribute for each in matcher.filters if isinstance(each, ParamExact)]
    if read.base in of_params:
        return 1
    found = [_values(read.base, each) for each in matcher.filters]
    return min((len(each) for each in found if each is not None), default=None)


def _values(name: str, each: Filter) -> frozenset[str] | None:
    """The values of an attribute that the filter accepts; None if it may accept any."""
    if isinstance(each, Exact):
        value = dict(each.pairs).get(name)
        return None if value is None else frozenset({value})
    if isinstance(each, Any):
        found = [_values(name, part) for part in each.filters]
        if all(part is not None for part in found):
            return frozenset().union(*(part for part in found if part is not None))
    return None


def _of_key(wanted: Path, key: Path, same: bool) -> int | None:
    if same:
        return 1
    if (wanted.base, wanted.members) != (key.base, key.members):
        return None
    if key.zoned is None:
        # the value itself is known; a number with a unit may be another value than its text
        return 1 if not key.offset_ms and (wanted.zoned is None or wanted.zoned.unit is None) else None
    return None if wanted.zoned is None else _of_period(wanted.zoned, key.zoned)


def _of_period(wanted: Zoned, key: Zoned) -> int | None:
    if (wanted.zone, wanted.unit) != (key.zone, key.unit) or (key.name == "hour" and key.letter == "d"):
        return None
    if _LENGTHS.index(wanted.name) >= _LENGTHS.index(key.name) and (key.name, wanted.name) not in _MOST:
        return 1
    if wanted.name == "hour" and key.zone == "UTC":
        return _HOURS_IN_UTC[key.name]
    return _MOST[key.name, wanted.name]


def _paths(given: str | Paths | None) -> Paths:
    return () if given is None else (given,) if isinstance(given, str) else given
