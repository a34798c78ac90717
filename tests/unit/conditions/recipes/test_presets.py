"""Presets equal the nodes in their documentation. The examples of docs/use/presets.md show what they do."""

from __future__ import annotations

import pytest
from interlock.conditions import (
    AllOf,
    AnyOf,
    Condition,
    ConditionError,
    absent,
    all_of,
    any_of,
    burst,
    count,
    daily,
    debounce,
    event,
    every_nth,
    heartbeat,
    not_followed_by,
)  # fmt: skip

a, b, c = event("a"), event("b"), event("c")


@pytest.mark.parametrize(
    ("preset", "is_"),
    [
        (all_of(a, b, c), AllOf(a, b, c)),
        (all_of(a, b, within="2h"), (a & b).within("2h")),
        (all_of(a), a),
        (all_of(a, a), a),
        (any_of(a, b | c), AnyOf(a, b, c)),
        (any_of(b, b), b),
        (every_nth(a, 3), count(a, 3)),
        (every_nth(a, 1), a),
        (burst(a, 3, "1h"), count(a, 3).within("1h")),
        (debounce(a & b, "5m"), (a & b).quiet("5m")),
        (heartbeat(a | b, "10m"), absent(a | b, "10m")),
        (heartbeat(a, "10m", armed_by="subscription"), absent(a, "10m", armed_by="subscription")),
        (not_followed_by(a & b, c, "30m"), (a & b & ~c).within("30m")),
        (not_followed_by(a, b | c, "30m"), (a & ~(b | c)).within("30m")),
        (daily(a, b), (a & b).resets("0 0 * * *")),
        (daily(a, b, timezone="Asia/Tokyo"), (a & b).resets("0 0 * * *", timezone="Asia/Tokyo")),
    ],
    ids=str,
)  # fmt: skip
def test_a_preset_is_equal_to_its_nodes(preset: Condition, is_: Condition) -> None:
    assert preset == is_


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: all_of(), "AllOf needs at least two different conditions, it got 0"),
        (lambda: any_of("a"), "argument 1 of AnyOf is a str: write a condition"),
        (lambda: all_of(a, None), "argument 2 of AllOf is a NoneType"),
        (lambda: all_of(a, within="1h"), "has no effect"),
        (lambda: daily(a), "has no effect"),
        (lambda: burst(a, 1, "1h"), "has no effect"),
        (lambda: every_nth(a & b, 2), "count() counts the events of one matcher"),
        (lambda: debounce(a, "soon"), "'soon' is not a duration"),
        (lambda: heartbeat(a & b, "1m"), "join several absent() with &"),
        (lambda: not_followed_by(a, a, "1m"), "requires and negates"),
        (lambda: not_followed_by(a, b & c, "1m"), "it negates a matcher, or matchers joined with |"),
    ],
)
def test_a_preset_raises_the_errors_of_its_nodes(use: object, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        use()  # type: ignore[operator]
    assert message in str(caught.value)
