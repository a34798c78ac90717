"""The filter dialects of CloudEvents Subscriptions: exact, prefix, suffix, all, any, not and sql.

Rules: CloudEvents Subscriptions API 1.0, section "Filter Dialects".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from ...events.attributes import kind, shown
from ...events.event import Event
from ..errors import ConditionError
from .cel.where import Where
from .filter import (
    ACCEPTED,
    MAX_FILTER_DEPTH,
    MAX_FILTER_TERMS,
    Filter,
    FilterDecision,
    arguments,
    check_size,
    checked_pairs,
    is_unicode,
    not_a_filter,
    quoted,
)

if TYPE_CHECKING:
    from .cesql import Expression


@dataclass(frozen=True, init=False, repr=False)
class Comparison(Filter):
    """Compares attributes with values, character by character; true if all agree.

    pairs: ((attribute, value), ...), sorted by attribute. A missing attribute does not agree.
    """

    pairs: tuple[tuple[str, str], ...]
    dialect: ClassVar[str] = ""
    agrees: ClassVar[Callable[[str, str], bool]]

    def __init__(self, attributes: Mapping[str, str] | None = None, /, **named: str) -> None:
        name = type(self).__name__
        if attributes is not None and not isinstance(attributes, Mapping):
            raise ConditionError(f"{name}() got {kind(attributes)}: write {name}(subject=...) or a dict")
        pairs = checked_pairs(name, (*(attributes or {}).items(), *named.items()))
        if not pairs:
            raise ConditionError(
                f"{name}() has no attribute: it would accept every event. Write {name}(subject=...)"
            )
        object.__setattr__(self, "pairs", pairs)
        check_size((self,))

    def accepts(self, event: Event) -> bool:
        attributes, agrees = event.attributes, type(self).agrees
        for name, wanted in self.pairs:
            value = attributes.get(name)
            if value is None or not agrees(value, wanted):
                return False
        return True

    def verdict(self, event: Event) -> FilterDecision:
        for name, wanted in self.pairs:
            value = event.attributes.get(name)
            if value is None or not type(self).agrees(value, wanted):
                term = f"{type(self).__name__}({arguments({name: wanted})})"
                return FilterDecision(False, term=term, attribute=name)
        return ACCEPTED

    def to_json(self) -> dict[str, object]:
        return {self.dialect: dict(self.pairs)}

    @cached_property
    def terms(self) -> int:
        return len(self.pairs)

    def __str__(self) -> str:
        return f"{type(self).__name__}({arguments(dict(self.pairs))})"


class Exact(Comparison):
    """True if each named attribute equals its value: Exact(type="com.shop.order", tenant="bank")."""

    dialect = "exact"
    agrees = str.__eq__


class Prefix(Comparison):
    """True if each named attribute starts with its value: Prefix(subject="orders/")."""

    dialect = "prefix"
    agrees = str.startswith


class Suffix(Comparison):
    """True if each named attribute ends with its value: Suffix(subject=".parquet")."""

    dialect = "suffix"
    agrees = str.endswith


@dataclass(frozen=True, init=False, repr=False)
class FilterGroup(Filter):
    """Joins one or more filters, evaluated in their order; filters with another order are not equal."""

    filters: tuple[Filter, ...]
    dialect: ClassVar[str] = ""

    def __init__(self, *filters: Filter) -> None:
        name = type(self).__name__
        if not filters:
            raise ConditionError(f"{name}() holds no filter: give at least one")
        for number, each in enumerate(filters, 1):
            _check_filter(f"argument {number} of {name}", each)
        object.__setattr__(self, "filters", filters)
        check_size((self,))

    def to_json(self) -> dict[str, object]:
        return {self.dialect: [each.to_json() for each in self.filters]}

    @cached_property
    def terms(self) -> int:
        return 1 + sum(each.terms for each in self.filters)

    @cached_property
    def depth(self) -> int:
        return 1 + max(each.depth for each in self.filters)

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.filters))})"


class All(FilterGroup):
    """True if all filters are true."""

    dialect = "all"

    def accepts(self, event: Event) -> bool:
        return all(each.accepts(event) for each in self.filters)

    def verdict(self, event: Event) -> FilterDecision:
        error: str | None = None
        for each in self.filters:
            verdict = each.verdict(event)
            error = error or verdict.error
            if not verdict.accepted:
                return verdict._replace(error=error)
        return ACCEPTED if error is None else FilterDecision(True, error)


class Any(FilterGroup):
    """True if at least one filter is true."""

    dialect = "any"

    def accepts(self, event: Event) -> bool:
        return any(each.accepts(event) for each in self.filters)

    def verdict(self, event: Event) -> FilterDecision:
        error: str | None = None
        for each in self.filters:
            verdict = each.verdict(event)
            error = error or verdict.error
            if verdict.accepted:
                return ACCEPTED if error is None else FilterDecision(True, error)
        return FilterDecision(False, error, str(self))


@dataclass(frozen=True, init=False, repr=False)
class Not(Filter):
    """True if the filter is false, even if that is due to a missing attribute or an error."""

    filter: Filter

    def __init__(self, filter: Filter, /) -> None:  # noqa: A002  # the dialect's word
        _check_filter("argument of Not", filter)
        object.__setattr__(self, "filter", filter)
        check_size((self,))

    def accepts(self, event: Event) -> bool:
        return not self.filter.accepts(event)

    def verdict(self, event: Event) -> FilterDecision:
        verdict = self.filter.verdict(event)
        if not verdict.accepted:
            return ACCEPTED if verdict.error is None else FilterDecision(True, verdict.error)
        return FilterDecision(False, verdict.error, str(self))

    def to_json(self) -> dict[str, object]:
        return {"not": self.filter.to_json()}

    @cached_property
    def terms(self) -> int:
        return 1 + self.filter.terms

    @cached_property
    def depth(self) -> int:
        return 1 + self.filter.depth

    def __str__(self) -> str:
        return f"Not({self.filter})"


@dataclass(frozen=True, init=False, repr=False)
class Sql(Filter):
    """True if an expression in CloudEvents SQL 1.0 is true, without an error: Sql("INT(level) > 3")."""

    expression: str

    def __init__(self, expression: str, /) -> None:
        if not isinstance(expression, str):
            raise ConditionError(f"Sql() got {kind(expression)}: give the expression as a string")
        if not is_unicode(expression):
            raise ConditionError(f"Sql({shown(expression)}) is not valid Unicode")
        from .cesql import compile  # noqa: A004  # loads the parser, which most conditions never need

        compiled = compile(expression)
        failing = (*compiled.missing, *compiled.errors)
        if failing:
            raise ConditionError(f"Sql({quoted(expression)}) fails on every event: {failing[0]}")
        if "null" in compiled.attributes:
            raise ConditionError(
                f"Sql({quoted(expression)}) reads an attribute called null, because CESQL has no NULL: write"
                " NOT EXISTS subject for a missing attribute, EXISTS subject for one that is there"
            )
        if compiled.never_true and compiled.kind is not bool:
            given = "number" if compiled.kind is int else "string"
            raise ConditionError(f"Sql({quoted(expression)}) gives a {given}, never true: write a comparison")
        if not compiled.attributes:
            raise ConditionError(
                f"Sql({quoted(expression)}) reads no attribute, so it is the same for every event: name one,"
                " as in Sql(\"subject = 'a'\")"
            )
        if compiled.never_true:
            reason = compiled.reason or "its parts exclude each other"
            raise ConditionError(f"Sql({quoted(expression)}) is never true: {reason}")
        object.__setattr__(self, "expression", compiled.source)
        object.__setattr__(self, "_compiled", compiled)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it reads."""
        compiled: Expression = self.__dict__["_compiled"]
        return compiled.attributes

    def verdict(self, event: Event) -> FilterDecision:
        compiled: Expression = self.__dict__["_compiled"]
        result = compiled.evaluate(event.attributes)
        if result.error is not None:
            return FilterDecision(False, result.error, str(self))
        return ACCEPTED if result.value is True else FilterDecision(False, term=str(self))

    def to_json(self) -> dict[str, object]:
        return {"sql": self.expression}

    def __reduce__(self) -> tuple[type[Sql], tuple[str]]:
        return (Sql, (self.expression,))  # only the text; unpickling compiles it again

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:  # cached, because every verdict on a refused event contains it
        return f"Sql({quoted(self.expression)})"


