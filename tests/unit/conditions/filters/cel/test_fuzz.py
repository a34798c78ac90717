"""Random texts, expressions and data: `where` raises ConditionError or gives a verdict, and nothing else."""

from __future__ import annotations

import contextlib
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interlock.conditions import ConditionError
from interlock.conditions.filters import Where
from interlock.events import Event


def sent(data: object = None, **attributes: object) -> Event:
    return Event.of("com.shop.order", "/shop", data=data, **attributes)  # type: ignore[arg-type]


PIECES = (
    "data event . x y l [ ] ( ) { } 0 1 1.5 'a' ' \" == != < > + - * / % && || ! ? : , in has( .all(i,"
    " .map(i, .exists(i, i size( .matches(' a+ {2} \\\\p ') true null // b' r' 1u 1e999 99999999999999999999"
    " timestamp( duration( string( é ` \\"
)
pieces = st.sampled_from([*PIECES.split(" "), " ", "\n", "\0"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60) | st.lists(pieces, max_size=24).map("".join))
def test_any_text_is_an_expression_or_a_condition_error(source: str) -> None:
    with contextlib.suppress(ConditionError):
        Where(source)


values = st.deferred(
    lambda: (
        st.sampled_from(
            ["data", "data.x", "data.y", "data.l", "data.m", "data.l[0]", "event", "event.type", "i"]
        )
        | st.sampled_from(
            ["1", "-1", "1.5", "2u", "'a'", "''", "b'a'", "null", "true", "[1, 'a']", "{'a': 1}", "int"]
        )
        | st.builds("{} {} {}".format, values, operators, values).map("({})".format)
        | st.builds("{}({})".format, functions, values)
        | st.builds("({}).{}(i, {})".format, values, loops, values)
        | st.builds("({}).{}({})".format, values, st.sampled_from(["contains", "startsWith"]), values)
        | st.builds("({})[{}]".format, values, values)
        | st.builds("({} ? {} : {})".format, values, values, values)
        | st.builds("({}).{}".format, values, st.sampled_from(["x", "y", "matches('a+b?')", "size()"]))
    )
)
operators = st.sampled_from(["==", "!=", "<", ">=", "+", "-", "*", "/", "%", "&&", "||", "in"])
functions = st.sampled_from(
    ["!", "-", "size", "string", "int", "double", "bytes", "timestamp", "duration", "type", "dyn", "bool"]
)
loops = st.sampled_from(["all", "exists", "exists_one", "filter", "map"])
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["x", "y", "l", "m", "a"]), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.builds("{} {} {}".format, values, operators, values) | values, json_data)
def test_any_expression_on_any_event_gives_a_verdict(source: str, data: object) -> None:
    try:
        where = Where(source)
    except ConditionError:
        return
    verdict = where.verdict(sent(json.dumps(data).encode()))
    assert verdict.accepted in (True, False)
    assert (verdict.term is None) == verdict.accepted


@given(st.binary(max_size=60))
def test_any_bytes_in_the_data_give_a_verdict(data: bytes) -> None:
    for source in ("data.x == 1", "data == data", "event.type == 'x' || data[0] == 1"):
        assert Where(source).verdict(sent(data)).accepted in (True, False)
