"""Routes: a matcher taken apart into what can be looked up and what must be evaluated.

An event passes a matcher if it passes one of its routes, and a route if it has the exact values, the
beginnings and endings, and passes the checks that remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ..filters import All, Any, Exact, Filter, Prefix, Suffix, Where
from ..filters.dialects import Comparison, Group, Not
from ..matcher import Matcher

# Of one matcher. Its first `any` may have more; a second one multiplies them, and is evaluated beyond this.
MAX_ROUTES: Final = 16
# Beginnings and endings looked up one below the other; further ones are evaluated.
MAX_AFFIXES: Final = 4


class Affix(NamedTuple):
    """The beginning of an attribute's text, or its ending, written backwards."""

    attribute: str
    backwards: bool
    text: str

    def as_filter(self) -> Filter:
        if self.backwards:
            return Suffix({self.attribute: self.text[::-1]})
        return Prefix({self.attribute: self.text})


class Route(NamedTuple):
    """exact: sorted by attribute. checks: cheap ones first."""

    exact: tuple[tuple[str, str], ...]
    affixes: tuple[Affix, ...]
    checks: tuple[Filter, ...]


def routes_of(matcher: Matcher) -> tuple[Route, ...]:
    """The routes of a matcher, each once; none where no event can pass it. Equal matchers' are equal."""
    filters = (*((Exact(dict(matcher.exact)),) if matcher.exact else ()), *matcher.filters)
    where = (matcher.where,) if matcher.where is not None else ()
    return tuple(dict.fromkeys(_ordered(route, where) for route in _conjunction(filters)))


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
        if 1 < len(routes) > MAX_ROUTES // max(len(alternatives), 1):
            routes = [route._replace(checks=(*route.checks, each)) for route in routes]
        else:
            joined = [_joined(one, other) for one in routes for other in alternatives]
            routes = [route for route in joined if route is not None]
    return routes


def _alternatives(choice: Any) -> list[Route] | None:
    """The routes of all alternatives; None if one of them cannot be looked up, so that all are evaluated."""
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
    if isinstance(check, Group):
        return max(map(_cost, check.filters))
    if isinstance(check, Not):
        return _cost(check.filter)
    return 2 if isinstance(check, Where) else 1
