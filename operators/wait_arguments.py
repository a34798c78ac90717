"""Checks the arguments of a wait, mapped or not: a mistake is an import error of the DAG file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgspec
from airflow.sdk import XComArg
from airflow.sdk.definitions.mappedoperator import OperatorPartial

from ..conditions import Condition, ConditionError, from_json
from ..conditions.nodes.zoned import check_zoned_key
from ..conditions.recipes.fail_on import with_fail_on
from .time_zone import in_zone_of

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import MappedOperator

OnExpired: TypeAlias = Literal["fail", "skip", "succeed"]

NO_KEY: Final = msgspec.UNSET  # no key was given; None would be a mistake, such as a missing value
_UNKNOWN: Final = object()  # known only when the task runs


@dataclass(frozen=True)
class WaitArguments:
    """Arguments of EventSensor with their defaults. Values may be unknown until the task runs."""

    condition: Any = None
    fail_on: Any = None
    key: Any = NO_KEY
    since: Any = None
    lookback: Any = None
    on_expired: Any = "fail"
    deferrable: Any = True

    def check(self, who: str) -> None:
        """Raises ConditionError or ValueError with a message that begins with `who`."""
        whole = _check_condition(who, self.condition, self.fail_on)
        _check_key(who, whole, self.key)
        if self.on_expired not in (*get_args(OnExpired), _UNKNOWN):
            choices = ", ".join(map(repr, get_args(OnExpired)))
            raise ValueError(f"{who}: on_expired is {self.on_expired!r}; give one of {choices}.")
        if not self.deferrable:
            raise ValueError(
                f"{who}: deferrable=False is not supported; waits run in the triggerer, not in a worker slot."
            )
        _check_lookback(who, self.lookback, self.since)
        _check_since(who, self.since)


_NAMES: Final = tuple(each.name for each in fields(WaitArguments))


def _check_since(who: str, since: Any) -> None:
    if since is None or since is _UNKNOWN:
        return
    if not isinstance(since, datetime):
        raise ValueError(
            f"{who}: since is a value of type {type(since).__name__}; give an aware "
            "datetime. It is not templated."
        )
    if since.tzinfo is None:
        raise ValueError(f"{who}: since={since} has no time zone; give one.")


def _check_lookback(who: str, lookback: Any, since: Any) -> None:
    if lookback is None or lookback is _UNKNOWN:
        return
    if not isinstance(lookback, timedelta) or lookback < timedelta(0):
        raise ValueError(f"{who}: lookback is {lookback!r}; give a timedelta, 0 or more.")
    if since is not None:
        raise ValueError(f"{who}: since and lookback both set the earliest event; give one of them.")


def check_rendered_key(who: str, condition: Condition, written: object, key: object) -> None:
    """Raises ConditionError if the rendered key is not usable. written: the key in the DAG file."""
    templated = any("{{" in text or "{%" in text for text in _texts(written))
    empty = ("None", "") if templated else ()
    if any(part is None or part in empty for part in _parts(key)):
        raise ConditionError(
            f"{who}: the key {_shown(written)} was rendered to {key!r}: this run has no such value. Without "
            "a key, events with any key would count, so use a value that every run of the DAG has."
        )
    check_key_parts(who, condition, key)


def check_key_parts(who: str, condition: Condition, key: object) -> None:
    """Raises ConditionError unless the key has as many values as the matchers read."""
    given = len(key) if isinstance(key, (list, tuple)) else 1
    if given != condition.key_parts:
        raise ConditionError(
            f"{who}: key has {given} value(s), and the matchers read {condition.key_parts}: give a list with"
            " one value for each path in by=, in the same order."
        )


class CheckedPartial(OperatorPartial):
    """The result of `EventSensor.partial()`.

    Airflow creates the operator only when the task runs, and checks only names before. Here `expand` and
    `expand_kwargs` also check the values in the DAG file.
    """

    __slots__ = ()

    def expand(self, **mapped: Any) -> MappedOperator:
        self._expand_called = True  # otherwise Airflow warns about it when the check raises
        values = {name: list(_elements(mapped[name])) for name in _NAMES if name in mapped}
        first = self._with({name: each[0] if each else _UNKNOWN for name, each in values.items()})
        self._check(first)
        for name, each in values.items():
            for value in each[1:]:
                self._check({**first, name: value})
        return super().expand(**mapped)

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        self._expand_called = True
        if isinstance(kwargs, Sequence):
            for given in kwargs:
                if isinstance(given, Mapping):
                    self._check(self._with(given))
        return super().expand_kwargs(kwargs, strict=strict)

    def _with(self, mapped: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all arguments of a wait, merged as Airflow will merge them."""
        given: dict[str, Any] = {}
        for where in (self.kwargs.get("dag"), self.kwargs.get("task_group")):
            given.update(getattr(where, "default_args", None) or {})
        given.update(self.kwargs)
        given.update(mapped)
        dag = self.kwargs.get("dag")
        return {name: in_zone_of(dag, _known(given[name])) for name in _NAMES if name in given}

    def _check(self, given: Mapping[str, Any]) -> None:
        WaitArguments(**given).check(f"EventSensor {self.kwargs['task_id']!r}")