def attributes_of(each: Filter) -> Iterator[str]:
    """Yields the attributes that a filter reads by their names; a Where may read others too."""
    if isinstance(each, Comparison):
        yield from (name for name, _ in each.pairs)
    elif isinstance(each, FilterGroup):
        for part in each.filters:
            yield from attributes_of(part)
    elif isinstance(each, Not):
        yield from attributes_of(each.filter)
    elif isinstance(each, (Sql, Where)):
        yield from sorted(each.attributes or ())


def joined(group: type[FilterGroup], left: Filter, right: Filter) -> Filter:
    """`left & right` or `left | right`; a side that is itself such a group is merged in."""
    sign = "&" if group is All else "|"
    parts: list[Filter] = []
    for side, each in (("left", left), ("right", right)):
        _check_filter(f"{side} side of {sign}", each)
        parts += each.filters if isinstance(each, group) else (each,)
    return group(*parts)


_COMPARISONS: Final[Mapping[str, type[Comparison]]] = {each.dialect: each for each in (Exact, Prefix, Suffix)}
_GROUPS: Final[Mapping[str, type[FilterGroup]]] = {each.dialect: each for each in (All, Any)}
DIALECTS: Final = (*_COMPARISONS, *_GROUPS, "not", "sql")


def filter_from_json(obj: object, path: str = "$") -> Filter:
    """The filter in a parsed JSON object such as {"prefix": {"subject": "orders/"}}.

    Raises only ConditionError, whatever `obj` is; it names the path of the fault.
    """
    return _Reader().read(obj, path, 1)


