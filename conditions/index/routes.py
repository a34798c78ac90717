"""Routes: a matcher split into parts that can be looked up and filters that must be evaluated.

An event passes a matcher if it passes one of its routes. It passes a route if it has the exact values, the
prefixes and suffixes, and passes the remaining checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...events.attributes import is_name
from ..filters import All, Any, Exact, Filter, Prefix, Suffix, Where
from ..filters.cel.reads import Scalar
from ..filters.dialects import Comparison, FilterGroup, Not
from ..filters.filter import MAX_VALUE_CHARS
from ..nodes.matcher import Matcher

# The most routes of a matcher with several `any`, which multiply: an `any` beyond it is evaluated instead. A
# single `any` may have more.
MAX_ROUTES: Final = 16
# Prefixes and suffixes looked up one below the other; further ones are evaluated.
MAX_AFFIXES: Final = 4
# Members of data looked up one below the other; the predicate itself is evaluated in any case.
MAX_MEMBERS: Final = 2


Members = tuple[tuple[tuple[str, ...], Scalar], ...]


class Affix(NamedTuple):
    """A prefix of an attribute's value, or a suffix in reverse order."""

    attribute: str
    backwards: bool
    text: str

    def as_filter(self) -> Filter:
        if self.backwards:
            return Suffix({self.attribute: self.text[::-1]})
        return Prefix({self.attribute: self.text})


class Route(NamedTuple):
    """exact: sorted by attribute. members: (path in the data, value). checks: cheap ones first."""

    exact: tuple[tuple[str, str], ...]
    affixes: tuple[Affix, ...]
    checks: tuple[Filter, ...]
    members: Members = ()


def routes_of(matcher: Matcher) -> tuple[Route, ...]:
    """The distinct routes of a matcher, none if no event can pass it. Equal matchers have equal routes."""
    filters = (*((Exact(dict(matcher.exact)),) if matcher.exact else ()), *matcher.filters)
    where: tuple[Filter, ...] = ()
    members: Members = ()
    if matcher.where is not None:
        where, members = (matcher.where,), _members(matcher.where)
        filters += _attributes(matcher.where)
    routes = (_ordered(route, where)._replace(members=members) for route in _conjunction(filters))
    return tuple(dict.fromkeys(routes))


def _members(where: Where) -> Members:
    """The members of data that must equal a text or a number for the predicate to be true."""
    found = [(path[1:], value) for path, value in where.equalities.items() if path[0] == "data"]
    return tuple(sorted(found, key=lambda member: member[0])[:MAX_MEMBERS])


def _attributes(where: Where) -> tuple[Exact, ...]:
    """The attributes that must equal a text for the predicate to be true, as filters.

    Texts that a filter refuses are left out: a text in a predicate may be empty, or longer.
    """
    return tuple(
        Exact({path[1]: value})
        for path, value in where.equalities.items()
        if path[0] == "event" and len(path) == 2 and is_name(path[1])
        if isinstance(value, str) and 0 < len(value) <= MAX_VALUE_CHARS
    )


def _conjunction(filters: Iterable[Filter]) -> list[Route]:
    exact: dict[str, str] = {}
    affixes: list[Affix] = []
    checks: list[Filter] = []
    choices: list[tuple[Any, list[Route]]] = []
    waiting = list(filters)[::-1]
    while waiting:
        each = waiting.pop()
        if type(each) is All:
            waiting += each.filters[::-1]
        elif type(each) is Exact:
            if any(exact.setdefault(name, value) != value for name, value in each.pairs):
                return []
        elif type(each) is Prefix:
            affixes += [Affix(name, False, text) for name, text in each.pairs]
        elif type(each) is Suffix:
            affixes += [Affix(name, True, text[::-1]) for name, text in each.pairs]
        elif type(each) is Any and (alternatives := _alternatives(each)) is not None:
            choices.append((each, alternatives))
        else:
            checks.append(each)
    routes = [Route(tuple(exact.items()), tuple(affixes), tuple(checks))]
    for each, alternatives in sorted(choices, key=lambda choice: len(choice[1])):
        if len(routes) > max(1, MAX_ROUTES // max(1, len(alternatives))):
            routes = [route._replace(checks=(*route.checks, each)) for route in routes]
        else:
            joined = [_joined(one, other) for one in routes for other in alternatives]
            routes = [route for route in joined if route is not None]
    return routes


def _alternatives(choice: Any) -> list[Route] | None:
    """The routes of all alternatives; None if one cannot be looked up, so that the `any` is evaluated."""
    found: list[Route] = []
    for alternative in choice.filters:
        routes = _conjunction((alternative,))
        if any(not route.exact and not route.affixes for route in routes):
            return None
        found += routes
    return found


def _joined(one: Route, other: Route) -> Route | None:
    exact = dict(one.exact)
    if any(exact.setdefault(name, value) != value for name, value in other.exact):
        return None  # no event can have both values
    return Route(tuple(exact.items()), one.affixes + other.affixes, one.checks + other.checks)


def _ordered(route: Route, where: tuple[Filter, ...]) -> Route:
    affixes = sorted(set(route.affixes))
    checks = (*route.checks, *(affix.as_filter() for affix in affixes[MAX_AFFIXES:]), *where)
    return Route(
        tuple(sorted(route.exact)),
        tuple(affixes[:MAX_AFFIXES]),
        tuple(sorted(dict.fromkeys(checks), key=_cost)),
    )


def _cost(check: Filter) -> int:
    if isinstance(check, Comparison):
        return 0
    if isinstance(check, FilterGroup):
        return max(map(_cost, check.filters))
    if isinstance(check, Not):
        return _cost(check.filter)
    return 2 if isinstance(check, Where) else 1
