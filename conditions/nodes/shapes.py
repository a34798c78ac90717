"""Shapes of keys: what kind of text a `by` path gives, and keys that can therefore never be equal (K39).

A shape is "day", "week", "month", "time", "hour of ZONE" for the times at which an hour begins there, "text"
for any other text, "=..." for one known canonical text, or ANY where it is not known. Days, weeks, months and
times are told apart by their canonical text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations, product
from typing import Final, TypeAlias

from ..errors import ConditionError
from ..filters.filter import quoted
from .combinations import AllOf, AnyOf, AtLeast, Sequence
from .condition import Condition, shortened
from .hours import begin_together, beginning, begins_an_hour
from .key import canonical_key
from .kinds import kinds_of
from .matcher import Matcher
from .paths import DATA, parse_path
from .zoned import Zoned

Shape: TypeAlias = str
Shapes: TypeAlias = frozenset[Shape]
Keys: TypeAlias = frozenset[tuple[Shape, ...]]  # alternatives; each has one shape for each value of a key

ANY: Final = "any"
_HOUR: Final = "hour of "
_DAY_MS: Final = 86_400_000
_MAX_KEYS: Final = 1000  # alternatives; a condition with more is not checked
_TEXTS: Final = {
    "day": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "week": re.compile(r"[0-9]{4}-W[0-9]{2}"),
    "month": re.compile(r"[0-9]{4}-[0-9]{2}"),
    "time": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z"),
}
_EXAMPLES: Final = {
    "day": "a day such as 2026-11-20",
    "week": "a week such as 2026-W47",
    "month": "a month such as 2026-11",
    "time": "a time such as 2026-11-20T05:00:00Z",
    "text": "a text that is neither a date nor a time",
}
# What the events of Airflow's runs and task instances hold (docs/use/events.md).
_DAYS: Final = ("ds", "data.ds")
_TIMES: Final = tuple(
    f"data.{name}"
    for name in (
        "logical_date",
        "data_interval_start",
        "data_interval_end",
        "run_after",
        "started_at",
        "ended_at",
    )
)


def shape_of(text: str) -> Shape:
    """The shape of a canonical text."""
    return next((name for name, pattern in _TEXTS.items() if pattern.fullmatch(text)), "text")


def known(text: str) -> Shape:
    """The shape of one known canonical text."""
    return f"={text}"


def of_zoned(given: Zoned) -> Shape:
    """The shape of the keys of day(), hour(), week() or month()."""
    if given.name != "hour":
        return given.name
    return "time" if given.zone is None else f"{_HOUR}{given.zone}"


def meet(one: Shape, other: Shape) -> Shape | None:
    """The shape of the keys that fit both shapes; None if no key does."""
    if one in (ANY, other):
        return other
    if other == ANY:
        return one
    if other.startswith("=") or (other.startswith(_HOUR) and not one.startswith(("=", _HOUR))):
        one, other = other, one
    if one.startswith("="):
        return one if _can_be(one[1:], other) else None
    if one.startswith(_HOUR):
        is_met = other == "time" or (other.startswith(_HOUR) and begin_together(_zone(one), _zone(other)))
        return one if is_met else None
    return None


def _can_be(text: str, shape: Shape) -> bool:
    if shape.startswith(_HOUR):
        return shape_of(text) == "time" and begins_an_hour(text, _zone(shape))
    return shape_of(text) == shape


def _zone(shape: Shape) -> str:
    return shape.removeprefix(_HOUR)


def described(shapes: Iterable[Shape]) -> str:
    """The shapes in words, for a message."""
    return " or ".join(map(_described, sorted(shapes)))


def _described(shape: Shape) -> str:
    if shape.startswith("="):
        return quoted(shape[1:])
    if shape.startswith(_HOUR):
        zone = _zone(shape)
        return f"a time at which an hour begins in {zone}, such as {beginning(zone)}"
    return _EXAMPLES[shape]


def shapes_at(path: str, matcher: Matcher) -> Shapes:
    """The shapes of the keys that a matcher can read at a path; empty if it never reads one."""
    read = parse_path(path)
    if read.zoned is not None:
        never = read.zoned.name == "hour" and _shapes_of_value(read.base, matcher) == {"day"}
        return frozenset() if never else frozenset({of_zoned(read.zoned)})
    found = _shapes_of_value(read.base, matcher)
    if not read.offset_ms:
        return found
    whole_days = read.offset_ms % _DAY_MS == 0
    kinds = {shape_of(each[1:]) if each.startswith("=") else each for each in found}
    moved = {"day", "time"} if ANY in kinds else kinds & {"day", "time"}
    return frozenset(moved if whole_days else moved - {"day"})


def check_keys_meet(condition: Condition) -> None:
    """Raises ConditionError if two conditions that must both be met never have the same key."""
    _keys(condition)


def check_key_meets(condition: Condition, key: tuple[Shapes, ...]) -> None:
    """Raises ConditionError if no key that meets the condition can be equal to this one.

    key: the shapes of each of its values.
    """
    if any(_can_equal(each, key) for each in _keys(condition)):
        return
    for matcher in condition.matchers:
        for path, given in zip(_paths(matcher), key, strict=False):
            read = shapes_at(path, matcher)
            if not _overlap(read, given):
                raise ConditionError(
                    f"that is {described(given)}, and by={quoted(path)} of {shortened(matcher)}"
                    f" reads {described(read)}: they are never equal. {_key_to_write(path, read)}"
                )
    raise ConditionError(
        f"that is {', '.join(map(described, key))}: with it {shortened(condition)} is never met"
    )


def _can_equal(own: tuple[Shape, ...], key: tuple[Shapes, ...]) -> bool:
    return len(own) != len(key) or all(_overlap({each}, given) for each, given in zip(own, key, strict=True))


def _overlap(one: Iterable[Shape], other: Iterable[Shape]) -> bool:
    return any(meet(*pair) is not None for pair in product(one, other))


def _key_to_write(path: str, read: Shapes) -> str:
    """What to write as key for a path whose shapes are known."""
    where = parse_path(path)
    if where.zoned is not None:
        zone = f", tz={quoted(where.zoned.zone)}" if where.zoned.zone else ""
        return f'Write key={where.zoned.name}("{{{{ ts }}}}"{zone})'
    of_day = f'by=day({quoted(where.base)}, tz="...") and key=day("{{{{ ts }}}}", tz="...")'
    if "time" in read:
        return f'Write key="{{{{ ts }}}}" for exactly this time, or {of_day} for its day'
    if "day" in read:
        of_day = of_day.replace(quoted(where.base), '"data.logical_date"')
        return f'Write key="{{{{ ds }}}}" for days in UTC, or {of_day}'
    return "Give this value as key, or leave out by= and key"


def _keys(condition: Condition) -> Keys:
    if isinstance(condition, Matcher):
        return _keys_of_matcher(condition)
    parts = [_keys(operand) for operand in condition.operands]
    if isinstance(condition, AnyOf):
        return _limited(frozenset[tuple[Shape, ...]]().union(*parts))
    if isinstance(condition, AtLeast):
        every = frozenset[tuple[Shape, ...]]().union(*parts)
        enough = {each for each in every if sum(bool(_both({each}, part)) for part in parts) >= condition.n}
        return _limited(frozenset(enough)) if enough else _never(condition)
    found = parts[0]
    for part in parts[1:]:
        found = _limited(_both(found, part))
    if not found and isinstance(condition, (AllOf, Sequence)):
        return _never(condition)
    return found


def _keys_of_matcher(matcher: Matcher) -> Keys:
    if matcher.by is None:
        return frozenset({()})  # any key, of any number of values
    paths = (matcher.by,) if isinstance(matcher.by, str) else matcher.by
    shapes = [shapes_at(path, matcher) for path in paths]
    for path, found in zip(paths, shapes, strict=True):
        if not found:
            raise ConditionError(
                f"by={quoted(path)} of {shortened(matcher)} never has a key: a day has no hour, and only"
                " whole days can be added to it"
            )
    return frozenset(product(*shapes))


def _both(one: Iterable[tuple[Shape, ...]], other: Iterable[tuple[Shape, ...]]) -> Keys:
    found = set()
    for left, right in product(one, other):
        if not left or not right:
            found.add(left or right)
            continue
        values = [meet(*pair) for pair in zip(left, right, strict=False)]
        if None not in values:
            found.add(tuple(each for each in values if each is not None))
    return frozenset(found)


def _limited(keys: Keys) -> Keys:
    return keys if len(keys) <= _MAX_KEYS else frozenset({()})


def _never(condition: Condition) -> Keys:
    """Raises ConditionError with two matchers of the condition that never have the same key."""
    keyed = [matcher for matcher in condition.matchers if matcher.by is not None]
    for one, other in combinations(keyed, 2):
        for left, right in zip(_paths(one), _paths(other), strict=False):
            here, there = shapes_at(left, one), shapes_at(right, other)
            if not _overlap(here, there):
                raise ConditionError(
                    f"by={quoted(left)} of {shortened(one)} reads {described(here)}, and by={quoted(right)}"
                    f" of {shortened(other)} reads {described(there)}: these keys are never equal, so nothing"
                    f" meets both. {_advice(left, right)}"
                )
    raise ConditionError(
        f"no key can meet {shortened(condition)}: its matchers read keys of different forms, such as a day"
        " and a time; give each by= the same form"
    )


def _advice(left: str, right: str) -> str:
    zoned = parse_path(left).zoned or parse_path(right).zoned
    name, zone = ("day", ', tz="..."') if zoned is None else (zoned.name, "")
    if zoned is not None and zoned.zone is not None:
        zone = f", tz={quoted(zoned.zone)}"
    bases = dict.fromkeys(parse_path(path).base for path in (left, right))
    written = " and ".join(f"by={name}({quoted(base)}{zone})" for base in bases)
    return f"Let both read the same form, such as {written}"


def _paths(matcher: Matcher) -> tuple[str, ...]:
    return (matcher.by,) if isinstance(matcher.by, str) else matcher.by or ()


def reads_ds(path: str, matcher: Matcher) -> bool:
    """Whether a path reads the `ds` of Airflow's events, which is a day in UTC."""
    return parse_path(path).base in _DAYS and parse_path(path).zoned is None and _is_of_airflow(matcher)


def _shapes_of_value(base: str, matcher: Matcher) -> Shapes:
    fixed = fixed_value(base, matcher)
    if fixed is not None:
        try:
            return frozenset({known(canonical_key(fixed))})
        except ConditionError:
            return frozenset({ANY})
    if base == "time":
        return frozenset({"time", "text"})  # a leap second stays text
    if base in _DAYS and _is_of_airflow(matcher):
        return frozenset({"day"})
    if base in _TIMES and _is_of_airflow(matcher):
        return frozenset({"time"})
    return frozenset({ANY})


def fixed_value(base: str, matcher: Matcher) -> str | int | float | None:
    """The only value that the matcher accepts at a path; None if it may accept several."""
    for name, value in matcher.exact:
        if name == base:
            return value
    if matcher.where is None:
        return None
    path = ("data", *base.removeprefix(DATA).split(".")) if base.startswith(DATA) else ("event", base)
    return matcher.where.equalities.get(path)


def _is_of_airflow(matcher: Matcher) -> bool:
    """True if it accepts only the events of Airflow's runs and task instances."""
    kinds = kinds_of(matcher)
    return bool(kinds) and "other" not in (kinds or ())
