"""Errors of `where` in CEL: an invalid or too costly expression, and what to write instead."""

from __future__ import annotations

import json
import re

import pytest
from interlock.conditions import Condition, ConditionError, event, from_json
from interlock.conditions.filters import Where
from interlock.conditions.filters.cel.where import MAX_SOURCE_CHARS


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "event(where='') is empty"),
        ("data.x ==", "Syntax error"),
        ("data.x = 1", "Syntax error"),
        ("data.x == 1) || (true", "Syntax error"),
        ("'a", "Syntax error"),
        ("datum.x == 1", "undeclared reference to 'datum.x'"),
        ("event.type == 1", "no matching overload"),
        ("data.x.sum() == 1", "undeclared reference to 'sum'"),
        ("1 + 1", "it gives a value of type int"),
        ("event.type", "it gives a value of type string"),
        ("[true]", "it gives a value of type list"),
        ("data.x.matches(data.y)", "pattern as a literal"),
        ("data.x.matches('(')", "pattern '(' does not close a group"),
        ("data.x.matches('a)')", "closes a group"),
        ("data.x.matches('[a')", "does not close a class"),
        ("data.x.matches('(?<=a)b')", "invalid regular expression"),
        ("data.x.matches(r'(a)\\1')", "invalid regular expression"),
        ("data.x.matches('" + "a" * 257 + "')", "at most 256"),
        ("data.x.matches('((a?){50}){20}x')", "it could take"),
        ("data.x.matches(r'\\pL{100}')", "it could take"),
        ("data.x.exists(i, i.matches(r'\\pL'))", "it could take"),
        ("data.a.exists(a, data.b.exists(b, data.c.exists(c, a == b)))", "more than 2 levels deep"),
        ("timestamp(data.t).getHours(data.zone) == 1", "time zone as a literal"),
        ("timestamp(data.t).getHours('/dev/zero') == 1", "there is no such time zone"),
        ("timestamp(data.t).getHours('../../etc/localtime') == 1", "there is no such time zone"),
        ("timestamp(data.t).getHours('localtime') == 1", "there is no such time zone"),
        ("timestamp(data.t).getHours('Europe/../../etc/localtime') == 1", "there is no such time zone"),
        ("google.protobuf.Struct{} == data", "it builds a message google.protobuf.Struct"),
        ("x" * (MAX_SOURCE_CHARS + 1), "at most 1024"),
        ("\ud800", "is not valid Unicode"),
    ],
)  # fmt: skip
def test_an_invalid_or_too_costly_expression_is_an_error(source: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Where(source)
    assert message in str(caught.value)


def test_an_expression_is_a_string() -> None:
    with pytest.raises(ConditionError, match="is an int: give a predicate in CEL"):
        Where(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("subject == 'a'", "write event.subject, or data.subject for a value in the data (1:1: undeclared"),
        ("data.x == 1 && size(subject) > 1", "write event.subject, or"),
        ("amount > 3", "write data.amount, or event.amount for an attribute (1:1: undeclared"),
        ("order.myId == 3", "write data.order.myId (1:6: undeclared"),
        ("Data.x == 3", "write data for Data ("),
        ("data.x == True", "write true for True ("),
        ("data.x == None", "write null for None ("),
        ("type == 'a'", "write event.type, or data.type for a value in the data ("),
        ("data.n = 1", "write == for = (1:8: Syntax error: token recognition error at: '= ')"),
        ("data.n === 1", "write == for === ("),
        ("data.n <> 1", "write != for <> ("),
        ("data.n =< 1", "write <= for =< ("),
        ("data.a == 1 and data.b == 1", "write && for and ("),
        ("data.a = 1 OR data.b == 1", "write == for =, || for OR ("),
        ("data.a & data.b | data.c", "write && for &, || for | ("),
        ("not data.a", "write ! for not ("),
        ("not (data.a == ' and ')", "write ! for not (1:5: undeclared"),
        ("event.level > 3", "attributes are strings: write int(event.level) > 3 (1:13: found no matching"),
        ("3 == event['level']", "attributes are strings: write 3 == int(event['level']) ("),
        ("event.level <= 2.5", "attributes are strings: write double(event.level) <= 2.5 ("),
        ("event.level in [1, 2]", "attributes are strings: write int(event.level) in [1, 2] ("),
        ("event.urgent == true", "attributes are strings: write event.urgent == 'true' ("),
        ("event.level > int(data.x)", "attributes are strings: write int(event.level) ("),
        ("data.x == 1 &&\n event.level > 3", "write int(event.level) > 3 (2:14: "),
        ("data.x.matches('\\d+')", r"a \ in a text is doubled, as in '\\d', or the text is raw: r'\d' ("),
        ("data.x == \u2018a\u2019", "texts are in straight quotes, ' or \" ("),
        ("data.x =~ '^a'", "write .matches('...') for =~ ("),
        ("data.x contains 'a'", "write x.contains('...') for x contains '...' ("),
        ("data.x not in ['a']", "write !(x in ['a', 'b']) for not in ("),
        ("!data.x in ['a']", "write !(x in ['a', 'b']), because ! binds tighter than in ("),
        ("data.x == 'a' || 'b'", "for one of several texts write x in ['a', 'b'] ("),
        ("1 < data.x < 5", "write 1 < x && x < 5 for 1 < x < 5 ("),
        ("data.lines[*].sku == 'a'", "write data.lines.exists(x, x.sku == 'a') for data.lines[*] ("),
        ("data.x between 1 and 5", "write x >= 1 && x <= 5 for x between 1 and 5 ("),
        ("data.x == nil", "write null for nil ("),
        ("has(data['x'])", "write has(data.x), or 'x' in data"),
        ("timestamp(event.time) > '2026-11-20T00:00:00Z'", "write timestamp('2026-11-20T00:00:00Z') for the"),
        ("event.time > timestamp('2026-11-20T00:00:00Z')", "strings: write timestamp(event.time) ("),
        ("timestamp(data.t) <= event['due']", "attributes are strings: write timestamp(event['due']) ("),
        ("event.age > duration('1h')", "attributes are strings: write duration(event.age) ("),
        ("duration(data.d) > '1h'", "write duration('1h30m') for the text ("),
        ("event.time.getHours() > 3", "write timestamp(x).getHours(), because a text has no getHours() ("),
        ("timestamp(data.t) > timestamp('2026-11-20')", "Write it with a zone, as in '2026-11-20T06:00:00Z'"),
        ("timestamp(data.t) > timestamp(data.u) + duration('1d')", "Write it in h, m and s, as in '24h'"),
    ],
)  # fmt: skip
def test_a_common_mistake_is_an_error_that_says_what_to_write(source: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Where(source)
    assert str(caught.value).split(": ", 1)[1].startswith(message) or message in str(caught.value)
    assert len(str(caught.value)) < len(source) + 300


@pytest.mark.parametrize(
    "source",
    ["data.x == 'and = &'  )", "data.or == 1 )", "data.x == 1 ) // not = or", "data.x.sum() == 1"],
)
def test_other_errors_keep_the_librarys_text(source: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Where(source)
    assert "write" not in str(caught.value)
    assert re.search(r": 1:\d+: (Syntax error|undeclared)", str(caught.value))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("event.subject != null", "it is there or not: write has(event.subject) ("),
        ("null == event['subject']", "it is there or not: write !has(event.subject) ("),
        ("data.a == 1 && event.tenant == null", "write !has(event.tenant) ("),
    ],
)
def test_an_attribute_compared_with_null_is_an_error_that_names_has(source: str, message: str) -> None:
    """As in tektoncd/triggers#952 and aws/aws-cdk#8660. The error advised int(event.subject)."""
    with pytest.raises(ConditionError) as caught:
        Where(source)
    assert message in str(caught.value)
    assert "int(" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("data.branch.lowerAscii() == 'main'", "texts cannot be converted here: compare in any case with"),
        ("data.ref.split('/')[2] == 'main'", "texts cannot be taken apart here: write startsWith"),
        ("timestamp(event.time) < now()", "there is no clock here"),
        ("len(data.items) > 1", "write size(...) ("),
        ("data.name.includes('a')", "write .contains('a') for a text"),
        ("event.subject.startswith('a')", "write startsWith ("),
        ("data.?a.orValue('x') == 'x'", "write has(data.a) && data.a == 'x'"),
    ],
)
def test_a_function_of_another_language_is_an_error_that_says_what_to_write(
    source: str, message: str
) -> None:
    """As in tektoncd/triggers#952: filters that were written for CEL with other extensions."""
    with pytest.raises(ConditionError) as caught:
        Where(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "write"),
    [
        ("event.time > '2026-11-20T10:00:00Z'", "write timestamp(event.time)"),
        ("data.a == 1 && !(data.since <= event['time'])", "write timestamp(event.time)"),
        ("event.time >= param.since", "write timestamp(event.time)"),
        ("event.level > '5'", "write int(event.level) and 5 without quotes"),
        ("data.l.exists(e, '10' >= event.attempt)", "write int(event.attempt) and 10 without quotes"),
    ],
)
def test_an_order_of_texts_where_times_or_numbers_are_meant_is_an_error(source: str, write: str) -> None:
    """As in microsoft/typeagent-py#320 and xregistry/spec#588: 10:30+02:00 came after 10:00Z."""
    with pytest.raises(ConditionError) as caught:
        event("t", where=source)
    assert write in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "timestamp(event.time) > timestamp('2026-11-20T10:00:00Z')",
        "event.day >= '20261120'",
        "event.day >= '2026-11-20'",
        "event.version > '1.4.0'",
        "event.time == '2026-11-20T10:00:00Z'",
        "data.l.exists(event, event.time > 'a')",
    ],
)
def test_an_order_of_texts_that_is_meant_is_accepted(source: str) -> None:
    Where(source)


