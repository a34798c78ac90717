"""Which entries a look-up touches, which filters it evaluates how often. Cases: docs/use/conditions.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import pytest
from interlock.conditions import Condition, ConditionError, Hit, Matcher, MatcherIndex, count, event
from interlock.conditions.filters import (
    All,
    Any,
    Exact,
    Filter,
    FilterDecision,
    Not,
    Prefix,
    Sql,
    Suffix,
    Where,
)
from interlock.conditions.index import checks, matcher_index
from interlock.events import Event

Subscription = tuple[Condition, str | None]


def index_of(**conditions: Condition) -> MatcherIndex[str]:
    """An index of subscriptions without a key, by their handles."""
    index: MatcherIndex[str] = MatcherIndex()
    for handle, condition in conditions.items():
        index.add(handle, condition)
    return index


def test_a_given_key_gathers_keyed_and_unkeyed_matchers_under_it() -> None:
    """K23"""
    index: MatcherIndex[str] = MatcherIndex()
    index.add("w", event("a", by="subject") & event("b"), "20261120")
    assert index.lookup(Event.of("a", "/s", subject="2026-11-20")) == [Hit("w", (0,), "2026-11-20")]
    assert index.lookup(Event.of("a", "/s", subject="2026-11-21")) == []
    assert index.lookup(Event.of("b", "/s", subject="2026-11-21")) == [Hit("w", (1,), "2026-11-20")]


def test_a_composite_key_is_given_as_its_values_or_as_its_text() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    index.add("values", event("a", by=("subject", "tenant")), ("20261120", "eur"))
    index.add("text", event("a", by=("subject", "tenant")), '["2026-11-20","eur"]')
    hits = index.lookup(Event.of("a", "/s", subject="2026-11-20", tenant="eur"))
    assert {hit.handle for hit in hits} == {"values", "text"}
    assert {hit.key for hit in hits} == {'["2026-11-20","eur"]'}


def test_an_event_read_with_two_keys_reaches_both() -> None:
    """K24"""
    index = index_of(d=event("a", by="subject") & event("a", by="tenant"))
    hits = index.lookup(Event.of("a", "/s", subject="x", tenant="y"))
    assert set(hits) == {Hit("d", (0,), "x"), Hit("d", (1,), "y")}


def test_equal_matchers_with_two_labels_are_one_hit_with_both_numbers() -> None:
    """M8"""
    index = index_of(s=event("a", label="l") & event("a", label="r", keep="all", limit=3))
    assert index.lookup(Event.of("a", "/s")) == [Hit("s", (0, 1), "")]


def test_a_hit_has_the_values_that_its_matchers_count() -> None:
    """Q5"""
    index = index_of(
        runs=count(event("a", label="each"), 2, distinct="data.run") & event("a"),
        other=event("a"),
        none=event("b"),
    )
    hits = {hit.handle: hit for hit in index.lookup(Event.of("a", "/s", data={"run": 20261120}))}
    assert hits == {"runs": Hit("runs", (0, 1), "", {0: "2026-11-20"}), "other": Hit("other", (0,), "")}
    assert index.lookup(Event.of("a", "/s", data={"run": None}))[0].handle in hits
    assert {hit.matchers for hit in index.lookup(Event.of("a", "/s")) if hit.handle == "runs"} == {(1,)}
    index.remove("runs")
    assert index.lookup(Event.of("a", "/s", data={"run": 1})) == [Hit("other", (0,), "")]
    alone = index_of(runs=count(event("a"), 2, distinct="data.run"))
    assert alone.lookup(Event.of("a", "/s")) == []


def test_a_negated_matcher_is_found_as_any_other() -> None:
    index = index_of(s=(event("a") & ~event("b")).within("1h"))
    assert index.lookup(Event.of("b", "/s")) == [Hit("s", (1,), "")]


def test_a_handle_is_taken_once() -> None:
    index = index_of(s=event("a"))
    with pytest.raises(ConditionError, match="'s' is in the index already"):
        index.add("s", event("b"))
    index.remove("s")
    index.remove("s")
    index.add("s", event("b"))
    assert "s" in index


def test_a_condition_that_cannot_stand_alone_is_refused_and_leaves_nothing() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    for condition, key in (
        (event("a") & ~event("b"), None),
        (event("a"), "x"),
        (event("a", by="subject"), ""),
    ):
        with pytest.raises(ConditionError):
            index.add("s", condition, key)
    assert len(index) == 0
    assert index._types == {}


def test_a_subscription_that_is_twice_in_one_place_is_removed_without_its_neighbour() -> None:
    alone = index_of(stays=event("a"))
    index = index_of(stays=event("a"), goes=event("a", label="l") & event("a", label="r"))
    index.remove("goes")
    assert index.lookup(Event.of("a", "/s")) == [Hit("stays", (0,), "")]
    assert index._types == alone._types  # nothing is left


def test_conditions_whose_filters_contradict_each_other_reach_nothing_and_can_be_removed() -> None:
    contradiction = All(Exact(tenant="x"), Exact(tenant="y"))
    index = index_of(s=event("a", filters=[Any(Exact(type="b"), contradiction)]))
    assert index.lookup(Event.of("a", "/s", tenant="x")) == []
    assert index.lookup(Event.of("b", "/s", tenant="x")) == []
    index.remove("s")
    assert len(index) == 0


# -- what is touched


class Touched:
    """A handle that counts how often the index hashes or compares it."""

    def __init__(self) -> None:
        self.times = 0

    def __hash__(self) -> int:
        self.times += 1
        return id(self)

    def __eq__(self, other: object) -> bool:
        self.times += 1
        return self is other


class Asked(Filter):
    """A filter that counts its evaluations by name; every event passes."""

    times: ClassVar[Counter[str]] = Counter()

    def __init__(self, name: str) -> None:
        self.name = name

    def verdict(self, event: Event) -> FilterDecision:
        self.times[self.name] += 1
        return FilterDecision(True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"Asked({self.name})"


@pytest.fixture(autouse=True)
def _asked_nothing() -> None:
    Asked.times.clear()


SENT = Event.of("t", "/s", subject="orders/7/x.csv", tenant="x", data={"k": "v"})


# {in what subscriptions differ: the subscription with this number}
SUBSCRIBED: dict[str, Callable[[int], Subscription]] = {
    "types": lambda n: (event(f"other{n}"), None),
    "subjects": lambda n: (event("t", subject=f"s{n}"), None),
    "keys": lambda n: (event("t", by="subject"), f"other{n}"),
    "composite keys": lambda n: (event("t", by=("subject", "data.k")), f'["other","{n}"]'),
    "sources": lambda n: (event(source=f"/{n}"), None),
    "prefixes": lambda n: (event("t", filters=[Prefix(subject=f"orders/7{n}/")]), None),
    "prefixes of many lengths":
        lambda n: (event("t", filters=[Prefix(subject="orders/" + "9" * (n + 1))]), None),
    "suffixes": lambda n: (event("t", filters=[Suffix(subject=f"{n}.csv")]), None),
    "prefixes of the type": lambda n: (event(filters=[Prefix(type=f"t{n}")]), None),
    "suffixes below one prefix":
        lambda n: (event("t", filters=[Prefix(subject="orders/"), Suffix(subject=f"{n}.csv")]), None),
    "alternatives":
        lambda n: (event("t", filters=[Any(Exact(tenant=f"x{n}"), Prefix(subject=f"b{n}"))]), None),
    "alternatives below one prefix":
        lambda n: (event("t", filters=[Prefix(subject="orders/"), Any(Exact(tenant=f"{n}"))]), None),
    "joined with what is evaluated":
        lambda n: (event("t", filters=[All(Prefix(tenant=f"{n}"), Not(Exact(tenant="y")))]), None),
    "evaluated below a prefix":
        lambda n: (event("t", filters=[Prefix(subject=f"{n}"), Asked(f"other{n}")]), None),
    "evaluated below a key": lambda n: (event("t", filters=[Asked(f"other{n}")], by="subject"), f"other{n}"),
}  # fmt: skip


@pytest.mark.parametrize("subscribe", SUBSCRIBED.values(), ids=SUBSCRIBED)
def test_a_lookup_touches_no_subscription_that_the_event_does_not_reach(
    subscribe: Callable[[int], Subscription], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[object] = Counter()

    def counted_key_at(path: str | tuple[str, ...], sent: Event) -> str | None:
        read[path] += 1
        return key_at(path, sent)

    key_at = matcher_index.key_at
    monkeypatch.setattr(Matcher, "accepts", None)
    monkeypatch.setattr(matcher_index, "key_at", counted_key_at)
    index: MatcherIndex[Touched] = MatcherIndex()
    others = [Touched() for _ in range(500)]
    for number, handle in enumerate(others):
        index.add(handle, *subscribe(number))
    wanted = Touched()
    index.add(wanted, event("t", by="subject"), "orders/7/x.csv")
    before = sum(handle.times for handle in others)
    hits = index.lookup(SENT)
    assert [hit.handle for hit in hits] == [wanted]
    assert sum(handle.times for handle in others) == before
    assert not Asked.times
    assert set(read.values()) == {1}


def test_equal_paths_are_read_once_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[object] = Counter()
    key_at = matcher_index.key_at
    monkeypatch.setattr(matcher_index, "key_at", lambda path, sent: read.update([path]) or key_at(path, sent))
    index: MatcherIndex[tuple[str, int]] = MatcherIndex()
    for number in range(3):
        index.add(("one", number), event("t", tenant="x", by="subject"), f"s{number}")
        index.add(("other", number), event("t", by="subject"))
        index.add(("both", number), event("t", source="/s", by=("subject", "data.k")))
    assert len(index.lookup(SENT)) == 6
    assert read == {"subject": 1, ("subject", "data.k"): 1}


def test_a_subscription_whose_routes_cannot_be_made_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index: MatcherIndex[str] = MatcherIndex()
    condition = event("t") & event("t", filters=[Asked("f")], where="data.k == 'v'")
    with monkeypatch.context() as patched:
        patched.setattr(Where, "equalities", {("event", "subject"): "\ud800"})
        with pytest.raises(ConditionError, match="not valid Unicode"):
            index.add("s", condition)
    assert "s" not in index
    assert index.lookup(SENT) == []
    index.add("s", condition)
    assert index.lookup(SENT) == [Hit("s", (0, 1), "")]


# -- what is evaluated


def test_equal_filters_are_evaluated_once_an_event_wherever_they_stand() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    index.add("alone", event("t", filters=[Asked("f")]))
    index.add("negated", event("t", filters=[Not(Asked("f"))]))
    index.add("an alternative", event(source="/s", filters=[Any(Asked("f"), Prefix(subject="a"))]))
    index.add("inside all", event(source="/s", filters=[Not(All(Asked("f"), Exact(tenant="no")))]))
    index.add("keyed", event("t", filters=[Asked("f")], by="subject"))
    index.add("waiting for a key", event("t", filters=[Asked("f")], by="subject"), "orders/7/x.csv")
    for times in (1, 2):
        hits = {hit.handle for hit in index.lookup(SENT)}
        assert hits == {"alone", "an alternative", "inside all", "keyed", "waiting for a key"}
        assert Asked.times == {"f": times}


@pytest.mark.parametrize(
    ("kind", "matcher"),
    [
        (Where, lambda prefix: event("t", filters=[prefix], where="data.k == 'v'")),
        (Sql, lambda prefix: event("t", filters=[prefix, Sql("tenant = 'x'")])),
    ],
    ids=["where", "sql"],
)
def test_equal_predicates_are_evaluated_once_an_event(
    kind: type[Filter], matcher: Callable[[Filter], Matcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    verdict = kind.verdict
    monkeypatch.setattr(kind, "verdict", lambda self, sent: asked.update([str(self)]) or verdict(self, sent))
    index: MatcherIndex[int] = MatcherIndex()
    for number in range(20):
        index.add(number, matcher(Prefix(subject="orders/"[: 1 + number % 7])))
    assert len(index.lookup(SENT)) == 20
    assert list(asked.values()) == [1]


def test_cheap_filters_decide_before_predicates() -> None:
    index = index_of(s=event("t", filters=[Asked("f"), Not(Prefix(subject="orders/"))]))
    assert index.lookup(SENT) == []
    assert not Asked.times


def test_a_filter_that_is_no_longer_used_is_not_evaluated() -> None:
    index = index_of(
        one=event("t", filters=[Not(Asked("f"))]),
        other=event("t", filters=[Not(Asked("f")), Asked("g")]),
        third=event("t", filters=[Asked("g")]),
    )
    index.remove("other")
    index.remove("one")
    assert index.lookup(SENT) == [Hit("third", (0,), "")]
    assert Asked.times == {"g": 1}
    assert len(index._checks) == 1


# -- errors


def test_a_filter_that_fails_is_no_match_and_counted_once_an_event() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    sql, where = Sql("INT(tenant) > 5"), Where("data.none.at.all > 1")
    index.add("sql", event("t", filters=[sql]))
    index.add("both", event("t", filters=[Any(sql, Exact(tenant="no"))], where=where.source))
    index.add("negated", event("t", filters=[Not(sql)]))
    index.add("where", event("t", where=where.source))
    assert index.lookup(SENT) == [Hit("negated", (0,), "")]
    assert index.errors == {str(sql): 1, str(where): 1}
    index.lookup(SENT)
    assert index.errors == {str(sql): 2, str(where): 2}
    index.errors.clear()
    index.lookup(Event.of("t", "/s", tenant="6"))
    assert index.errors == {str(where): 1}


def test_a_filter_that_raises_is_no_match_and_counted() -> None:
    class Faulty(Asked):
        def verdict(self, event: Event) -> FilterDecision:
            raise KeyError("k")

    index = index_of(s=event("t", filters=[Faulty("f")]), other=event("t"))
    assert index.lookup(SENT) == [Hit("other", (0,), "")]
    assert index.errors == {"Asked(f)": 1}


def test_errors_of_filters_beyond_the_limit_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "MAX_ERRORS", 3)
    index: MatcherIndex[int] = MatcherIndex()
    for number in range(5):
        index.add(number, event("t", filters=[Sql(f"INT(tenant) > {number}")]))
    assert index.lookup(SENT) == index.lookup(SENT) == []
    assert len(index.errors) == 3
    assert index.errors[checks.OTHER_FILTERS] == 6
    assert index.errors.total() == 10


@pytest.mark.parametrize(
    ("where", "data", "reached"),
    [
        ("data.k == 'v'", {"k": "v"}, True),
        ("data.k == 'v'", {"k": "w"}, False),
        ("'v' == data.k && data.n > 0", {"k": "v", "n": 1}, True),
        ("'v' == data.k && data.n > 0", {"k": "v", "n": 0}, False),
        ("data.n == 5", {"n": 5.0}, True),
        ("data.n == 5", {"n": True}, False),
        ("data.n == 1", {"n": True}, False),
        ("data.n == -0.5 && data.a.b == 'x' && data.c == 'y'", {"n": -0.5, "a": {"b": "x"}, "c": "y"}, True),
        ("data.k == 'v' || data.n == 5", {"n": 5}, True),
        ("!(data.k == 'v')", {"k": "w"}, True),
        ("event.tenant == 'bank' && data.k == 'v'", {"k": "v"}, True),
        ("event.tenant == 'shop' && data.k == 'v'", {"k": "v"}, False),
        ("data['k'] == 'v'", {"k": "v"}, True),
    ],
)
def test_a_predicate_found_by_its_equalities_decides_as_it_does_alone(
    where: str, data: dict[str, object], reached: bool
) -> None:
    sent = Event.of("t", "/s", id="1", tenant="bank", data=data)
    matcher = event("t", where=where)
    index = index_of(w=matcher)
    assert bool(index.lookup(sent)) is reached is matcher.accepts(sent)
    index.remove("w")
    assert len(index) == 0


def test_of_predicates_that_need_different_values_only_those_of_the_event_are_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    plain = Where.verdict

    def counting(where: Where, sent: Event) -> FilterDecision:
        asked.append(where.source)
        return plain(where, sent)

    monkeypatch.setattr(Where, "verdict", counting)
    index: MatcherIndex[int] = MatcherIndex()
    for n in range(100):
        index.add(n, event("t", where=f"data.order == {n} && data.rows > 0"))
    hits = index.lookup(Event.of("t", "/s", id="1", data={"order": 7, "rows": 2}))
    assert [hit.handle for hit in hits] == [7]
    assert asked == ["data.order == 7 && data.rows > 0"]


@pytest.mark.parametrize(
    "matcher",
    [
        lambda n: event("t", **{f"x{n}": "1"}),
        lambda n: event("t", filters=[Prefix({f"x{n}": "1"})]),
        lambda n: event("t", filters=[Suffix({f"x{n}": "1"})]),
    ],
    ids=["exact", "prefix", "suffix"],
)
def test_an_event_looks_up_only_its_own_attributes_however_many_others_are_named(
    matcher: Callable[[int], Matcher],
) -> None:
    index: MatcherIndex[int] = MatcherIndex()
    for n in range(300):
        index.add(n, matcher(n))

    class Counting(dict[str, str]):
        asked = 0

        def get(self, *arguments: str) -> str | None:  # type: ignore[override]
            Counting.asked += 1
            return super().get(*arguments)

    sent = Event(Counting({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "x7": "1"}))
    assert [hit.handle for hit in index.lookup(sent)] == [7]
    assert Counting.asked < 20
