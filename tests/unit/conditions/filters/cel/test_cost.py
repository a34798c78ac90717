"""What `where` may cost, and how much of an event it may therefore read."""

from __future__ import annotations

import cel_expr_python.cel
import pytest
from interlock.conditions import ConditionError
from interlock.conditions.filters import Where
from interlock.conditions.filters.cel.ast import tree
from interlock.conditions.filters.cel.cost import Allowance, worst
from interlock.conditions.filters.cel.where import ALLOWANCES, MAX_SOURCE_CHARS
from interlock.events import Event

LARGEST, SMALLEST, NOTHING = ALLOWANCES[0], ALLOWANCES[-1], Allowance(0, 0)


def sent(data: object = None, **attributes: object) -> Event:
    return Event.of("com.shop.order", "/shop", data=data, **attributes)  # type: ignore[arg-type]


def test_the_more_an_expression_does_the_less_it_may_look_at() -> None:
    assert Where("data.x == 1 && event.type == 'a'").allowance == LARGEST
    assert Where("data.l.exists(i, i.sku == 'a' && i.name.contains('x'))").allowance == LARGEST
    squared = Where("data.l.exists(i, i in data.k)").allowance
    assert SMALLEST.values <= squared.values < LARGEST.values
    data = {"l": [1] * squared.values, "k": [2]}
    message = Where("data.l.exists(i, i in data.k)").verdict(sent(data)).error or ""
    assert f"more than {squared.values} values" in message


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("data.s.contains(data.t)", 2048),  # two texts of 32 KiB: 4 ms
        ("size(data.l.map(i, i)) > 0", 512),  # 1,024 elements: 24 ms and 17 MB
        ("data.l.exists(i, i in data.k)", 1024),  # 1,024 in 1,024: 6 ms
        ("data.l.all(i, data.s.matches('b+'))", 1024),  # 1,000 patterns compiled: 11 ms
        ("data.s.matches('(a{0,50}){5}b')", 512),
    ],
)
def test_functions_whose_cost_grows_faster_than_their_data_may_read_less(source: str, values: int) -> None:
    assert Where(source).allowance.values <= values


def test_what_is_joined_counts_as_memory() -> None:
    def taken(source: str) -> float:
        expression = cel_expr_python.cel.NewEnv(variables={"data": cel_expr_python.cel.Type.DYN}).compile(
            source
        )
        return worst(tree(expression.serialize()), LARGEST).bytes

    assert taken("data.s + data.s == ''") - taken("data.s == data.s") > 2 * LARGEST.text


DOUBLING = "[data.x].map(a, a + a + a).map(b, b + b + b).map(c, c + c + c).map(d, d + d + d)[0] == ''"


@pytest.mark.parametrize(
    "term",
    [
        DOUBLING,
        "data.l.map(i, data.s + data.s) == []",
        "data.l.map(i, data.l.map(j, j)) == []",
        "data.l.all(i, data.k == data.m)",
        "data.s.contains(data.t)",
        "data.l.exists(i, data.s.contains(i))",
        "data.s.matches('(a{0,20}){5}b')",
        "data.s.matches('(?i)(x+x+)+y')",
        "data.l.exists(i, i.matches('[a-z]{3}-[0-9]+'))",
        "data.l.all(i, size(data.k + data.k) > 0)",
        "duration(data.s) == duration('1s')",
        "data.m[data.s] == 1",
    ],
)
def test_the_bound_of_what_an_expression_costs_grows_with_its_length(term: str) -> None:
    """Repeated often enough, a costly term is refused, or may read less than a single one."""
    allowances = []
    for times in (1, (MAX_SOURCE_CHARS + 4) // (len(term) + 4)):
        try:
            allowances.append(Where(" || ".join([term] * times)).allowance)
        except ConditionError:
            allowances.append(NOTHING)
    assert allowances[1] < allowances[0] or allowances == [NOTHING, NOTHING]
