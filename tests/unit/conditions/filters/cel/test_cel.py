"""`where` in CEL: its meaning, its cost, and that no text and no event makes it raise."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from interlock.conditions.filters import Where
from interlock.conditions.filters.cel.reads import MAX_NESTING
from interlock.conditions.filters.cel.where import ALLOWANCES, MAX_DATA_BYTES
from interlock.conditions.nodes.paths import key_at
from interlock.events import Event, EventError, content

LARGEST = ALLOWANCES[0]


def sent(data: object = None, **attributes: object) -> Event:
    return Event.of("com.shop.order", "/shop", data=data, **attributes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "data"),
    [
        ("data.x == 1", {"x": 1}),
        ("data.x == 1", {"x": 1.0}),
        ("data.x == 1.0", {"x": 1}),
        ("data.x > 1 && data.x < 2", {"x": 1.5}),
        ("data.x == 9007199254740993", {"x": 9007199254740993}),
        ("data.x > 18446744073709551614u", {"x": 18446744073709551615}),
        ("data.x > 18446744073709551615u", {"x": 10**30}),
        ("data.x < -9223372036854775807", {"x": -(10**30)}),
        ("data.x == 'eur'", {"x": "eur"}),
        ("data.x != true", {"x": 1}),
        ("data.x == null", {"x": None}),
        ("data == null", None),
        ("data == 5", b"5"),
        ("has(data.x) && !has(data.y)", {"x": None}),
        ("!has(data.x.y)", {"x": {}}),
        ("'x' in data && !('y' in data)", {"x": 1}),
        ("data['a.b'] == 1", {"a.b": 1}),
        ("data.a['b'].c == 1", {"a": {"b": {"c": 1}}}),
        ("data[1] == 'b' && size(data) == 2", ["a", "b"]),
        ("data.x[0].y == 1", {"x": [{"y": 1}]}),
        ("data.x == data.y", {"x": {"a": [1, 2.0]}, "y": {"a": [1.0, 2]}}),
        ("data.x in ['eur', 'usd']", {"x": "usd"}),
        ("data.n == 1 || data.x == 1", {"x": 1}),
        ("data.x ? data.y == 1 : data.y == 2", {"x": False, "y": 2}),
        ("data.x", {"x": True}),
        ("!data.x", {"x": False}),
        ("data.x.all(i, i > 0) && data.x.exists(i, i > 1)", {"x": [1, 2]}),
        ("data.x.exists_one(i, i.a == 1)", {"x": [{"a": 1}, {"a": 2}]}),
        ("data.x.filter(i, i > 1).map(i, i * 2) == [4, 6]", {"x": [1, 2, 3]}),
        ("data.x.filter(i, i > 1).map(i, i * 2).filter(i, i > 4).map(i, i + 1) == [7]", {"x": [1, 2, 3]}),
        ("data.x.exists(a, data.y.exists(b, a == b))", {"x": [1, 2], "y": [2, 3]}),
        ("data.exists(k, k == 'x')", {"x": 1}),
        ("[1, 2].all(data, data > 0) && data == null", None),
        ("data.x.startsWith('a') && data.x.endsWith('c') && data.x.contains('b')", {"x": "abc"}),
        ("data.x.matches('^[a-z]{3}$')", {"x": "abc"}),
        ("data.x.matches('b')", {"x": "abc"}),
        ("size(data.x) == 3 && data.x.size() == 3", {"x": "é€😀"}),
        ("timestamp(data.t) < timestamp('2026-11-20T00:00:00Z')", {"t": "2026-11-20T00:30:00+01:00"}),
        ("timestamp(data.t).getDayOfWeek('Europe/London') == 5", {"t": "2026-11-20T00:30:00Z"}),
        ("timestamp(data.t).getHours('+01:00') == 1", {"t": "2026-11-20T00:30:00Z"}),
        ("duration(data.d) > duration('90m')", {"d": "2h"}),
        ("int(data.x) + 1 == 16 && double(data.y) == 1.5", {"x": "15", "y": "1.5"}),
        ("data.x + data.y == 'ab'", {"x": "a", "y": "b"}),
        ("event.type == 'com.shop.order' && event['source'] == '/shop'", None),
        ("event.subject.startsWith('a/')", None),
        ("has(event.subject) && !has(event.tenant) && !('tenant' in event)", None),
        ("event.exists(name, event[name] == '7')", None),
        ("int(event.level) == 7", None),
        ("data.x == 1 // a remark", {"x": 1}),
        ("data.x // a remark", {"x": True}),
    ],
)  # fmt: skip
def test_an_expression_that_is_true_accepts(source: str, data: object) -> None:
    verdict = Where(source).verdict(sent(data, subject="a/1", level=7))
    assert verdict == (True, None, None, None)
    opposite = Where(f"!({source}\n)").verdict(sent(data, subject="a/1", level=7))
    assert (opposite.accepted, opposite.error) == (False, None)
    assert opposite.term == str(Where(f"!({source}\n)"))


@pytest.mark.parametrize(
    ("source", "data", "message"),
    [
        ("data.y == 1", {"x": 1}, '"y"'),
        ("data.x.y == 1", {"x": 1}, "non-message"),
        ("has(data.x)", None, "non-message"),
        ("data.x == 1", [1], "non-message"),
        ("data.x.y == 1", {"x": ["y"]}, "non-message"),
        ("data['x'] == 1", [1], "Index error"),
        ("data[5] == 1", [1], "Index error"),
        ("data.x > 'a'", {"x": 1}, "No matching overload"),
        ("1 / data.x == 1", {"x": 0}, "divide by zero"),
        ("data.x + 1 > 0", {"x": 2**63 - 1}, "overflow"),
        ("int(data.x) == 1", {"x": "a"}, "cannot convert"),
        ("timestamp(data.x) > timestamp(0)", {"x": "yesterday"}, "Timestamp"),
        ("event.tenant == 'x'", None, '"tenant"'),
        ("data.x", {"x": "yes"}, "neither true nor false"),
        ("data.x", {"x": None}, "neither true nor false"),
        ("data.x", {"x": [True]}, "neither true nor false"),
        ("data.x == 1", b"{", "not valid JSON"),
        ("data.x == 'a'", {"x": "a\0b"}, "NUL"),
        ("data['x'] == 'a'", {"x": {"a\0": 1}}, "NUL"),
        ("data.x > 1.0", b'{"x":' + b"9" * 400 + b"}", "too large for CEL"),
        ("data.x == 1", b'{"x":1,"y":"' + b"y" * MAX_DATA_BYTES + b'"}', "at most"),
    ],
)  # fmt: skip
def test_an_expression_that_fails_refuses_with_the_reason(source: str, data: object, message: str) -> None:
    verdict = Where(source).verdict(sent(data))
    assert (verdict.accepted, verdict.term) == (False, str(Where(source)))
    assert verdict.error is not None
    assert verdict.error.startswith("where: ")
    assert message in verdict.error
    assert len(verdict.error) < 300


def test_data_that_is_no_json_counts_as_none() -> None:
    text = Event.of("t", "/s", data="x", datacontenttype="text/plain")
    assert Where("data == null").accepts(text)
    assert Where("data == null").accepts(sent())


@pytest.mark.parametrize("content_type", ["application/json", None])
def test_data_that_is_not_valid_json_is_parsed_once_however_many_expressions_read_it(
    monkeypatch: pytest.MonkeyPatch, content_type: str | None
) -> None:
    """Each `where` and each `by` parsed it again."""
    parsed: list[bytes] = []

    def parse_json(text: bytes) -> object:
        parsed.append(text)
        raise EventError("data is not valid JSON: here")

    monkeypatch.setattr(content, "parse_json", parse_json)
    broken = Event.of("t", "/s", data=b"{", datacontenttype=content_type)
    for source in ("data.x == 1", "data.y == 1"):
        assert Where(source).verdict(broken).error == "where: data is not valid JSON: here"
        assert key_at("data.x", broken) is None
    assert parsed == [b"{"]


def test_data_is_not_looked_at_by_an_expression_without_it() -> None:
    broken = sent(b"{" + b"x" * MAX_DATA_BYTES)
    assert Where("event.type == 'com.shop.order'").accepts(broken)
    assert Where("[1, 2].all(data, data > 0) && has(event.id)").accepts(broken)


def test_only_the_members_named_count_as_read() -> None:
    wide = {"x": {"y": 1, "z": ["w"] * LARGEST.values}, "v": "v" * LARGEST.text}
    assert Where("data.x.y == 1").accepts(sent(wide))
    message = Where("data.x != data.u").verdict(sent({**wide, "u": 1})).error or ""
    assert f"more than {LARGEST.values} values" in message
    message = (
        Where("data.v == data.x.y").verdict(sent({"v": "v" * (LARGEST.text + 1), "x": {"y": 1}})).error or ""
    )
    assert f"more than {LARGEST.text} bytes" in message


def test_a_value_nested_too_deep_is_not_read() -> None:
    deep: object = 1
    for _ in range(MAX_NESTING - 1):
        deep = [deep]
    assert Where("data == data").accepts(sent(deep))
    message = Where("data == data").verdict(sent([[deep]])).error or ""
    assert f"more than {MAX_NESTING} levels deep" in message
    raw = b'{"x":' + b"[" * 900 + b"]" * 900 + b"}"
    assert not Where("data.x == data.x").accepts(sent(raw))


def test_a_null_leaves_the_interpreter_as_it_was() -> None:
    """The library returns null as a None without its own reference; repeated, this aborts Python 3.11."""
    before = sys.getrefcount(None)
    where, event = Where("data.x"), sent({"x": None})
    for _ in range(1000):
        where.verdict(event)
    assert abs(sys.getrefcount(None) - before) < 500 or sys.version_info >= (3, 12)


def test_forms_and_copies_are_equal() -> None:
    where = Where("data.x == 'a\"b' // \u00e9")
    assert eval(str(where), {"Where": Where}) == where
    assert pickle.loads(pickle.dumps(where)) == copy.deepcopy(where) == where
    assert hash(pickle.loads(pickle.dumps(where))) == hash(where)
    assert where != Where("data.x == 'a\"b'")
    assert where.to_json() == {"where": where.source}
    with pytest.raises(AttributeError):
        where.source = "true"  # type: ignore[misc]


def test_threads_may_share_an_expression() -> None:
    where = Where("data.n % 2 == 0 && data.s.matches('^a+$')")

    def run(seed: int) -> bool:
        numbers = [random.Random(seed * 1000 + n).randrange(1000) for n in range(200)]
        return all(where.accepts(sent({"n": n, "s": "aaa"})) == (n % 2 == 0) for n in numbers)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(8)))
