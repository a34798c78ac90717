"""The matcher: filters, where, composite keys, keep. Case ids: docs/use/conditions.md."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions import ConditionError, Matcher, event, filters
from interlock.conditions.filters import All, Exact, Filter, Not, Prefix, Sql, Suffix, Where
from interlock.conditions.filters import Any as AnyOf
from interlock.conditions.nodes.matcher import DEFAULT_LIMIT, MAX_LIMIT
from interlock.conditions.nodes.templates import is_template
from interlock.events import Event

NAMES = {"event": event, **{name: getattr(filters, name) for name in filters.__all__}}
SENT = Event.of("t", "/s", subject="orders/1", data={"x": 2, "day": 20261120, "cur": "eur"})


def test_all_filters_must_pass() -> None:
    """M9"""
    assert event("t", filters=[Prefix(subject="orders/"), Suffix(source="s")]).accepts(SENT)
    assert not event("t", filters=[Prefix(subject="orders/"), Suffix(source="x")]).accepts(SENT)
    assert not event("u", filters=[Prefix(subject="orders/")]).accepts(SENT)
    assert event("t", where="data.x == 2").accepts(SENT)
    assert not event("t", filters=[Prefix(subject="orders/")], where="data.x == 3").accepts(SENT)


def test_filters_are_given_as_objects_or_in_their_json_form() -> None:
    form = [{"prefix": {"subject": "orders/"}}, {"not": {"exact": {"type": "u"}}}]
    assert event("t", filters=form) == event("t", filters=[Prefix(subject="orders/"), Not(Exact(type="u"))])


def test_a_matcher_may_name_no_exact_attribute() -> None:
    """M2"""
    assert event(filters=[Prefix(type="t")]).accepts(SENT)
    assert event(where="data.x > 1").accepts(SENT)
    for build in (lambda: event(), lambda: event(filters=[])):
        with pytest.raises(ConditionError, match="would match every event"):
            build()


def test_exact_filters_are_one_with_the_attributes_named() -> None:
    """M10"""
    same = event("t", source="/s", subject="a")
    assert event("t", filters=[Exact(source="/s"), Exact(subject="a")]) == same
    assert event(filters=[All(Exact(type="t"), All(Exact(source="/s", subject="a")))]) == same
    assert event("t", source="/s", filters=[{"exact": {"subject": "a", "type": "t"}}]) == same
    assert hash(event("t", source="/s", filters=[Exact(subject="a")])) == hash(same)
    assert str(event("t", filters=[Exact(source="/s"), Exact(subject="a")])) == str(same)


def test_filters_in_all_are_the_same_as_beside_each_other() -> None:
    """M10"""
    left, right = Prefix(subject="a"), Suffix(subject="b")
    assert event(filters=[All(left, right), left]) == event(filters=[left, right])
    assert event(filters=[left, right]) != event(filters=[right, left])


def test_two_exact_values_of_one_attribute_are_refused() -> None:
    """M10"""
    with pytest.raises(ConditionError, match=r"attribute type must equal both 't' and 'u'.*Any\(Exact"):
        event("t", filters=[Exact(type="u")])
    assert event(filters=[AnyOf(Exact(type="t"), Exact(type="u"))]).accepts(SENT)


@pytest.mark.parametrize(
    ("matcher", "term", "attribute"),
    [
        (event("t", subject="x"), 'Exact(subject="x")', "subject"),
        (event("t", filters=[Prefix(subject="x")]), 'Prefix(subject="x")', "subject"),
        (event("t", filters=[Not(Sql("INT(subject) = 1"))], where="data.x > 2"), 'Where("data.x > 2")', None),
        (event("t"), None, None),
    ],
)
def test_a_verdict_names_the_term_that_refused(
    matcher: Matcher, term: str | None, attribute: str | None
) -> None:
    verdict = matcher.verdict(SENT)
    assert (verdict.accepted, verdict.term, verdict.attribute) == (term is None, term, attribute)
    assert matcher.accepts(SENT) == verdict.accepted


def test_the_verdict_has_the_error_of_a_filter() -> None:
    """M11"""
    failing = event("t", filters=[Not(Sql("INT(subject) = 1"))])
    assert failing.verdict(SENT).accepted
    assert "not an Integer" in (failing.verdict(SENT).error or "")
    failing = event("t", filters=[Not(Sql("INT(subject) = 1"))], where="data.x > 2")
    assert "not an Integer" in (failing.verdict(SENT).error or "")
    missing = event("t", where="data.y > 2").verdict(SENT)
    assert (missing.accepted, missing.term) == (False, 'Where("data.y > 2")')
    assert '"y"' in (missing.error or "")


def test_several_paths_make_a_composite_key() -> None:
    """K14"""
    matcher = event("t", by=["data.day", "data.cur"])
    assert matcher.by == ("data.day", "data.cur")
    assert matcher == event("t", by=("data.day", "data.cur"))
    assert matcher.key_of(SENT) == '["2026-11-20","eur"]'
    assert event("t", by=("subject", "data.x")).key_of(SENT) == '["orders/1","2"]'


def test_an_event_without_a_part_of_a_composite_key_has_no_key() -> None:
    """K20"""
    assert event("t", by=("data.day", "data.nothing")).key_of(SENT) is None
    assert event("t", by=("tenant", "data.day")).key_of(SENT) is None
    long = Event.of("t", "/s", subject="x" * 300, data={"x": "y" * 300})
    assert event("t", by=("subject", "data.x")).key_of(long) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": []}, "event(by=[...]) has 0 paths"),
        ({"by": ("subject",)}, "event(by=[...]) has 1 path:"),
        ({"by": [f"a{n}" for n in range(9)]}, "event(by=[...]) has 9 paths"),
        ({"by": ("subject", "subject")}, 'event(by=("subject", "subject")) names a path twice'),
        ({"by": ("subject", "Data")}, "is not a path"),
        ({"by": ("subject", ("time", "id"))}, "event(by=...) is a tuple"),
        ({"by": {"subject"}}, "event(by=...) is a set"),
        ({"keep": "last"}, "event(keep='last'): give one of latest, first, all"),
        ({"keep": True}, "event(keep=True): give one of"),
        ({"limit": 3}, 'event(limit=...) needs keep="all"'),
        ({"keep": "first", "limit": 3}, 'event(limit=...) needs keep="all"'),
        ({"keep": "all", "limit": 0}, "event(limit=0): give a whole number from 1 to 1000"),
        ({"keep": "all", "limit": 1001}, "event(limit=1001)"),
        ({"keep": "all", "limit": True}, "event(limit=True)"),
        ({"keep": "all", "limit": 2.0}, "event(limit=2.0)"),
        ({"filters": Prefix(subject="x")}, "event(filters=...) is a Prefix: give a list"),
        ({"filters": ["x"]}, "filters[0] must be an object"),
        ({"filters": [Exact(type="t"), {"prefix": {}}]}, "filters[1].prefix: Prefix() has no attribute"),
        ({"filters": [Where("data.x")]}, "event(filters=...) holds a Where: write where="),
        ({"where": ""}, "event(where='') is empty"),
        ({"where": "data.x =="}, 'event(where="data.x ==")'),
        ({"where": ["data.x"]}, "event(where=...) is a list"),
        ({"topic": "x"}, "event(topic=...) is reserved"),
        ({"lable": "x"}, 'event(lable=...): did you mean label=? For an extension of this name write'),
        ({"lable": "x"}, 'filters=[Exact(lable="x")]'),
        ({"key": "data.d"}, "event(key=...): did you mean by=?"),
        ({"wher": "data.x"}, "did you mean where=?"),
        ({"filter": [Exact(type="t")]}, "event(filter=...): did you mean filters=?"),
        ({"limits": 5}, "did you mean limit=?"),
        ({"keeps": "all"}, "did you mean keep=?"),
        ({"typ": "x"}, "did you mean type=?"),
        ({"Subject": "x"}, "event(Subject=...): did you mean subject=?"),
        ({"data_schema": "x"}, "event(data_schema=...): did you mean dataschema=?"),
        ({"source": "/shop/*"}, "write filters=[Prefix(source=\"/shop/\")]; for a literal * write"),
        ({"subject": "*.csv"}, "event(subject='*.csv'): * is not a wildcard: write filters="),
        ({"subject": "*a*"}, "write where="),
        ({"subject": "*"}, 'leave subject out to accept any; for a literal * write filters=[Exact('),
        ({"by": 5}, 'event(by=...) is an int: give a path in a string, such as "subject" or "data.'),
        ({"label": 5}, "event(label=...) is an int: give a string"),
        ({"label": "__id__"}, "event(label='__id__'): Airflow's XCom reserves this name; give another"),
        ({"where": 5}, "event(where=...) is an int: give a predicate in CEL"),
        ({"filters": 5}, "event(filters=...) is an int: give a list"),
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    """M5, M6, M9 to M12, K16"""
    with pytest.raises(ConditionError) as caught:
        event("t", **arguments)
    assert message in str(caught.value)


def test_the_hint_about_booleans_is_given_for_values_of_attributes_only() -> None:
    for arguments, has_hint in (({"tenant": 5}, True), ({"by": 5}, False), ({"label": 5}, False)):
        with pytest.raises(ConditionError) as caught:
            event("t", **arguments)
        assert ("booleans" in str(caught.value)) is has_hint


EXTENSIONS = (
    "partitionkey sequence sequencetype traceparent tracestate dataref severitytext severitynumber"
    " sampledrate expirytime recordedtime authtype authid dataclassification correlationid causationid"
    " tenant level region urgent priority version team uid"
)


@pytest.mark.parametrize("name", EXTENSIONS.split())
def test_a_usual_extension_is_taken_for_none_of_the_arguments(name: str) -> None:
    assert event("t", **{name: "x"}) == event("t", filters=[Exact({name: "x"})])


@pytest.mark.parametrize("name", ["id", "time", "datacontenttype", "dataschema", "specversion"])
def test_a_core_attribute_is_named_as_it_is(name: str) -> None:
    assert event("t", **{name: "x"}).exact == tuple(sorted({"type": "t", name: "x"}.items()))


def test_a_value_that_a_keyword_refuses_can_be_given_with_exact() -> None:
    matcher = event(filters=[Exact(type="com.*", lable="a", key="b")])
    assert dict(matcher.exact) == {"type": "com.*", "lable": "a", "key": "b"}
    assert eval(str(matcher), NAMES) == matcher
    assert event(source="a*b").accepts(Event.of("t", "a*b"))


def test_keeping_all_has_a_limit() -> None:
    """M12"""
    assert event("t", keep="all") == event("t", keep="all", limit=DEFAULT_LIMIT)
    assert event("t", keep="all", limit=MAX_LIMIT).limit == MAX_LIMIT
    assert (event("t").keeps, event("t").limit) == (None, None)
    assert event("t", keep="latest") != event("t")


def test_the_filters_of_a_matcher_are_limited_together() -> None:
    many = [Prefix(subject=str(number)) for number in range(255)]
    event("t", filters=many)
    with pytest.raises(ConditionError, match="257 terms: at most 256"):
        event("t", filters=[*many, Suffix(subject="x")])


@pytest.mark.parametrize(
    ("matcher", "label"),
    [
        (event(filters=[Prefix(subject="orders/")]), "orders/"),
        (event(filters=[Not(Exact(type="x")), Suffix(type=".rates.published")]), "rates.published"),
        (event("com.shop.done", filters=[Prefix(subject="orders/")]), "shop.done"),
        (event(where="data.x > 1"), "event"),
        (event(filters=[Sql("EXISTS id")]), "event"),
    ],
)
def test_a_label_is_made_from_the_filters(matcher: Matcher, label: str) -> None:
    """M7"""
    assert matcher.default_label == label


def test_the_python_of_a_matcher_names_everything() -> None:
    matcher = event(
        "t",
        filters=[Prefix(subject="a/"), Exact(where="b")],
        where="data.x > 1 && event.id != 'a\"b'",
        by=("data.date", "subject"),
        label="l",
        keep="all",
        limit=5,
    )
    assert str(matcher) == (
        'event(type="t", filters=[Exact(where="b"), Prefix(subject="a/")],'
        ' where="data.x > 1 && event.id != \'a\\"b\'", by=("data.date", "subject"), label="l", keep="all",'
        " limit=5)"
    )
    assert eval(str(matcher), NAMES) == matcher


names = st.sampled_from(
    ["type", "source", "subject", "tenant", "by", "label", "where", "topic", "class", "1st", "lable", "key"]
)
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6) | st.sampled_from(
    ["a*", "*a", "*"]
)
texts = texts.filter(lambda text: not is_template(text))  # event() refuses templates
wanted = st.dictionaries(names, texts, min_size=1, max_size=3)
leaves: st.SearchStrategy[Filter] = st.one_of(
    *(wanted.map(kind) for kind in (Prefix, Suffix)),
    wanted.map(lambda attributes: Not(Exact(attributes))),
    st.just(Sql("INT(tenant) > 1")),
)
paths = st.sampled_from(["subject", "data.a.b", "time", "id"])
matchers = st.builds(
    lambda exact, rest, where, by, keep, limit: Matcher(
        exact.items(),
        by,
        filters=rest,
        where=where,
        keeps=keep,
        limit=limit if keep == "all" else None,
    ),
    wanted,
    st.lists(leaves, max_size=3),
    st.none() | st.sampled_from(["data.x > 1", "event.id == 'a\\'b'", "data.l.exists(i, i > 0)"]).map(Where),
    st.none() | paths | st.lists(paths, min_size=2, max_size=4, unique=True),
    st.sampled_from([None, "latest", "first", "all"]),
    st.none() | st.integers(1, MAX_LIMIT),
)


@given(matchers)
def test_every_form_of_a_matcher_builds_it_again(matcher: Matcher) -> None:
    assert eval(str(matcher), NAMES) == matcher
    assert hash(eval(str(matcher), NAMES)) == hash(matcher)
    assert pickle.loads(pickle.dumps(matcher)) == copy.deepcopy(matcher) == matcher


@given(matchers, wanted, st.none() | st.binary(max_size=20) | st.sampled_from([b'{"x":2}', b'{"l":[1,"a"]}']))
def test_accepts_and_the_verdict_agree_and_nothing_is_raised(
    matcher: Matcher, attributes: dict[str, str], data: bytes | None
) -> None:
    sent = Event({"id": "1", "type": "t", "source": "s", **attributes}, data)
    verdict = matcher.verdict(sent)
    assert matcher.accepts(sent) == verdict.accepted
    assert (verdict.term is None) == verdict.accepted
    matcher.key_of(sent)