class _Reader:
    """Reads one tree and counts its terms, so that it stops at the limits."""

    def __init__(self) -> None:
        self._terms = 0

    def read(self, obj: object, path: str, depth: int) -> Filter:
        self._terms += 1
        if self._terms > MAX_FILTER_TERMS:
            raise ConditionError(f"{path}: the filter has more than {MAX_FILTER_TERMS} terms")
        if depth > MAX_FILTER_DEPTH:
            raise ConditionError(f"{path}: the filter is nested more than {MAX_FILTER_DEPTH} levels deep")
        if not isinstance(obj, Mapping) or len(obj) != 1:
            raise ConditionError(f"{path} must be an object with one member: {', '.join(DIALECTS)}")
        dialect, body = next(iter(obj.items()))
        if not isinstance(dialect, str) or dialect not in DIALECTS:
            raise ConditionError(
                f"{path} has the member {shown(dialect)}, which is not a filter dialect: give one of"
                f" {', '.join(DIALECTS)}"
            )
        path = f"{path}.{dialect}"
        if dialect == "not":
            return _built(path, lambda: Not(self.read(body, path, depth + 1)))
        if dialect == "sql":
            return _built(path, lambda: Sql(body))
        comparison = _COMPARISONS.get(dialect)
        if comparison is not None:
            if not isinstance(body, Mapping):
                raise ConditionError(f"{path} is {kind(body)}: give an object")
            return _built(path, lambda: comparison(body))
        if not isinstance(body, (list, tuple)):
            raise ConditionError(f"{path} is {kind(body)}: give a list of filters")
        filters = [self.read(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(body)]
        return _built(path, lambda: _GROUPS[dialect](*filters))


def _built(path: str, build: Callable[[], Filter]) -> Filter:
    try:
        return build()
    except ConditionError as error:
        text = str(error)
        raise ConditionError(text if text.startswith(path) else f"{path}: {text}") from error


def _check_filter(where: str, value: object) -> None:
    if not isinstance(value, Filter):
        raise ConditionError(not_a_filter(where, value))
    if isinstance(value, Where):
        raise ConditionError(
            f"the {where} is a Where, which CloudEvents has no dialect for: write event(where=...) beside"
            " filters, or Sql(...)"
        )
