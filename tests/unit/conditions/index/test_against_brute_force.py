"""The matcher index finds the same as evaluating every matcher of every subscription."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions import Condition, ConditionError, Hit, Matcher, MatcherIndex, canonical_key
from interlock.conditions.filters import All, Any, Exact, Filter, Not, Prefix, Sql, Suffix, Where
from interlock.events import Event

T = TypeVar("T")
Key = str | tuple[str, ...] | None

ATTRIBUTES = ("type", "source", "subject", "tenant")
# Beginnings and endings of each other, so that events reach several places at once.
TEXTS = ("a", "ab", "abc", "b", "ba", "aab", "abcabcabc", "c")
PATHS = ("subject", "tenant", "data.k", "data.o.k", ("subject", "data.k"), ("tenant", "subject"))
KEYS = ("a", "ab", "20261120", "7", ("a", "7"), '["ab","a"]')
DATA = (None, b"{", {"k": "a"}, {"k": 7, "o": {"k": 7}}, {"k": 20261120}, {"k": [1]})
SQL = (Sql("subject LIKE 'a%'"), Sql("INT(tenant) > 5"), Sql("EXISTS tenant"))
WHERE = (  # these fail on some events
    Where("data.k == 'a'"),
    Where("event.type == 'a' || data.o.k == 7"),
    Where("data.o.k == 7 && event.type != 'b'"),
    Where("event.subject == 'a' && (data.k == 'a' || data.k == 1)"),
    Where("1 == data.k && data.o.k == 7.0"),
)


class Drawn:
    """Random subscriptions and events. Hypothesis gives only seed and sizes, because its own draws take ten
    times as long as the test.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pick = self.random.choice

    def one_in(self, chances: int) -> bool:
        return not self.random.randrange(chances)

    def some(self, draw: Callable[[], T], least: int, most: int) -> list[T]:
        return [draw() for _ in range(self.random.randint(least, most))]

    def pairs(self) -> dict[str, str]:
        return dict(self.some(lambda: (self.pick(ATTRIBUTES), self.pick(TEXTS)), 1, 2))

    def filter(self, depth: int = 3) -> Filter:
        if depth and self.one_in(2):
            below = self.some(lambda: self.filter(depth - 1), 1, 3)
            kind = self.pick((Any, Any, All, Not))
            return Not(below[0]) if kind is Not else kind(*below)
        if self.one_in(4):
            return self.pick(SQL)
        return self.pick((Exact, Prefix, Suffix))(self.pairs())

    def matcher(self) -> Matcher:
        return Matcher(
            tuple(self.pairs().items()) if self.one_in(3) else (),
            None if self.one_in(3) else self.pick(PATHS),
            "l" if self.one_in(5) else None,
            filters=self.some(self.filter, 0, 2),
            where=self.pick(WHERE) if self.one_in(4) else None,
            keeps="first" if self.one_in(5) else None,
        )

    def subscription(self) -> tuple[Condition, Key]:
        while True:
            try:
                condition: Condition = self.matcher()
                for other in self.some(self.matcher, 0, 2):
                    condition = condition & other if self.one_in(2) else condition | other
                last = condition.matchers[-1]
                if self.one_in(4):
                    condition = (condition & ~self.matcher()).within("1h")
                elif self.one_in(3):
                    condition &= Matcher(
                        last.exact, last.by, "again", filters=last.filters, where=last.where, keeps="all"
                    )
                key = self.pick(KEYS) if self.one_in(2) else None
                condition.check_key(key is not None)
            except ConditionError:  # contradictory, without a filter, or with a key that does not fit
                continue
            return condition, key

    def event(self) -> Event:
        return Event.of(
            self.pick(TEXTS),
            self.pick(TEXTS),
            subject=self.pick((None, "20261120", *TEXTS)),
            tenant=self.pick((None, "a", "ab", "7", "70")),
            data=self.pick(DATA),
        )


def brute_force(subs: dict[int, tuple[Condition, Key]], sent: Event) -> Counter[Hit[int]]:
    hits: dict[tuple[int, str], list[int]] = {}
    for handle, (condition, key) in subs.items():
        own = None if key is None else canonical_key(key)
        for number, matcher in enumerate(condition.matchers):
            if not matcher.accepts(sent):
                continue
            read = matcher.key_of(sent) if matcher.by else ""
            if read is None or (matcher.by and own is not None and read != own):
                continue
            hits.setdefault((handle, read if own is None else own), []).append(number)
    return Counter(Hit(handle, tuple(numbers), key) for (handle, key), numbers in hits.items())


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**64), size=st.integers(1, 8), events=st.integers(1, 4), changes=st.integers(0, 8)
)
def test_a_lookup_finds_the_same_as_every_matcher_by_itself(
    seed: int, size: int, events: int, changes: int
) -> None:
    drawn = Drawn(seed)
    sent = [drawn.event() for _ in range(events)]
    index: MatcherIndex[int] = MatcherIndex()
    subs: dict[int, tuple[Condition, Key]] = {}
    for handle in range(size + changes):
        if handle >= size and subs and drawn.one_in(2):
            gone = drawn.pick(sorted(subs))
            index.remove(gone)
            del subs[gone]
        else:
            subs[handle] = drawn.subscription()
            index.add(handle, *subs[handle])
        if handle >= size - 1:
            for one in sent:
                assert Counter(index.lookup(one)) == brute_force(subs, one)
    for handle in list(subs):
        index.remove(handle)
    assert index._types == {}
    assert len(index._checks) == 0
    assert len(index) == 0
