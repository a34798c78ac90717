"""Routes: which parts of a matcher are looked up, and which are evaluated."""

from __future__ import annotations

import pytest
from interlock.conditions import Matcher, event, parse
from interlock.conditions.filters import All, Any, Exact, Not, Prefix, Sql, Suffix, Where
from interlock.conditions.filters.filter import MAX_VALUE_CHARS
from interlock.conditions.index.routes import MAX_AFFIXES, MAX_ROUTES, Affix, Route, routes_of

A, B, C = Exact(tenant="a"), Exact(tenant="b"), Exact(region="c")
TYPE = (("type", "t"),)
SQL = Sql("EXISTS subject")


def exact(**pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pairs.items()))


# {what a matcher has: (the matcher, its routes)}
ROUTES: dict[str, tuple[Matcher, list[Route]]] = {
    "exact": (event("t", tenant="a"), [Route(exact(type="t", tenant="a"), (), ())]),
    "beginnings and endings": (
        event("t", filters=[Prefix(subject="p", source="/q"), Suffix(subject="sx")]),
        [
            Route(
                TYPE,
                (Affix("source", False, "/q"), Affix("subject", False, "p"), Affix("subject", True, "xs")),
                (),
            )
        ],
    ),
    "alternatives that are looked up": (
        event("t", filters=[Any(A, C)]),
        [Route(exact(type="t", tenant="a"), (), ()), Route(exact(type="t", region="c"), (), ())],
    ),
    "an alternative that is not": (event("t", filters=[Any(A, SQL)]), [Route(TYPE, (), (Any(A, SQL),))]),
    "a negated alternative": (event("t", filters=[Any(A, Not(B))]), [Route(TYPE, (), (Any(A, Not(B)),))]),
    "nested alternatives": (
        event("t", filters=[Any(All(A, SQL), Any(C, All(Prefix(subject="p"), Not(B))))]),
        [
            Route(exact(type="t", tenant="a"), (), (SQL,)),
            Route(exact(type="t", region="c"), (), ()),
            Route(TYPE, (Affix("subject", False, "p"),), (Not(B),)),
        ],
    ),
    "equal alternatives": (event("t", filters=[Any(A, A)]), [Route(exact(type="t", tenant="a"), (), ())]),
    "an alternative that cannot be": (
        event("t", tenant="b", filters=[Any(A, C)]),
        [Route(exact(type="t", tenant="b", region="c"), (), ())],
    ),
    "no alternative that can be": (event("t", filters=[Any(Exact(type="u"))]), []),
    "nothing to look up": (event(filters=[Not(A)]), [Route((), (), (Not(A),))]),
    "cheap checks first": (
        event("t", where="data == data", filters=[SQL, Not(SQL), Not(A)]),
        [Route(TYPE, (), (Not(A), SQL, Not(SQL), Where("data == data")))],
    ),
    "equal checks": (event(filters=[SQL, All(SQL, A)]), [Route(exact(tenant="a"), (), (SQL,))]),
}


@pytest.mark.parametrize(("matcher", "routes"), ROUTES.values(), ids=ROUTES)
def test_a_route_looks_up_everything_possible(matcher: Matcher, routes: list[Route]) -> None:
    assert routes_of(matcher) == tuple(routes)


def test_label_and_keep_play_no_part() -> None:
    plain = event("t", filters=[Any(A, C), SQL])
    other = event("t", filters=[Any(A, C), SQL], label="l", keep="all", limit=5)
    assert routes_of(plain) == routes_of(other)


def test_several_choices_multiply_up_to_a_limit() -> None:
    def choice(name: str, size: int) -> Any:
        return Any(*(Exact({name: str(number)}) for number in range(size)))

    both = routes_of(event("t", filters=[choice("a", MAX_ROUTES // 2), choice("b", 2)]))
    assert len(both) == MAX_ROUTES
    assert all(len(route.exact) == 3 and not route.checks for route in both)
    beyond = choice("a", MAX_ROUTES)
    few = routes_of(event("t", filters=[beyond, choice("b", 2)]))
    assert [route.checks for route in few] == [(beyond,), (beyond,)]
    assert len(routes_of(event("t", filters=[choice("a", 250)]))) == 250


def test_beginnings_beyond_the_limit_are_evaluated() -> None:
    names = [f"a{number}" for number in range(MAX_AFFIXES + 1)]
    (route,) = routes_of(event("t", filters=[Prefix(dict.fromkeys(names, "p")), Suffix(z="s")]))
    assert len(route.affixes) == MAX_AFFIXES
    assert route.checks == (Prefix({names[-1]: "p"}), Suffix(z="s"))


@pytest.mark.parametrize("more", [0, 1])
def test_a_text_in_where_that_is_too_long_for_an_attribute_filter_is_only_evaluated(more: int) -> None:
    """In `where` a text may be longer. It made no route but an error, which ended every engine."""
    long = "s" * (MAX_VALUE_CHARS + more)
    (matcher,) = parse(f"""event("t", where="event.subject == '{long}'")""").matchers
    (route,) = routes_of(matcher)
    assert route.exact == (TYPE if more else exact(type="t", subject=long))
    assert route.checks == (matcher.where,)
