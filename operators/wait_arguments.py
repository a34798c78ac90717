"""Checks the arguments of a wait, mapped or not: a mistake is an import error of the DAG file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import msgspec
from airflow.sdk.definitions.mappedoperator import OperatorPartial
from jinja2.nativetypes import NativeEnvironment

from ..conditions import Condition, ConditionError, canonical_key
from ..conditions.nodes.param import Later, bound, checked_values
from ..conditions.nodes.reachable import check_can_be_met
from ..conditions.nodes.refuted import check_fail_on
from ..conditions.nodes.shapes import check_key_meets, known, shape_of
from ..conditions.nodes.templates import check_templates, is_template
from ..conditions.nodes.zoned import check_zoned_key
from ..conditions.recipes.fail_on import with_fail_on
from ..events.attributes import kind
from ..events.plain_text import plain_text
from ..triggers.argument_checks import MAX_DURATION, ArgumentChecks, described, is_rendered_later
from ..triggers.settings import DEFAULT_CONNECTION
from .key_days import check_days_of_key
from .key_shapes import shapes_of_key
from .time_zone import in_zone_of

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import MappedOperator
    from jinja2 import Environment

OnExpired: TypeAlias = Literal["fail", "skip", "succeed"]

NO_KEY: Final = msgspec.UNSET  # no key was given; None would be a mistake, such as a missing value
RENDERED: Final = ("key", "param_values")
_UNKNOWN: Final = object()  # known only when the task runs
_BLANKS: Final = (
    "white space around a key is part of it, so no event with the key without it would count. Remove it; in "
    "a template of several lines write {%- and -%}, or {{ ... | trim }}."
)


@dataclass(frozen=True)
class WaitArguments:
    """Arguments of EventSensor with their defaults. Values may be unknown until the task runs."""

    condition: Any = None
    fail_on: Any = None
    param_values: Any = None
    key: Any = NO_KEY
    since: Any = None
    lookback: Any = None
    kafka_conn_id: Any = DEFAULT_CONNECTION
    bus: Any = None
    on_expired: Any = "fail"
    deferrable: Any = True
    timeout: Any = None

    def check(
        self,
        who: str,
        rendered: Collection[str] = RENDERED,
        dag: Any = None,
    ) -> None:
        """Raises ConditionError or ValueError with a message that begins with `who`.

        rendered: names of the arguments that Airflow renders when the task runs. dag: of the task, if known.
        """
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        unknown = {name for name, value in given.items() if value is _UNKNOWN}
        checks = ArgumentChecks(who, rendered)
        environment = None if dag is None else dag.get_template_env
        combined = _check_condition(who, self.condition, self.fail_on, self.param_values, environment)
        _check_key(checks, combined, self.key, self.param_values, environment)
        if combined is not None and self.key is not NO_KEY and self.key is not _UNKNOWN:
            values = _values_for_checks(self.condition, self.fail_on, self.param_values, environment)
            _check_key_meets(who, _bound_if_known(self.condition, self.fail_on, values), self.key, dag)
        if "on_expired" not in unknown:
            checks.choice("on_expired", self.on_expired, get_args(OnExpired))
        if "deferrable" not in unknown:
            checks.flag("deferrable", self.deferrable)
            if not self.deferrable:
                raise ValueError(
                    f"{who}: deferrable=False is not supported; waits run in the triggerer, not in a worker "
                    "slot."
                )
        if "kafka_conn_id" not in unknown:
            checks.connection(self.kafka_conn_id)
        if "bus" not in unknown:
            checks.name_of("bus", self.bus)
        if "lookback" not in unknown and self.lookback is not None:
            checks.duration("lookback", self.lookback, timedelta(0), "0")
            if self.since is not None:
                raise ValueError(f"{who}: since and lookback both set the earliest event; give one of them.")
        if "since" not in unknown:
            checks.moment("since", self.since)
        if "timeout" not in unknown:
            check_timeout(who, self.timeout)


_NAMES: Final = tuple(each.name for each in fields(WaitArguments))


def check_timeout(who: str, timeout: Any) -> None:
    """Raises ValueError unless it is None, seconds, or a timedelta."""
    checks = ArgumentChecks(who)
    if timeout is None:
        return
    if isinstance(timeout, timedelta):
        checks.duration("timeout", timeout, timedelta(0), "0")
    elif not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        checks.fail("timeout", timeout, "seconds as a number, or a timedelta")
    elif not 0 <= timeout <= MAX_DURATION.total_seconds():
        checks.fail("timeout", timeout, f"seconds, 0 to {MAX_DURATION.total_seconds():,.0f}")


def bound_arguments(
    condition: Condition, fail_on: Condition | None, values: object
) -> tuple[Condition, Condition | None]:
    """Returns both conditions with the values of their parameters. Raises ConditionError."""
    names = tuple(dict.fromkeys((*condition.params, *(() if fail_on is None else fail_on.params))))
    given = checked_values(names, {} if values is None else values)

    def with_values(one: Condition) -> Condition:
        return bound(one, {name: given[name] for name in one.params})

    return with_values(condition), None if fail_on is None else with_values(fail_on)


def check_rendered_values(who: str, written: object, values: object) -> None:
    """Raises ConditionError if a parameter was rendered to None or "". written: as in the DAG file."""
    if not isinstance(values, Mapping):
        return  # `bound_arguments` says what is wrong
    for name, value in values.items():
        template = written.get(name) if isinstance(written, Mapping) else written
        if value is None or (value in ("None", "") and is_rendered_later(template)):
            raise ConditionError(
                f"{who}: param_values[{name!r}], {_shown(template)}, was rendered to {value!r}: this run has "
                "no such value. Use a value that every run of the DAG has."
            )


def check_rendered_key(who: str, condition: Condition, written: object, key: object) -> None:
    """Raises ConditionError if the rendered key is not usable. written: the key in the DAG file."""
    templated = any(is_template(text) for text in _texts(written))
    empty = ("None", "") if templated else ()
    if any(part is None or part in empty for part in _parts(key)):
        raise ConditionError(
            f"{who}: the key {_shown(written)} was rendered to {key!r}: this run has no such value. Without "
            "a key, events with any key would count, so use a value that every run of the DAG has."
        )
    for part in _parts(key):
        if _has_blanks_around(part):
            raise ConditionError(f"{who}: the key {_shown(written)} was rendered to {part!r}: {_BLANKS}")
    check_key_parts(who, condition, key)


def _has_blanks_around(part: object) -> bool:
    """Returns whether white space makes another key of a day, week, month or time, or a line break of a text.

    Other texts may begin or end with blanks, as in columns of a fixed width.
    """
    if not isinstance(part, str) or part == part.strip() or not part.strip():
        return False
    if part.strip(" ") != part.strip():
        return True
    try:
        return shape_of(canonical_key(part.strip())) != "text"
    except ConditionError:
        return False


def check_key_of_run(who: str, conditions: Sequence[Condition | None], written: object, key: Any) -> None:
    """Raises ConditionError if no event of one of the conditions can have the key of this run."""
    try:
        shapes = tuple(frozenset({known(canonical_key(cast("Any", part)))}) for part in _parts(key))
        for each in conditions:
            if each is not None:
                check_key_meets(each, shapes)
    except ConditionError as e:
        raise ConditionError(f"{who}: the key {_shown(written)} was rendered to {key!r}: {e}") from None


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
        mapped = plain_text(mapped)
        # Each value is checked once, beside the first value of each other argument.
        values = {name: list(_elements(mapped[name])) for name in _NAMES if name in mapped}
        first = self._with({name: each[0] if each else _UNKNOWN for name, each in values.items()})
        self._check(first)
        for name, each in values.items():
            for value in each[1:]:
                self._check({**first, name: value})
        return super().expand(**mapped)

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        self._expand_called = True
        kwargs = plain_text(kwargs)
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
        return {name: in_zone_of(dag, _or_unknown(given[name])) for name in _NAMES if name in given}

    def _check(self, given: Mapping[str, Any]) -> None:
        dag = self.kwargs.get("dag")
        WaitArguments(**given).check(f"EventSensor {self.kwargs['task_id']!r}", dag=dag)


def _check_condition(
    who: str, condition: Any, fail_on: Any, values: Any, environment: Callable[[], Environment] | None
) -> Condition | None:
    """Returns condition and fail_on combined, for checks; None if one of them is unknown."""
    if condition is _UNKNOWN or fail_on is _UNKNOWN:
        return None
    if fail_on is not None and not isinstance(fail_on, Condition):
        raise ConditionError(f"{who}: fail_on is {kind(fail_on)}; give a condition.")
    return check_unbound(ArgumentChecks(who), condition, fail_on, values, environment)


def check_unbound(
    checks: ArgumentChecks,
    condition: Any,
    fail_on: Condition | None,
    values: Any,
    environment: Callable[[], Environment] | None = None,
) -> Condition:
    """Returns condition and fail_on combined, for checks: stand-ins replace values that templates give.

    environment: renders the templates; without it, they may give values of any type. Raises ConditionError
    for something else than a condition, for templates in it, and for values that do not fit its parameters.
    """
    if not isinstance(condition, Condition):
        return checks.condition("condition", condition)  # raises
    try:
        # Templates first: they are also errors of a condition with parameters.
        for each in (condition, fail_on):
            if each is not None:
                check_templates(each)
                check_can_be_met(each)
        given = _values_for_checks(condition, fail_on, values, environment)
        combined = with_fail_on(*bound_arguments(condition, fail_on, given))
        pair = _bound_if_known(condition, fail_on, given)
        for each in pair:
            if each is not None and each not in (condition, fail_on):
                check_can_be_met(each)
        if pair[1] is not None:
            check_fail_on(pair[0], pair[1])
        combined.check()
    except ConditionError as e:
        raise ConditionError(f"{checks.who}: {e}") from None
    return checks.condition("condition", combined)


def _values_for_checks(
    condition: Condition,
    fail_on: Condition | None,
    values: Any,
    environment: Callable[[], Environment] | None,
) -> Any:
    """Returns the values with `Later` for each that only the run has; anything else than a dict as it is."""
    if values is _UNKNOWN or (is_rendered_later(values) and not isinstance(values, str)):
        names = (*condition.params, *(() if fail_on is None else fail_on.params))
        return dict.fromkeys(names, Later())
    if not isinstance(values, Mapping) or not any(map(is_rendered_later, values.values())):
        return values
    # A template gives a text, unless the DAG renders native Python values.
    text = Later(None if environment is None or isinstance(environment(), NativeEnvironment) else str)
    return {
        name: (text if isinstance(value, str) else Later()) if is_rendered_later(value) else value
        for name, value in values.items()
    }


def _bound_if_known(
    condition: Condition, fail_on: Condition | None, given: Any
) -> tuple[Condition, Condition | None]:
    """Returns both conditions with the values of their parameters; unchanged if not all values are known."""
    if not isinstance(given, Mapping) or any(isinstance(value, Later) for value in given.values()):
        return condition, fail_on
    return bound_arguments(condition, fail_on, given)


def _check_key(
    checks: ArgumentChecks,
    combined: Condition | None,
    key: Any,
    values: Any,
    environment: Callable[[], Environment] | None,
) -> None:
    """Raises ConditionError or ValueError for a key that no run could use, as far as it is known.

    combined: condition and fail_on; None if one of them is unknown.
    """
    who = checks.who
    if any(part is None for part in _parts(key)):
        raise ConditionError(
            f"{who}: key is {_listed(key)}, and None is not a key: give a value, or leave key out to accept "
            "any key."
        )
    if isinstance(key, (str, list, tuple)) and not key:
        raise ConditionError(f"{who}: key is empty; give one, or leave it out.")
    try:
        check_zoned_key(key)
    except ConditionError as e:
        raise ConditionError(f"{who}: {e}") from None
    for name, value in (("key", key), ("param_values", values)):
        checks.templates(name, value, environment)
    if key is not NO_KEY and key is not _UNKNOWN and not is_rendered_later(key):
        parts = [part for part in _parts(key) if not is_rendered_later(part)]
        for part in parts:
            if _has_blanks_around(part):
                raise ConditionError(f"{who}: key is {described(part)}: {_BLANKS}")
            try:
                canonical_key(cast("Any", part))
            except ConditionError as e:
                raise ConditionError(f"{who}: key is {described(part)}: {e}") from None
    if combined is None:
        return
    try:
        combined.check_key(key is not NO_KEY)
    except ConditionError as e:
        raise ConditionError(f"{who}: {e}") from None
    is_known = not is_rendered_later(key) or isinstance(key, str)
    if is_known and key is not NO_KEY and key is not _UNKNOWN:
        check_key_parts(who, combined, key)
        if isinstance(key, (list, tuple)) and len(key) == 1:
            raise ConditionError(f"{who}: key is {_listed(key)}; give a single value by itself.")


def _check_key_meets(who: str, conditions: Sequence[Condition | None], key: Any, dag: Any) -> None:
    """Raises ConditionError for a key that fails in each run, or that no event of a condition can have.

    Also for a day in UTC where the condition reads days of another zone.
    """
    try:
        shapes = shapes_of_key(key, dag)
        for each in conditions:
            if each is not None:
                check_key_meets(each, shapes)
                check_days_of_key(each, key, dag)
    except ConditionError as e:
        raise ConditionError(f"{who}: key is {_listed(key)}: {e}") from None


def _listed(key: object) -> str:
    return f"[{', '.join(map(described, key))}]" if isinstance(key, (list, tuple)) else described(key)


def _or_unknown(value: Any) -> Any:
    """Returns _UNKNOWN for another task's output, and any other value, also a template, as it is."""
    return _UNKNOWN if is_rendered_later(value) and not isinstance(value, str) else value


def _elements(mapped: Any) -> Iterator[Any]:
    """Yields the values of the mapped task instances; _UNKNOWN for those that the DAG file does not have."""
    if isinstance(mapped, Mapping):
        mapped = list(mapped.items())
    yield from map(_or_unknown, mapped) if isinstance(mapped, Sequence) else (_UNKNOWN,)


def _parts(key: object) -> Sequence[object]:
    return key if isinstance(key, (list, tuple)) else (key,)


def _texts(key: object) -> list[str]:
    return [part for part in _parts(key) if isinstance(part, str)]


def _shown(key: object) -> str:
    """Returns a key or value as the DAG file has it; of another task's output only its type."""
    return repr(key) if isinstance(key, (str, list, tuple)) else f"from a {type(key).__name__}"
