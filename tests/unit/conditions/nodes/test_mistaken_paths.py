"""Paths that read a member which their author did not mean: they parsed, and waited for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from interlock import Condition, ConditionError, at_least, count, day, event
from interlock.conditions import from_json
from interlock.conditions.nodes.reachable import check_can_be_met


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("data.x+1d", 'for an offset write by="data.x + 1d"'),
        ("data.x +1d", 'for an offset write by="data.x + 1d"'),
        ("data.order.x -2h30m", 'for an offset write by="data.order.x - 2h30m"'),
        ("data.x  - 1d", 'write by="data.x - 1d"'),
        ("data.x + 1d + 2h", "a path has one offset: write the sum of both"),
        ("data.x,data.y", 'for several paths write by=["data.x", "data.y"]'),
        ("data.x, subject", 'for several paths write by=["data.x", "subject"]'),
        ("data.x | data.y", 'for several paths write by=["data.x", "data.y"]'),
        ("data.x ", 'reads the member "x " of the data: write by="data.x"'),
        ("data. x", 'write by="data.x"'),
        ("data.x\n", 'write by="data.x"'),
        ("data.*", "a path is no pattern"),
        ("data.*.day", "a path is no pattern"),
        (day("data.x+1d", tz="UTC"), "the offset stands after the bracket, day(...) + 1"),
        (day("data.x ", tz="UTC"), 'write by="day(data.x, UTC)"'),
    ],
)
def test_a_path_that_is_a_slip_is_an_error_that_says_what_to_write(path: str, instead: str) -> None:
    for condition in (
        event("t", by=path),
        event("t", by=["subject", path]) & event("u", by=["data.a", "data.b"]),
    ):
        with pytest.raises(ConditionError) as raised:
            check_can_be_met(condition)
        assert instead in str(raised.value)
    assert from_json(event("t", by=path).to_json()) == event("t", by=path)


@pytest.mark.parametrize(
    "build",
    [
        lambda path: count(event("t"), 2, distinct=path),
        lambda path: at_least(2, event("t"), event("u"), distinct=["subject", path]),
    ],
)
def test_the_same_holds_for_distinct(build: Callable[[str], Condition]) -> None:
    with pytest.raises(ConditionError, match=r'distinct="data.x\+1d" reads the member "x\+1d" of the data'):
        check_can_be_met(build("data.x+1d"))
    check_can_be_met(build("data.x + 1d"))


@pytest.mark.parametrize(
    "path",
    [
        "data.x + 1d", "data.x - 1d", "data.last-7d", "data.order-date", "data.Order Date", "data.a+b",
        "data.a,b", "data.m*", "data.salt and pepper", "data.or", "data.$oid", "subject",
        day("data.order date", tz="UTC"),
    ],
)  # fmt: skip
def test_names_that_members_may_have_are_no_error(path: str) -> None:
    check_can_be_met(event("t", by=path))