def _check_condition(who: str, condition: Any, fail_on: Any) -> Condition | None:
    """Returns condition and fail_on combined; None if one of them is unknown."""
    if condition is _UNKNOWN:
        return None
    if not isinstance(condition, Condition):
        raise ConditionError(
            f"{who}: condition is a {type(condition).__name__}; build it with interlock.event() and other "
            "functions of interlock, Condition.parse() or Condition.from_json()."
        )
    if fail_on is _UNKNOWN:
        return None
    if fail_on is not None and not isinstance(fail_on, Condition):
        raise ConditionError(f"{who}: fail_on is a {type(fail_on).__name__}; give a condition.")
    whole = with_fail_on(condition, fail_on)
    # The engine reads the condition from JSON, so it must be equal after a round trip.
    if from_json(whole.to_json()) != whole:
        raise ConditionError(
            f"{who}: the condition changes when it is written as JSON and read again. Build it only with "
            "the names of interlock.conditions."
        )
    return whole


def _check_key(who: str, whole: Condition | None, key: Any) -> None:
    if any(part is None for part in _parts(key)):
        raise ConditionError(
            f"{who}: key is {key!r}, and None is not a key: give a value, or leave key out to accept any key."
        )
    if isinstance(key, (str, list, tuple)) and not key:
        raise ConditionError(f"{who}: key is empty; give one, or leave it out.")
    try:
        check_zoned_key(key)
    except ConditionError as e:
        raise ConditionError(f"{who}: {e}") from None
    if whole is None:
        return
    try:
        whole.check_key(key is not NO_KEY)
    except ConditionError as e:
        raise ConditionError(f"{who}: {e}") from None
    if isinstance(key, (str, list, tuple)):  # anything else, such as an XComArg, is rendered first
        check_key_parts(who, whole, key)


def _known(value: Any) -> Any:
    return _UNKNOWN if isinstance(value, XComArg) else value


def _elements(mapped: Any) -> Iterator[Any]:
    """Yields the values of the mapped task instances as far as the DAG file has them."""
    if isinstance(mapped, Mapping):
        mapped = list(mapped.items())
    yield from map(_known, mapped) if isinstance(mapped, Sequence) else (_UNKNOWN,)


def _parts(key: object) -> Sequence[object]:
    return key if isinstance(key, (list, tuple)) else (key,)


def _texts(key: object) -> list[str]:
    return [part for part in _parts(key) if isinstance(part, str)]


def _shown(key: object) -> str:
    return repr(key) if isinstance(key, (str, list, tuple)) else f"of a {type(key).__name__}"
