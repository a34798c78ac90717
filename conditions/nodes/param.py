"""Parameters of a condition: values that are known only when a run starts to wait.

`event(subject=param("customer"))` and `where="data.customer == param.customer"` name one. `bound` gives the
condition with values. Until then it cannot be evaluated and has no JSON form, so no engine ever gets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from ...events.attributes import is_name, shown
from ...events.event import Event
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from ..filters.cel.parameters import literal, references, substituted
from ..filters.cel.where import MAX_SOURCE_CHARS, Where, compiled_with_parameters
from ..filters.filter import MAX_VALUE_CHARS, Filter, FilterDecision, checked_text

if TYPE_CHECKING:
    from .condition import Condition

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KINDS: Final = (str, int, bool)


class Later(NamedTuple):
    """Stands for a value that only the run knows. kind: its type, None if that is not known either."""

    kind: type | None = None


@dataclass(frozen=True, repr=False)
class Param:
    """A parameter in the place of an attribute's value; `param()` makes it."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or _NAME.fullmatch(self.name) is None:
            raise ConditionError(
                f"param({shown(self.name)}): give a name of letters, digits and _, as of a variable"
            )

    def __str__(self) -> str:
        return f'param("{self.name}")'

    def __repr__(self) -> str:
        return str(self)

    def __format__(self, spec: str) -> NoReturn:
        self._refuse()

    def __add__(self, other: object) -> NoReturn:
        self._refuse()

    __radd__ = __add__

    def _refuse(self) -> NoReturn:
        raise ConditionError(
            f"{self!s} cannot be a part of a text, because its value is not known yet: give the whole text as"
            " the parameter's value"
        )


@takes_plain_text
def param(name: str) -> Param:
    """A value that the waiting task gives, for an attribute: event(subject=param("customer")).

    The task has the values: EventSensor(param_values={"customer": "{{ dag_run.conf['customer'] }}"}). In
    `where` the same parameter is written `param.customer`. name: letters, digits and _, as in Python.
    """
    return Param(name)


@dataclass(frozen=True, repr=False)
class ParamExact(Filter):
    """True if an attribute equals the value of a parameter; refuses every event until it is bound."""

    attribute: str
    param: str

    def __post_init__(self) -> None:
        if not is_name(self.attribute):
            raise ConditionError(
                f"event({self.attribute[:40]}=...) is not the name of an attribute: names have only"
                " lower-case letters a-z and digits"
            )

    @property
    def argument(self) -> str:
        """The argument of event() that makes it."""
        return f"{self.attribute}={Param(self.param)!s}"

    def verdict(self, event: Event) -> FilterDecision:  # noqa: ARG002
        return FilterDecision(False, without_value([self.param]), self.argument, self.attribute)

    def to_json(self) -> dict[str, object]:
        raise ConditionError(without_value([self.param]))

    def __str__(self) -> str:
        return f"event({self.argument})"


class ParamWhere(Where):
    """A predicate that reads parameters as `param.name`; refuses every event until it is bound."""

    @property
    def params(self) -> tuple[str, ...]:
        """The parameters that it reads, each once."""
        return references(self.source)

    def __init__(self, source: str, /) -> None:
        text = checked_text("event", "where", source, MAX_SOURCE_CHARS, "give a predicate in CEL")
        names = references(text)
        for name in names:
            Param(name)
        program = compiled_with_parameters(text, dict.fromkeys(names, _KINDS))
        program.check_new(text)
        object.__setattr__(self, "source", text)
        object.__setattr__(self, "_program", program)

    def bound(self, values: Mapping[str, object]) -> Where:
        """The predicate with the values as literals of CEL, which keep their type.

        If some are known later, only the types are checked. The result is then a placeholder: it accepts any
        event, and differs from that of any other predicate.
        """
        given = {name: values[name] for name in self.params}
        if not any(isinstance(value, Later) for value in given.values()):
            return Where.stored(substituted(self.source, given))
        compiled_with_parameters(self.source, {name: _kinds(value) for name, value in given.items()})
        return Where.stored(f"event.id != {literal(self.source)}")

    def verdict(self, event: Event) -> FilterDecision:  # noqa: ARG002
        return self._refused(without_value(self.params))

    def to_json(self) -> dict[str, object]:
        raise ConditionError(without_value(self.params))

    def __reduce__(self) -> tuple[Callable[[str], Where], tuple[str]]:
        return (ParamWhere, (self.source,))


def _kinds(value: object) -> tuple[type, ...]:
    if isinstance(value, Later):
        return _KINDS if value.kind is None else (value.kind,)
    return (bool if isinstance(value, bool) else int if isinstance(value, int) else str,)


def where_of(source: str) -> Where:
    """The predicate of a text in CEL, which may read parameters."""
    if "param" not in source or not references(source):
        return Where(source)
    try:
        return Where(source)  # `param` may be the variable of a loop
    except ConditionError:
        return ParamWhere(source)


def without_value(names: Iterable[str]) -> str:
    """The error text for parameters that have no value."""
    names = list(names)
    listed = ", ".join(names)
    given = ", ".join(f'"{name}": "..."' for name in names)
    return (
        f"the condition has parameters without a value: {listed}. Give the task param_values={{{given}}}, or"
        f" write condition.bind({', '.join(f'{name}=...' for name in names)})"
    )


def checked_values(names: Sequence[str], values: object) -> Mapping[str, object]:
    """The values if there is one for each parameter, and no other; their types are not checked."""
    if not isinstance(values, Mapping):
        raise ConditionError(
            f"param_values is {shown(values)}: give a dict {{parameter: value}} for the parameters of the"
            f" condition, {', '.join(names) or 'which has none'}"
        )
    if unknown := [shown(name, 40) for name in values if name not in names]:
        has = f"its parameters are {', '.join(names)}" if names else "it has no parameters"
        raise ConditionError(
            f"param_values has {', '.join(unknown)}, which the condition does not read: {has}. Write"
            ' event(subject=param("name")), or where="data.x == param.name"'
        )
    if missing := [name for name in names if name not in values]:
        raise ConditionError(without_value(missing))
    return values


def bound(condition: Condition, values: Mapping[str, object]) -> Condition:
    """The condition with the values of its parameters; labels stay as they are.

    values: texts, whole numbers or bools, one for each parameter. Raises ConditionError for another name, a
    missing one, or a value that a matcher cannot have. With `Later` as a value the result is for checks only.
    """
    from .retention import replaced

    checked_values(condition.params, values)
    texts = {name: _text(name, values[name]) for name in condition.params}
    changed = {
        matcher: matcher.bound(texts, values, label)
        for matcher, label in zip(condition.matchers, condition.labels, strict=True)
        if matcher.params
    }
    return replaced(condition, changed) if changed else condition


def _text(name: str, value: object) -> str:
    if isinstance(value, Later):
        return "x"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() <= 64:
        return str(int(value))
    if isinstance(value, (float, Decimal)):
        raise ConditionError(
            f'parameter {name} is {shown(value)}: give it as text, "{value}", and compare it in where= as'
            f" double(param.{name})"
        )
    if not isinstance(value, str):
        raise ConditionError(f"parameter {name} is {shown(value)}: give a text, a whole number or a bool")
    if "\0" in value:
        raise ConditionError(f"parameter {name} is {shown(value)}: give a text without NUL")
    return checked_text("param", name, value, MAX_VALUE_CHARS)
