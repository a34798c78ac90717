"""The filter: a predicate over one event, which can also name the term that refused it."""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple, NoReturn

from ...events.attributes import is_name, kind, shown
from ...events.event import Event
from ..errors import ConditionError

MAX_VALUE_CHARS: Final = 2048
# For all filters of one matcher together; each attribute of exact, prefix or suffix counts as one.
MAX_FILTER_TERMS: Final = 256
# Low enough for Python's recursion limit, even if the caller is deep in the stack.
MAX_FILTER_DEPTH: Final = 16
_VALUE_HINT: Final = (
    'give a string; booleans and integers of an event are compared as "true", "false" and decimal digits'
)


class FilterDecision(NamedTuple):
    """The decision of a filter on one event, and its reason.

    error: the error in evaluating a part of it; that part counts as false.
    term: the term that refused the event, as Python; None if the event is accepted.
    attribute: the attribute that this term compares; None if it reads several, or data.
    """

    accepted: bool
    error: str | None = None
    term: str | None = None
    attribute: str | None = None


ACCEPTED: Final = FilterDecision(True)


class Filter:
    """A predicate over an event: immutable, hashable, equal by content; `str()` is Python that builds it.

    f & g is All(f, g), f | g is Any(f, g) and ~f is Not(f).
    """

    def accepts(self, event: Event) -> bool:
        """True if the event passes; an error in evaluation means False."""
        return self.verdict(event).accepted

    def verdict(self, event: Event) -> FilterDecision:
        """As `accepts`, with the term that refused the event and any error in evaluation."""
        raise NotImplementedError

    def to_json(self) -> dict[str, object]:
        """The filter in the JSON form of CloudEvents Subscriptions; `filter_from_json` reads it back."""
        raise NotImplementedError

    @cached_property
    def terms(self) -> int:
        """Number of terms; at most MAX_FILTER_TERMS."""
        return 1

    @cached_property
    def depth(self) -> int:
        """Levels of nesting: 1 for a filter that holds no other; at most MAX_FILTER_DEPTH."""
        return 1

    def __and__(self, other: Filter) -> Filter:
        from .dialects import All, joined

        return joined(All, self, other)

    def __or__(self, other: Filter) -> Filter:
        from .dialects import Any, joined

        return joined(Any, self, other)

    def __rand__(self, other: object) -> NoReturn:
        raise ConditionError(not_a_filter("left side of &", other))

    def __ror__(self, other: object) -> NoReturn:
        raise ConditionError(not_a_filter("left side of |", other))

    def __invert__(self) -> Filter:
        from .dialects import Not

        return self.filter if isinstance(self, Not) else Not(self)

    def __bool__(self) -> NoReturn:
        raise ConditionError(
            "a filter is neither true nor false before there is an event: join filters with & and |, and"
            " invert them with ~, not with `and`, `or` and `not`; to test whether one is given, write"
            " `filter is not None`"
        )

    def __repr__(self) -> str:
        return str(self)


def not_a_filter(where: str, value: object) -> str:
    """The error text for something that is not a filter."""
    from ..nodes.condition import Condition

    if isinstance(value, Condition):
        return (
            f"the {where} is a condition, and the other side a filter: put the filter into a matcher,"
            " event(filters=[...]), and join matchers with & and |"
        )
    return (
        f"the {where} is {kind(value)}: give a filter, such as Prefix(subject=...); JSON is read by"
        " filter_from_json"
    )


def check_size(filters: Iterable[Filter], others: int = 0) -> None:
    """Raises ConditionError if the filters, plus `others` more terms, are too many or nested too deep."""
    filters = tuple(filters)
    terms = others + sum(each.terms for each in filters)
    if terms > MAX_FILTER_TERMS:
        raise ConditionError(f"the filters have {terms} terms: at most {MAX_FILTER_TERMS}")
    depth = max((each.depth for each in filters), default=0)
    if depth > MAX_FILTER_DEPTH:
        raise ConditionError(f"the filters are nested {depth} levels deep: at most {MAX_FILTER_DEPTH}")


def checked_pairs(caller: str, pairs: Iterable[tuple[object, object]]) -> tuple[tuple[str, str], ...]:
    """The (attribute, value) pairs by attribute. Raises ConditionError for an invalid name or value."""
    values: dict[str, str] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not is_name(name):
            raise ConditionError(
                f"{caller}({_name_shown(name)}=...) is not the name of an attribute: names have only"
                " lower-case letters a-z and digits"
            )
        if name in values:
            raise ConditionError(
                f"attribute {name[:40]} is filtered twice by {caller}(): give one exact value"
            )
        values[name] = checked_text(caller, name, value, MAX_VALUE_CHARS, _VALUE_HINT)
    return tuple(sorted(values.items()))


def checked_text(caller: str, what: str, value: object, limit: int, hint: str = "give a string") -> str:
    """`value` as str. Raises ConditionError unless it is Unicode text of 1 to `limit` characters.

    hint: what to give if the value is not a string.
    """
    if not isinstance(value, str):
        raise ConditionError(f"{caller}({what}=...) is {kind(value)}: {hint}")
    if not value:
        raise ConditionError(f"{caller}({what}='') is empty: leave it out or give a value")
    if len(value) > limit:
        raise ConditionError(f"{caller}({what}=...) has {len(value)} characters: at most {limit}")
    if not is_unicode(value):
        raise ConditionError(f"{caller}({what}={shown(value)}) is not valid Unicode")
    return str.__str__(value)


def is_unicode(text: str) -> bool:
    """False for a text with a lone surrogate, which UTF-8 cannot encode."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def arguments(pairs: Mapping[str, str]) -> str:
    """`pairs` as the arguments of a call: keywords, or one dict if a name cannot be a keyword."""
    if all(is_keyword_name(name) for name in pairs):
        return ", ".join(f"{name}={quoted(value)}" for name, value in pairs.items())
    return "{" + ", ".join(f"{quoted(name)}: {quoted(value)}" for name, value in pairs.items()) + "}"


def is_keyword_name(name: str) -> bool:
    """True if an attribute's name can be a keyword argument in Python: not `class`, not `1st`."""
    return name.isidentifier() and not keyword.iskeyword(name)


def quoted(text: str) -> str:
    """`text` as a Python literal, in double quotes if it is printable."""
    # for printable texts, JSON's escapes are also Python's
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def _name_shown(name: object) -> str:
    return name[:40] if isinstance(name, str) else shown(name)
