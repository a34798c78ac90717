"""The time zone of keys that name none: the sensor inserts that of its DAG."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import ConditionError
from .combinations import AtLeast, Count
from .condition import Condition
from .matcher import Matcher
from .zoned import zoned

Paths = str | tuple[str, ...] | None


def in_zone(condition: Condition, zone: str | None) -> Condition:
    """The condition with this zone in its days, hours, weeks and months that name none (K38)."""
    if zone is None or not any(_lacks_zone(path) for path in _paths(condition)):
        return condition
    return _in_zone(condition, zone)


def check_zones(condition: Condition) -> None:
    """Raises ConditionError for a key of a time zone that names none."""
    for path in _paths(condition):
        if _lacks_zone(path):
            name = path.partition("(")[0]
            raise ConditionError(
                f'{path} names no time zone: write {name}("...", tz="Europe/Berlin"). Only an EventSensor'
                " knows one, that of its DAG if it has a name"
            )


def _in_zone(condition: Condition, zone: str) -> Condition:
    if isinstance(condition, Matcher):
        return condition.changed(by=_resolved(condition.by, zone))
    operands = [_in_zone(operand, zone) for operand in condition.operands]
    if isinstance(condition, Count) and isinstance(operands[0], Matcher):
        return Count(operands[0], condition.n, _resolved(condition.distinct, zone))
    if isinstance(condition, AtLeast):
        return AtLeast(condition.n, *operands, distinct=_resolved(condition.distinct, zone))
    return condition.with_operands(*operands)


def _resolved(paths: Paths, zone: str) -> Paths:
    if isinstance(paths, tuple):
        return tuple(_in(path, zone) for path in paths)
    return None if paths is None else _in(paths, zone)


def _in(path: str, zone: str) -> str:
    found = zoned(path)
    return path if found is None or found.zone is not None else found._replace(zone=zone).text


def _lacks_zone(path: str) -> bool:
    found = zoned(path)
    return found is not None and found.zone is None


def _paths(condition: Condition) -> Iterator[str]:
    for paths in (*(matcher.by for matcher in condition.matchers), *condition.distinct_paths.values()):
        if paths is not None:
            yield from (paths,) if isinstance(paths, str) else paths
