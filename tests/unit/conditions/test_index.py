"""The matcher index against brute force, and what a look-up touches. Case ids: docs/conditions.md."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions import Condition, ConditionError, Hit, Matcher, MatcherIndex, canonical_key, event
from interlock.conditions import index as index_module
from interlock.events import Event

matchers = st.builds(
    Matcher,
    st.dictionaries(
        st.sampled_from(["type", "source", "subject", "tenant"]), st.sampled_from(["x", "y"]), min_size=1
    ).map(lambda wanted: tuple(wanted.items())),
    st.sampled_from([None, "subject", "tenant", "data.k"]),
    # a label makes equal matchers two parts of one condition
    st.none(),
)
conditions = st.recursive(
    matchers,
    lambda inner: st.tuples(inner, inner, st.booleans()).map(lambda p: p[0] & p[1] if p[2] else p[0] | p[1]),
    max_leaves=4,
)
subscriptions = st.tuples(conditions, st.none() | st.sampled_from(["x", "y", "20261120"])).filter(
    lambda pair: _fits(*pair)
)
events = st.builds(
    lambda type_, source, subject, tenant, k: Event.of(
        type_, source, subject=subject, tenant=tenant, data={"k": k}
    ),
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from([None, "x", 20261120, [1]]),
)


def _fits(condition: Condition, key: str | None) -> bool:
    try:
        condition.check_key(key is not None)
    except ConditionError:
        return False
    return True


def brute_force(subs: dict[int, tuple[Condition, str | None]], sent: Event) -> set[Hit[int]]:
    hits: dict[tuple[int, str], list[int]] = {}
    for handle, (condition, key) in subs.items():
        for number, matcher in enumerate(condition.matchers):
            if not matcher.accepts(sent):
                continue
            read = matcher.key_of(sent) if matcher.by else ""
            if read is None:
                continue
            if key is not None:
                own = canonical_key(key)
                if matcher.by and read != own:
                    continue
                read = own
            hits.setdefault((handle, read), []).append(number)
    return {Hit(handle, tuple(numbers), key) for (handle, key), numbers in hits.items()}


@settings(max_examples=300)
@given(st.lists(subscriptions, max_size=8), st.lists(events, max_size=4), st.data())
def test_a_lookup_finds_what_every_matcher_asked_alone_would_accept(
    given_subs: list[tuple[Condition, str | None]], sent: list[Event], data: Any
) -> None:
    subs = dict(enumerate(given_subs))
    index: MatcherIndex[int] = MatcherIndex()
    for handle, (condition, key) in subs.items():
        index.add(handle, condition, key)
    for one in sent:
        hits = index.lookup(one)
        assert len(hits) == len(set(hits))
        assert set(hits) == brute_force(subs, one)
    for handle in data.draw(st.lists(st.sampled_from(sorted(subs)), unique=True) if subs else st.just([])):
        index.remove(handle)
        del subs[handle]
    for one in sent:
        assert set(index.lookup(one)) == brute_force(subs, one)
    for handle in list(subs):
        index.remove(handle)
    assert index._types == {}
    assert len(index) == 0


def test_a_given_key_gathers_keyed_and_unkeyed_matchers_under_it() -> None:
    """K23"""
    index: MatcherIndex[str] = MatcherIndex()
    index.add("w", event("a", by="subject") & event("b"), "20261120")
    assert index.lookup(Event.of("a", "/s", subject="2026-11-20")) == [Hit("w", (0,), "2026-11-20")]
    assert index.lookup(Event.of("a", "/s", subject="2026-11-21")) == []
    assert index.lookup(Event.of("b", "/s", subject="2026-11-21")) == [Hit("w", (1,), "2026-11-20")]


def test_an_event_read_with_two_keys_reaches_both() -> None:
    """K24"""
    index: MatcherIndex[str] = MatcherIndex()
    index.add("d", event("a", by="subject") & event("a", by="tenant"))
    hits = index.lookup(Event.of("a", "/s", subject="x", tenant="y"))
    assert set(hits) == {Hit("d", (0,), "x"), Hit("d", (1,), "y")}


def test_equal_matchers_with_two_labels_are_one_hit_with_both_numbers() -> None:
    """M8"""
    index: MatcherIndex[str] = MatcherIndex()
    index.add("s", event("a", label="l") & event("a", label="r"))
    assert index.lookup(Event.of("a", "/s")) == [Hit("s", (0, 1), "")]


def test_a_handle_is_taken_once() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    index.add("s", event("a"))
    with pytest.raises(ConditionError, match="'s' is in the index already"):
        index.add("s", event("b"))
    index.remove("s")
    index.remove("s")
    index.add("s", event("b"))
    assert "s" in index


class Touched:
    """A handle that counts how often the index hashes it, which every look at its subscription does."""

    def __init__(self) -> None:
        self.times = 0

    def __hash__(self) -> int:
        self.times += 1
        return id(self)


@pytest.mark.parametrize(
    "subscribe",
    [
        lambda n: (event(f"other{n}"), None),
        lambda n: (event("t", subject=f"s{n}"), None),
        lambda n: (event("t", by="subject"), f"other{n}"),
        lambda n: (event(source=f"/{n}"), None),
    ],
    ids=["types", "subjects", "keys", "sources"],
)
def test_a_lookup_touches_no_subscription_that_the_event_does_not_reach(
    subscribe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()

    def counted_accepts(matcher: Matcher, sent: Event) -> bool:
        asked["accepts"] += 1
        return True

    read = index_module.key_at

    def counted_key_at(path: str, sent: Event) -> str | None:
        asked["key"] += 1
        return read(path, sent)

    monkeypatch.setattr(Matcher, "accepts", counted_accepts)
    monkeypatch.setattr(index_module, "key_at", counted_key_at)
    index: MatcherIndex[Touched] = MatcherIndex()
    others = [Touched() for _ in range(500)]
    for number, handle in enumerate(others):
        index.add(handle, *subscribe(number))
    wanted = Touched()
    index.add(wanted, event("t", by="subject"), "x")
    before = sum(handle.times for handle in others)
    hits = index.lookup(Event.of("t", "/s", subject="x"))
    assert [hit.handle for hit in hits] == [wanted]
    assert sum(handle.times for handle in others) == before
    assert asked == {"key": 1}