def test_a_stored_condition_keeps_its_order_of_texts() -> None:
    stored = event("t", where="has(event.time)").to_json()
    old = json.loads(json.dumps(stored).replace("has(event.time)", "event.time > '2026'"))
    assert isinstance(from_json(old), Condition)
    assert from_json(old).to_json() == old


@pytest.mark.parametrize(
    "source", ["true", "1 / 0 == 1", "size('abc') == 3", "[1, 2].exists(data, data > 1)", "dyn(true)"]
)
def test_an_expression_that_reads_nothing_is_refused(source: str) -> None:
    with pytest.raises(
        ConditionError, match="it reads neither data nor event, so it is the same for every event"
    ):
        Where(source)


NESTED = [
    "({})",
    "!({})",
    "[{}][0]",
    "{{'a': {}}}.a",
    "true ? {} : false",
    "[1].all(i, {})",
    "bool(string({}))",
]


@pytest.mark.parametrize("around", NESTED)
def test_nesting_ends_in_an_error_before_the_stack_does(around: str) -> None:
    """The library limits the levels itself; the test tries the deepest that the length allows."""
    for opening in (around, around.split("{}")[0] + "{}"):
        source = "data.x"
        while len(opening.format(source)) <= MAX_SOURCE_CHARS:
            source = opening.format(source)
        with pytest.raises(ConditionError):
            Where(source)


@pytest.mark.parametrize(
    ("where", "write"),
    [
        ("event.partition_key == 'x'", r"write event.partitionkey, or data.partition_key for a value in"),
        ("event['content-type'] == 'x'", r"write event.contenttype, or data\['content-type'\] for a value"),
        ("event.Subject == 'a' || event.subject == 'a'", "write event.subject"),
        ("has(event.my_ext) && data.a == 1", "write event.myext"),
        ("event.data == 'x'", "event.data is never there: the data is a variable by itself, data"),
        ("event['\u00e9'] == 'x'", "write another name"),
    ],
)
def test_an_attribute_that_no_event_can_have_is_an_error_that_says_what_to_write(
    where: str, write: str
) -> None:
    """They were accepted, and failed on every event."""
    with pytest.raises(ConditionError, match=write):
        Where(where)


def test_a_member_of_the_data_may_have_any_name() -> None:
    for text in ("data.partition_key == 'x'", "data['content-type'] == 'x'", "data.exists(e, e.My_x == 1)"):
        Where(text)
    Where("data.events.exists(event, event.my_ext == 'a')")  # a variable of the loop
