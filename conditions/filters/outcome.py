"""What a filter says of every event with some known attributes: true, false, or it depends on the event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...events.attributes import CORE
from .cel.where import Where
from .dialects import All, Any, Comparison, Not, Prefix, Sql, Suffix
from .filter import Filter


def outcome(term: Filter, known: Mapping[str, str]) -> bool | None:
    """The filter's result for every event with these attributes; None if it depends on the event."""
    if isinstance(term, Comparison):
        agrees = [
            type(term).agrees(known[name], value) if name in known else None for name, value in term.pairs
        ]
        return _all(agrees)
    if isinstance(term, All):
        return _all(outcome(each, known) for each in term.filters)
    if isinstance(term, Any):
        return _not(_all(_not(outcome(each, known)) for each in term.filters))
    if isinstance(term, Not):
        return _not(outcome(term.filter, known))
    if isinstance(term, Sql):
        return _of_sql(term, known)
    if isinstance(term, Where):
        reads = term.attributes is None or not term.attributes.isdisjoint(known)
        return False if reads and not term.could_be_true(known) else None
    return None


def _of_sql(term: Sql, known: Mapping[str, str]) -> bool | None:
    from .cesql import compile, could_be_true  # noqa: A004  # loads the parser, which few conditions need

    compiled = compile(term.expression)
    if known.keys() >= set(compiled.attributes):
        result = compiled.evaluate(known)
        return result.error is None and result.value is True
    # Not extensions: a text in their place says less, because they may also stand for an Integer or Boolean.
    core = {name: value for name, value in known.items() if name in CORE and name in compiled.attributes}
    return None if not core or could_be_true(term.expression, core) else False


def excluding(terms: Iterable[Filter]) -> tuple[Filter, Filter] | None:
    """Two prefixes, or two suffixes, of one attribute that no value has both; None if there are none."""
    seen: dict[tuple[type, str], tuple[str, Filter]] = {}
    for term in terms:
        if not isinstance(term, (Prefix, Suffix)):
            continue
        for name, value in term.pairs:
            before, other = seen.setdefault((type(term), name), (value, term))
            longer, shorter = sorted((before, value), key=len, reverse=True)
            if not type(term).agrees(longer, shorter):
                return other, term
            seen[type(term), name] = (longer, other if longer == before else term)
    return None


def _all(outcomes: Iterable[bool | None]) -> bool | None:
    found = set(outcomes)
    return False if False in found else None if None in found else True


def _not(outcome: bool | None) -> bool | None:
    return None if outcome is None else not outcome
