"""Checks of what an author gives to operators and triggers: a mistake is an import error of the DAG file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, get_args

from jinja2 import TemplateAssertionError, TemplateSyntaxError

from ..conditions import Condition, ConditionError, from_json
from ..conditions.nodes.reachable import check_can_be_met
from ..conditions.nodes.templates import check_templates, is_template
from ..conditions.nodes.zoned import is_zoned
from ..engine.config import is_valid_name
from ..engine.records import AtLimit
from ..events.attributes import kind, shown
from .removed_names import instead_of_removed

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_KEYS: Final = 10_000_000
MAX_DURATION: Final = timedelta(days=36_525)  # a century
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)
MAX_DELIVERY_S: Final = 2_000_000  # librdkafka's limit is 2**31 ms


class ArgumentChecks:
    """Checks the arguments of one call. Each check raises a ValueError that says what to give instead.

    who: the call, such as "EventSensor 'ready'". rendered: names of the arguments that Airflow renders, whose
    templates and outputs of other tasks have no value yet.
    """

    def __init__(self, who: str, rendered: Collection[str] = ()) -> None:
        self.who, self._rendered = who, rendered

    def fail(self, name: str, value: object, give: str) -> NoReturn:
        hint = ""
        if is_rendered_later(value) and name not in self._rendered:
            hint = " It is not templated, and cannot be the output of another task."
        raise ValueError(f"{self.who}: {name} is {described(value)}; give {give}.{hint}")

    def refuse(self, name: str, template: str, give: str) -> NoReturn:
        """As `fail` without its hint: for a template in an argument that Airflow renders."""
        raise ValueError(f"{self.who}: {name} is {described(template)}; give {give}.")

    def is_unknown(self, name: str, value: object) -> bool:
        """Returns whether the value is known only when the task runs."""
        return name in self._rendered and is_rendered_later(value)

    def text(
        self,
        name: str,
        value: object,
        give: str,
        *,
        none: bool = False,
        most: int = 1000,
        empty: bool = False,
    ) -> None:
        """A non-empty text that a database can hold. none: None is allowed; empty: the empty text too."""
        if (value is None and none) or self.is_unknown(name, value):
            return
        if not isinstance(value, str) or is_template(value) or not (value or empty):
            self.fail(name, value, give)
        if len(value) > most:
            self.fail(name, f"{value[:40]}...", f"{give}, with at most {most:,} characters")
        if "\0" in value or not _is_unicode(value):
            self.fail(name, value, f"{give}, without NUL and lone surrogates")

    def templates(self, name: str, value: object, environment: Callable[[], Environment] | None) -> None:
        """Checks that Jinja can compile each template in the value.

        environment: creates the Jinja environment of the task's DAG, which may add filters; None if the DAG
        is not known yet.
        """
        try:
            names, texts = list(_template_names(value)), list(templates_in(value))
        except RecursionError:
            self.fail(name, value, "a value that does not hold itself")
        if names:
            self.refuse(name, names[0], "the names in a dict as fixed texts: Airflow renders only its values")
        for text in texts:
            if name != "key" and is_zoned(text):  # only the key of a wait computes `day()` and the others
                self.refuse(
                    name,
                    text,
                    "what Airflow renders, such as {{ logical_date.in_timezone('Europe/Berlin') | ds }};"
                    " day(), hour(), week() and month() are for by=, distinct= and the key of a wait",
                )
            error = _plain_compile_error(text)
            if error is not None and environment is not None:
                error = _compile_error(environment(), text)  # the DAG may have filters, tests and extensions
            elif error is not None and error.unknown_name:
                error = None
            if error is not None:
                self.refuse(name, text, f"a template that Jinja can read ({error.reason})")
            instead = None if environment is None else instead_of_removed(text, environment)
            if instead is not None:
                self.refuse(name, text, instead)

    def connection(self, kafka_conn_id: object) -> None:
        self.text("kafka_conn_id", kafka_conn_id, "the id of an Airflow connection of type kafka", most=250)

    def name_of(self, name: str, value: object, *, none: bool = True) -> None:
        """The name of a bus or deployment."""
        give = "a name of letters, digits, '.', '_' and '-', at most 100"
        self.text(name, value, give, none=none)
        if isinstance(value, str) and not self.is_unknown(name, value) and not is_valid_name(value):
            self.fail(name, value, give)

    def whole_number(self, name: str, value: object, least: int, most: int) -> None:
        if self.is_unknown(name, value):
            return
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fail(name, value, f"a whole number, {least} or more")
        if value > most:
            self.fail(name, value, f"a whole number, at most {most:,}")

    def seconds(self, name: str, value: object, most: float) -> None:
        """A number of seconds above 0."""
        if self.is_unknown(name, value):
            return
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not 0 < value <= most:  # type: ignore[operator]
            self.fail(name, value, f"seconds as a number, above 0 and at most {most:,.0f}")

    def duration(self, name: str, value: object, least: timedelta, least_text: str) -> None:
        if self.is_unknown(name, value):
            return
        if not isinstance(value, timedelta) or value < least:
            self.fail(name, value, f"a timedelta, {least_text} or more")
        if value > MAX_DURATION:
            self.fail(name, value, f"a timedelta of at most {MAX_DURATION.days:,} days")

    def moment(self, name: str, value: object) -> None:
        """None, or a datetime with a time zone."""
        if value is None or self.is_unknown(name, value):
            return
        if not isinstance(value, datetime):
            self.fail(name, value, "a datetime with a time zone")
        if value.utcoffset() is None:
            raise ValueError(
                f"{self.who}: {name}={value} has no time zone; give a datetime with a time zone."
            )
        if not _FIRST <= value <= _LAST:
            self.fail(name, value, "a datetime of the years 1970 to 9998")

    def flag(self, name: str, value: object) -> None:
        if not self.is_unknown(name, value) and not isinstance(value, bool):
            self.fail(name, value, "True or False")

    def choice(self, name: str, value: object, choices: Sequence[str]) -> None:
        if self.is_unknown(name, value):
            return
        if not isinstance(value, str) or value not in choices:
            self.fail(name, value, f"one of {', '.join(map(repr, choices))}")

    def limits(self, max_keys: object, at_limit: object) -> None:
        """The limits of a durable subscription."""
        self.whole_number("max_keys", max_keys, 1, MAX_KEYS)
        self.choice("at_limit", at_limit, get_args(AtLimit))

    def delivery_timeout(self, value: object) -> None:
        self.seconds("delivery_timeout", value, MAX_DELIVERY_S)

    def can_be_met(self, condition: Condition) -> None:
        """Raises ConditionError for a condition that no events can meet."""
        try:
            check_can_be_met(condition)
        except ConditionError as e:
            raise ConditionError(f"{self.who}: {e}") from None

    def condition(self, name: str, value: object) -> Condition:
        """Returns the condition. Raises ConditionError if it has a template, or if JSON changes it.

        Its parameters must be bound.
        """
        if not isinstance(value, Condition):
            raise ConditionError(
                f"{self.who}: {name} is {kind(value)}; build it with interlock.event() and other "
                "functions of interlock, Condition.parse() or Condition.from_json()."
            )
        try:
            check_templates(value)
            same = from_json(value.to_json()) == value
        except ConditionError as e:
            raise ConditionError(f"{self.who}: {e}") from None
        if not same:
            raise ConditionError(
                f"{self.who}: the condition changes when it is written as JSON and read again. Build it only "
                "with the names of interlock.conditions."
            )
        return value


def is_rendered_later(value: object) -> bool:
    """Returns whether Airflow would replace the value: a template, or what another task or run gives."""
    if isinstance(value, str):
        return is_template(value)
    return callable(getattr(value, "resolve", None)) and callable(getattr(value, "iter_references", None))


def templates_in(value: object) -> Iterator[str]:
    """Yields the templates in a value that Airflow renders."""
    if isinstance(value, str):
        if is_template(value):
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from templates_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from templates_in(each)


def _template_names(value: object) -> Iterator[str]:
    """Yields the templates among the names of dicts, which Airflow does not render."""
    if isinstance(value, Mapping):
        yield from (name for name in value if isinstance(name, str) and is_template(name))
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _template_names(each)


class _TemplateError(NamedTuple):
    """Why Jinja cannot compile a template.

    unknown_name: whether it names an unknown filter or test, which the DAG may have.
    """

    reason: str
    unknown_name: bool


@lru_cache(1000)
def _plain_compile_error(text: str) -> _TemplateError | None:
    """As `_compile_error`, for a DAG without filters and extensions of its own."""
    return _compile_error(_plain_jinja(), text)


def _compile_error(environment: Environment, text: str) -> _TemplateError | None:
    """Returns why Jinja cannot compile the template; None if it can."""
    try:
        environment.compile(text)
    except TemplateSyntaxError as e:
        return _TemplateError(str(e.message), isinstance(e, TemplateAssertionError))
    except (SyntaxError, RecursionError, MemoryError, OverflowError) as e:  # of the code that Jinja makes
        return _TemplateError(f"{type(e).__name__}: {e}", False)
    return None


@cache
def _plain_jinja() -> Environment:
    from airflow.sdk import DAG

    return DAG("of_templates", schedule=None).get_template_env()


def described(value: object) -> str:
    """Returns the value for a message; only its type if the value may be long."""
    if isinstance(value, (timedelta, datetime)):
        return repr(value)[:120]
    return shown(value)


def without_outputs(value: Any) -> Any:
    """Returns the value with None in place of each output of another task. Texts stay, also templates."""
    if not isinstance(value, str) and is_rendered_later(value):
        return None
    if isinstance(value, Mapping):
        return {name: without_outputs(each) for name, each in value.items()}
    return [without_outputs(each) for each in value] if isinstance(value, (list, tuple)) else value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
