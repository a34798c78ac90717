"""`where` that fails on every event, or is never true: it is refused when it is built."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interlock.conditions import ConditionError
from interlock.conditions.filters import Where
from interlock.conditions.filters.cel import where as where_module
from interlock.events import Event


@pytest.mark.parametrize(
    ("source", "message"),
    [
        # a time zone that does not exist
        ("timestamp(data.t).getHours('Invalid/Timezone') == 3", "getHours('Invalid/Timezone') fails on"),
        ("timestamp(data.t).getDayOfWeek('Europe/Londn') == 3", "getDayOfWeek('Europe/Londn') fails on"),
        ("data.x == 1 || timestamp(event.time).getDate('CEST') == 3", "getDate('CEST') fails on every event"),
        ("data.l.exists(i, timestamp(i).getMonth('Mars/Olympus') == 3)", "getMonth('Mars/Olympus') fails"),
        ("timestamp(data.t).getMinutes('+99:99') == 3", "there is no such time zone"),
        ("timestamp(data.t).getHours('+25:00') == 3", "getHours('+25:00') fails on every event, because"),
        # other constants that cannot be converted or computed
        ("timestamp(data.t) > timestamp('tomorrow')", "timestamp('tomorrow') fails on every event"),
        ("timestamp(data.t) > timestamp('2026-11-20')", "timestamp('2026-11-20') fails on every event"),
        ("timestamp(data.t) > timestamp('2026-02-30T00:00:00Z')", "fails on every event"),
        ("duration(data.d) < duration('2 hours')", "duration('2 hours') fails on every event: String to"),
        ("duration(data.d) < duration('1d')", "duration('1d') fails on every event"),
        ("data.x == int('a')", "int('a') fails on every event: cannot convert string to int"),
        ("data.x == uint(-1)", "uint(-1) fails on every event"),
        ("data.x == double('1,5')", "double('1,5') fails on every event"),
        ("data.x == bool('maybe')", "bool('maybe') fails on every event"),
        ("data.x == 1 / 0", "(1 / 0) fails on every event: divide by zero"),
        ("data.x % (3 - 3) == 1", "fails on every event"),
        ("data.x / 0 == 1", "/ 0 fails on every event"),
        ("data.x % 0u == 1u", "% 0 fails on every event"),
        ("data.x == 9223372036854775807 + 1", "fails on every event: integer overflow"),
        ("data.x == [1, 2][5]", "[1, 2][5] fails on every event"),
        ("data.x == {'a': 1}['b']", "fails on every event"),
        ("data.l.exists(i, i == int('a'))", "int('a') fails on every event"),
        ("data.x ? data.y == 1 : data.y == int('b')", "int('b') fails on every event"),
        # positions and names that JSON cannot have
        ("data.l[-1] == 1", "data.l[-1] fails on every event: give a member's name in quotes, or a position"),
        ("data.l[2 - 3] == 1", "data.l[(2 - 3)] fails on every event"),
        ("data.x == {'a': {'b': 1}}.a.c", "fails on every event"),
        ("data.l[1.5] == 1", "data.l[1.5] fails on every event"),
        ("data.l[true] == 1", "data.l[true] fails on every event"),
        ("data.l[null] == 1", "data.l[null] fails on every event"),
        ("data[b'x'] == 1", "fails on every event"),
        # JSON holds no times, and null has no order
        ("data.t.getHours('UTC') == 3", "fails on every event, because JSON has no timestamps"),
        ("data.t > timestamp('2026-11-20T00:00:00Z')", "data.t is never a timestamp, because JSON has none"),
        ("data.t == timestamp('2026-11-20T00:00:00Z')", "write timestamp(data.t)"),
        ("duration('1h') <= data['how long']", "write duration(data['how long'])"),
        ("data.t + duration('1h') == timestamp(data.u)", "write duration(data.t)"),
        ("int(event.time) > 5", "int(event.time) fails on every event: write timestamp(event.time)"),
        ("data.x == 1 || int(event['time']) > 5", "write timestamp(event.time)"),
        ("int(event.specversion) == 1", "int(event.specversion) fails on every event: compare it as a text"),
        ("timestamp(event.dataschema) > timestamp(data.t)", "timestamp(event.dataschema) fails on"),
        ("data.x > null", "> with null fails on every event"),
        ("data.x + null == 1", "+ with null fails on every event"),
    ],
)  # fmt: skip
def test_a_part_that_fails_on_every_event_is_refused(source: str, message: str) -> None:
    """They were accepted, and failed on each event."""
    with pytest.raises(ConditionError) as caught:
        Where(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "data.x == 1 && false", "false && data.x == 1", "!(data.x == 1 || true)", "data.x == 1 && 1 == 2",
        "data.x ? false : false", "data.x == 1 && data.x == 2", "data.x == 'a' && data.x == 1",
        "data.x == true && data.y == 2 && false == data.x", "event.type == 'a' && event['type'] == 'b'",
        "data.x in []", "data.x == 1 && event.type in []",
        "true ? data.x == 1 && size('a') == 2 : data.y",
    ],
)  # fmt: skip
def test_an_expression_that_is_never_true_is_refused(source: str) -> None:
    """They were accepted, and no event could pass."""
    with pytest.raises(ConditionError, match="it is never true: its parts exclude each other"):
        Where(source)


NEVER_TRUE = [
    "data.x == b'a'", "bytes('a') == data.b", "has(data.x) && !has(data.x)", "data.x && !data.x",
    "data.l.exists(i, i == 1) && !data.l.exists(i, i == 1)", "data.x == int", "size(data.x) < 0",
    "data.x.size() == -1", "!(size(data.x) >= 0)", "data.x > 5 && data.x < 3", "data.x > 5 && data.x <= 5",
    "data.x == 'a' && data.x > 1", "data.x > 1 && data.x < 'a'", "data.x == 1 && data.x != 1.0",
    "data.x in ['a'] && data.x in ['b']", "data.x in ['a'] && data.x == 'c'",
    "data.x in [1, 2] && data.x > 2", "event['type'] == 'a' && event.type != 'a'",
    "!(data.x in ['a']) && data.x == 'a'", "event.type == 'a' && event.type.startsWith('b')",
    "event.type.startsWith('a') && event.type.startsWith('b')",
    "data.x.endsWith('a') && data.x.endsWith('b')",
    "!has(data.x) && data.x == 1", "!('x' in data) && data.x == 1", "!has(data.x) && has(data.x.y)",
    "!has(event.id) && data.x == 1", "!('type' in event)", "event.specversion == '0.3'",
    "timestamp(data.t).getHours('UTC') == 24", "timestamp(data.t).getMonth() == 12",
    "data.l.exists(i, i == 1 && i == 2)", "data.l.exists(i, i == b'a')", "data.x in [b'a']",
    "data.l.exists_one(i, i > 2 && i < 1)", "b'a' in data.l", "data.x == true && !data.x",
    "timestamp(data.t) > timestamp('2027-01-01T00:00:00Z') && timestamp(data.t) < timestamp(0)",
    "(data.x == 1 || data.y == 2) && data.x != 1 && data.y != 2", "data.x == data.y && data.x != data.y",
    "size(data.x) > 3 && size(data.x) < 2", "event.type == 'abc' && size(event.type) > 5",
    "data.x >= 6 && data.x * 2 == 10", "10 == 2 * data.x && data.x >= 6.0", "data.x * 2 == 11",
    "data.x + 1 > 6 && data.x < 6 && data.x + 1 < 7", "3 - data.x > 0 && data.x > 2",
    "-data.x > 5 && data.x > -5", "data.x / 2 == 5 && data.x > 11", "data.x / -2 == 5 && data.x > -10",
    "(data.x + 1) * 3 > 30 && data.x < 10", "data.x * -2 > 10 && data.x > -6",
    "data.x + 1.5 > 10.0 && data.x < 8.0", "data.x * 0.5 > 10.0 && data.x < 19.9",
    "data.x == 5 && data.x * data.x == 26", "data.x == 5 && data.x % 2 == 0", "size(data.x) * 2 == 3",
    "int(event.level) * 2 > 9 && int(event.level) < 5", "data.x * 2 >= 10 && data.x in [3, 4]",
    "data.x > 5 && data.x.startsWith('a')", "data.x == true && !data.x.contains('a')",
    "data.x.matches('a') && data.x <= 5.0", "data.x in [1, 2] && data.x.endsWith('a')",
    "data.x == 'a' && data.x.y == 1", "data.x.y == 1 && data.x > 1", "data.x[0] == 1 && data.x < 5",
    "data.x.y.z == 1 && data.x.y == null", "data['x'] in ['a'] && has(data.x.y) && data.x.y.z == 1",
    "data.x * 2.0 == double('10') && data.x > 9.0", "data.x * (1 + 1) == 5 * 2 && data.x >= 6",
    "data.x > int('7') && data.x < 3 + 4",
    "data.x % 2 == 2", "data.x % -2 < -1", "data.a < data.b && data.b < data.a",
    "data.a < data.b && data.b <= data.a",
    "data.a > data.b && data.a <= data.b", "data.a > data.b && data.b > data.a",
]  # fmt: skip
MAYBE_TRUE = [
    "data.x == 1 || data.x == b'a'", "duration(data.d).getHours() == 30", "bytes(data.x) == b'a'",
    "data.x > 5 && data.x < 6", "data.x >= 5 && data.x <= 5", "has(data.x) || !has(data.x)",
    "data.x in [1, 2] && data.x == 2.0", "['a'].exists(string, string == data.x)",
    "[1].exists(data, data == 1) && event.id != ''", "!(data.x > 5) && !(data.x <= 5)",
    "data.x == 9007199254740993 && data.x == 9007199254740992.0", "!data.x && data.x == false",
    "has(data.x) && !has(data.x.y)", "data.l.all(i, i == 1 && i == 2)", "!(data.x == b'a')",
    "data.l.exists(i, i == 1) && data.l.exists(i, i == 2)", "event.type == 'abc' && event.type.matches('b')",
    "data.l.exists(bytes, bytes == 'a')", "data.x == 1 && data.x + 1.0 > 1.0",
    "data.x >= 5 && data.x * 2 == 10", "data.x * 2.0 == 11.0", "data.x + 0.1 > 0.3 && data.x < 0.2",
    "data.x / 2 == 5 && data.x > 10", "data.x / 2 == 0 && data.x == -1", "data.x % 2 == 1 && data.x > 5",
    "data.x == 5 && data.x / 2.0 == 2.5", "data.x * 0 == 0 && data.x > 6", "data.x * 2 > 9 && data.x < 6",
    "data.x * 2 != 10 && data.x == 6", "data.x * 1e-300 == 0.0 && data.x < 1.0",
    "data.x == 0 && 1.0 / data.x < 0.0",
    "int(timestamp(event.time)) > 5", "double(event.specversion) == 1.0",
    "string(event.time) == 'x' || data.x == 1",
    "data.l.exists(event, int(event.time) > 5)", "int(event.subject) > 5",
    "timestamp(event.time) > timestamp(data.t)",
    "data.x * 2.0 == double('10') && data.x > 4.0", "data.x + 'a' + 'b' == 'xab'", "data.x == 1u + 2u",
    "data.l + [1] + [2] == [1, 2]", "timestamp(data.t) + duration('1h') > timestamp(0) + duration('2h')",
    "data.a <= data.b && data.b <= data.a", "data.a < data.b && data.a <= data.b", "data.x % 2 == -1",
    "data.a < data.b && data.b > data.a", "!(data.a < data.b) && !(data.b < data.a)",
    "data.x.startsWith('a') && data.x > 'a'", "data.x != 1 && data.x.y == 1",
    "data.x == {'y': 1} && data.x.y == 1", "data.x in [1, 'a'] && data.x.startsWith('a')",
    "data.x.startsWith('a') || data.x == 5", "data.x.y == 1 || data.x == 1",
    "!(data.x in ['a']) && data.x.y == 1",
    "data.x.y.startsWith('a') && data.x.z > 5", "data.x == 'a' && event.id.startsWith('b')",
    "data.x in [{'y': 1}] && data.x.y == 1", "!data.x.startsWith('a') && data.x == 'b'",
    "data.x + 1e300 == 1e300 && data.x > 5.0", "(data.x == 5 ? data.x * 2 : data.x) == 10",
]  # fmt: skip


@pytest.mark.parametrize("source", NEVER_TRUE)
def test_parts_that_exclude_each_other_are_found(source: str) -> None:
    """They were accepted, and no event could pass."""
    with pytest.raises(ConditionError, match="it is never true: "):
        Where(source)


@pytest.mark.parametrize("source", MAYBE_TRUE)
def test_parts_that_only_look_as_if_they_exclude_each_other_are_accepted(source: str) -> None:
    Where(source)


ATOMS = st.sampled_from(
    [
        "data.x == 1", "data.x != 1", "data.x > 1", "data.x <= 1", "data.x < 2", "data.x == 'a'",
        "data.x > 'a'", "data['x'] == 2",
        "data.x in [1, 'a']", "data.x in ['b']", "has(data.x)", "'x' in data", "data.x", "data.x == true",
        "data.y == data.x", "data.y == 2",
        "data.y < data.x", "data.x < data.y", "data.x <= data.y",
        "size(data.x) > 1", "size(data.x) == 1", "data.x == [1]",
        "data.x.startsWith('a')", "data.x.startsWith('ab')", "event.type == 'a'", "data.x.contains('b')",
        "data.x.y == 1", "has(data.x.y)", "data.x[0] == 1", "data.x in [[1], 2]", "data.x.y.matches('a')",
        "event.type.startsWith('b')", "event['type'] == 'b'",
        "has(event.subject)", "event.subject == 's'", "data.x.exists(i, i == 1)", "data.x == null",
        "data.x * 2 == 2", "data.x + 1 > 2", "3 - data.x < 2", "-data.x < -1", "data.x / 2 == 0",
        "data.x / -2 > -1", "data.x * 2.0 == 3.0", "data.x + 0.1 > 1.6", "data.x % 2 == 0",
    ]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(lambda a: f"!({a})", inner),
        st.builds(lambda a, sign, b: f"(({a}) {sign} ({b}))", inner, st.sampled_from(["&&", "||"]), inner),
        st.builds(lambda a, b, c: f"(({a}) ? ({b}) : ({c}))", inner, inner, inner),
    ),
    max_leaves=5,
)
VALUES: list[object] = [
    1, 1.0, 1.5, 2, 3, -1, 0, True, False, "a", "ab", "b", "abc", [1], [1, 2], [], None, {},
    {"y": 1}, {"y": "a"},
]  # fmt: skip
EVENTS = [
    Event.of(type_, "/s", data=data, **subject)  # type: ignore[arg-type]
    for type_ in "ab"
    for subject in ({}, {"subject": "s"})
    for data in (
        None,
        {},
        *({"x": x} for x in VALUES),
        *({"x": x, "y": y} for x in (1, 2, "a") for y in (2, "a")),
    )
]


@given(EXPRESSIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_expression_that_an_event_makes_true_is_refused_as_never_true(source: str) -> None:
    environment = where_module._environment()
    expression = environment.compile(f"({source}) ? true : false")
    try:
        Where(source)
    except ConditionError:
        for each in EVENTS:
            found = expression.eval(data={"data": each.payload, "event": dict(each.attributes)}).value()
            assert found is not True, (source, each)


@pytest.mark.parametrize(
    "source",
    [
        "data.x == 1 || false", "data.x == 1 || true", "data.x == 1 && data.x == 1.0",
        "data.x != 1 && data.x != 2",
        "data.x == 1 || data.x == 2", "!(data.x == 1 && data.x == 2)", "false ? data.x == 1 : data.x == 2",
        "data.x.map(i, i + 1) == [1 + 1]", "data.l[0] == 1 && data['a'] == 2", "data.l[2.0] == 1",
        "timestamp(data.t).getHours('Europe/Berlin') == 3", "timestamp(data.t).getHours('-03:30') == 3",
        "timestamp(data.t) > timestamp('2026-11-20T00:00:00Z') - duration('36h')", "data.x / 0.0 > 1.0",
        "timestamp(data.t) - timestamp(data.u) > duration('1h')", "data.x == null", "null != data.x",
        "data.x == {'a': {'b': 1}}.a.b", "!has({'a': 1}.b) && data.x == 1", "data.l[3 - 2] == 1",
        "data['a' + 'b'] == 1", "!(data.x in [])",
        "has({'a': 1}.b) || data.x == 1",
        "[timestamp(0)].exists(data, data.getHours() == 0) && event.id != ''",
        "data.x == '\\'\\\\ \u00e9' + 'b'",
        "data.x in ['a', 'b' + 'c']",
        "data.x == (true || 1 / 0 == 1)",
        "data.x == -(1) && !(2 == 3)", "type(data.x) == int", "string(data.x) == string(1u)",
        "data.b != b'\\x00'",
        "{1: data.x}[1] == 2", "{-1: data.x}[-1] == 2",
    ],
)  # fmt: skip
def test_an_expression_that_may_be_true_is_accepted(source: str) -> None:
    Where(source)
