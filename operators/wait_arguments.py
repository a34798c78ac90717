"""The arguments of a wait: what is wrong with them is an error of the DAG file, mapped or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgspec
from airflow.sdk import XComArg
from airflow.sdk.definitions.mappedoperator import OperatorPartial

from ..conditions import Condition, ConditionError, from_json
from ..conditions.recipes.fail_on import with_fail_on

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import MappedOperator

OnExpired: TypeAlias = Literal["fail", "skip", "succeed"]

NO_KEY: Final = msgspec.UNSET  # no key was given; None is one that somebody took from somewhere
_NOT_KNOWN: Final = object()  # until the task runs
_DEFAULTS: Final[Mapping[str, Any]] = {
    "condition": None,
    "fail_on": None,
    "key": NO_KEY,
    "since": None,
    "lookback": None,
    "on_expired": "fail",
    "deferrable": True,
}


def check(
    who: str,
    *,
    condition: Any,
    fail_on: Any,
    key: Any,
    since: Any,
    lookback: Any,
    on_expired: Any,
    deferrable: Any,
) -> None:
    """ConditionError or ValueError, with a sentence that begins with `who`."""
    whole = _check_condition(who, condition, fail_on)
    _check_key(who, whole, key)
    if on_expired not in (*get_args(OnExpired), _NOT_KNOWN):
        choices = ", ".join(map(repr, get_args(OnExpired)))
        raise ValueError(f"{who}: on_expired is {on_expired!r}; give one of {choices}.")
    if not deferrable:
        raise ValueError(
            f"{who}: deferrable=False is not supported; it waits in the triggerer and holds no worker slot."
        )
    _check_lookback(who, lookback, since)
    if since is None or since is _NOT_KNOWN:
        return
    if not isinstance(since, datetime):
        raise ValueError(
            f"{who}: since is a value of type {type(since).__name__}; give an aware "
            "datetime. It is not templated."
        )
    if since.tzinfo is None:
        raise ValueError(f"{who}: since={since} has no time zone; give one.")


def _check_lookback(who: str, lookback: Any, since: Any) -> None:
    if lookback is None or lookback is _NOT_KNOWN:
        return
    if not isinstance(lookback, timedelta) or lookback < timedelta(0):
        raise ValueError(f"{who}: lookback is {lookback!r}; give a timedelta, 0 or more.")
    if since is not None:
        raise ValueError(f"{who}: since says where the looking back ends, so give it or lookback, not both.")


def check_rendered_key(who: str, condition: Condition, written: object, key: object) -> None:
    """ConditionError for what a key must not be rendered to. written: as it stands in the DAG file."""
    templated = any("{{" in text or "{%" in text for text in _texts(written))
    empty = ("None", "") if templated else ()
    if any(part is None or part in empty for part in _parts(key)):
        raise ConditionError(
            f"{who}: the key {_shown(written)} was rendered to {key!r}: this run has nothing there. Without "
            "a key events of any key would count, so give one that every run of the DAG has."
        )
    check_key_parts(who, condition, key)


def check_key_parts(who: str, condition: Condition, key: object) -> None:
    """ConditionError unless the key has as many values as the matchers read."""
    given = len(key) if isinstance(key, (list, tuple)) else 1
    if given != condition.key_parts:
        raise ConditionError(
            f"{who}: key has {given} value(s), and the matchers read {condition.key_parts}: give a list with"
            " one for each path in by=, in their order."
        )


class CheckedPartial(OperatorPartial):
    """What `EventSensor.partial()` gives. Airflow makes no operator of it before the task runs, and so
    checks names only; here `expand` and `expand_kwargs` check the values that stand in the DAG file.
    """

    __slots__ = ()

    def expand(self, **mapped: Any) -> MappedOperator:
        self._expand_called = True  # else an error would come with a warning that it was not
        values = {name: list(_elements(mapped[name])) for name in _DEFAULTS if name in mapped}
        first = self._with({name: each[0] if each else _NOT_KNOWN for name, each in values.items()})
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
        """All arguments of a wait, as Airflow will put them together."""
        given: dict[str, Any] = dict(_DEFAULTS)
        for where in (self.kwargs.get("dag"), self.kwargs.get("task_group")):
            given.update(getattr(where, "default_args", None) or {})
        given.update(self.kwargs)
        given.update(mapped)
        return {name: _known(given[name]) for name in _DEFAULTS}

    def _check(self, given: Mapping[str, Any]) -> None:
        check(f"EventSensor {self.kwargs['task_id']!r}", **given)


def _check_condition(who: str, condition: Any, fail_on: Any) -> Condition | None:
    """Both as one, if they are known."""
    if condition is _NOT_KNOWN:
        return None
    if not isinstance(condition, Condition):
        raise ConditionError(
            f"{who}: condition must be made with interlock.event() and its like, or "
            "with Condition.parse() from a text, or Condition.from_json() from JSON; got "
            f"{type(condition).__name__}."
        )
    if fail_on is _NOT_KNOWN:
        return None
    if fail_on is not None and not isinstance(fail_on, Condition):
        raise ConditionError(f"{who}: fail_on must be a condition too; got {type(fail_on).__name__}.")
    whole = with_fail_on(condition, fail_on)
    # A condition travels to the engine as JSON: what would not come back equal is an error here.
    if from_json(whole.to_json()) != whole:
        raise ConditionError(
            f"{who}: the condition does not survive being written as JSON. "
            "Build it with the names of interlock.conditions only."
        )
    return whole


def _check_key(who: str, whole: Condition | None, key: Any) -> None:
    if any(part is None for part in _parts(key)):
        raise ConditionError(
            f"{who}: key is {key!r}, and None is no key: give a value. To take events of any key, leave key "
            "out."
        )
    if isinstance(key, (str, list, tuple)) and not key:
        raise ConditionError(f"{who}: key is empty; give one, or leave it out.")
    if whole is None:
        return
    try:
        whole.check_key(key is not NO_KEY)
    except ConditionError as e:
        raise ConditionError(f"{who}: {e}") from None
    if isinstance(key, (str, list, tuple)):  # anything else is rendered first, such as an XComArg
        check_key_parts(who, whole, key)


def _known(value: Any) -> Any:
    return _NOT_KNOWN if isinstance(value, XComArg) else value


def _elements(mapped: Any) -> Iterator[Any]:
    """What Airflow makes a task instance of each, as far as it stands in the DAG file."""
    if isinstance(mapped, Mapping):
        mapped = list(mapped.items())
    yield from map(_known, mapped) if isinstance(mapped, Sequence) else (_NOT_KNOWN,)


def _parts(key: object) -> Sequence[object]:
    return key if isinstance(key, (list, tuple)) else (key,)


def _texts(key: object) -> list[str]:
    return [part for part in _parts(key) if isinstance(part, str)]


def _shown(key: object) -> str:
    return repr(key) if isinstance(key, (str, list, tuple)) else f"of a {type(key).__name__}"
