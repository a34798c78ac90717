"""MatcherIndex: add and remove subscriptions; look up which of them an event reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from ...events.event import Event
from ..errors import ConditionError
from ..nodes.condition import Condition
from ..nodes.key import canonical_key
from ..nodes.matcher import Matcher
from ..nodes.paths import counting_matchers, key_at, scalar_at
from .checks import Check, Checks
from .routes import Route, routes_of
from .tree import DistinctHit, Entry, Hit, Step, insert_hit, remove_hit, united

T = TypeVar("T", bound=Hashable)

UNKEYED: Final = ""


class MatcherIndex(Generic[T]):
    """Finds the subscriptions that an event reaches. Not safe for threads; handles are hashable."""

    def __init__(self) -> None:
        self._types: dict[str | None, Entry[T]] = {}
        self._subscriptions: dict[T, tuple[Condition, str | None]] = {}
        self._distinct: dict[T, Mapping[int, str | tuple[str, ...]]] = {}  # only those that have some
        self._checks = Checks()
        self._lookup_number = 0  # number of the look-up; a check is evaluated once in each

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, handle: object) -> bool:
        return handle in self._subscriptions

    @property
    def errors(self) -> Counter[str]:
        """{text of a filter: number of events on which its evaluation failed, so that they did not match}.

        It has at most 1,000 entries, the last for all other filters. Clear it to restart the counts.
        """
        return self._checks.errors

    def add(self, handle: T, condition: Condition, key: str | Sequence[str] | None = None) -> None:
        """Add a subscription: `handle` identifies it; with `key`, in any spelling, it is for that key only.

        Raises ConditionError if the handle is in use, if the key does not fit the condition, or if the
        condition cannot stand alone.
        """
        if handle in self._subscriptions:
            raise ConditionError(f"subscription {handle!r} is in the index already: remove it first")
        condition.check_key(key is not None)
        own = None if key is None else canonical_key(key)
        routes = _routes(condition)  # before anything is inserted, since it may raise
        self._subscriptions[handle] = (condition, own)
        kind: type[Hit[T]] = Hit
        if condition.distinct_paths:
            self._distinct[handle] = condition.distinct_paths
            kind = DistinctHit
        for number, matcher in enumerate(condition.matchers):
            hit = kind(handle, (number,), UNKEYED if own is None else own)
            for route in routes[number]:
                checks = [self._checks.use(each) for each in route.checks]
                insert_hit(self._types, _type_of(route), _steps(route, matcher, own, checks), hit)

    @staticmethod
    def check(condition: Condition) -> None:
        """Raises what `add` would raise because it cannot make the routes of the condition."""
        _routes(condition)

    def remove(self, handle: T) -> None:
        """Remove a subscription and what only it used; does nothing if there is none."""
        condition, own = self._subscriptions.pop(handle, (None, None))
        if condition is None:
            return
        self._distinct.pop(handle, None)
        for matcher in condition.matchers:
            for route in routes_of(matcher):
                checks = [self._checks[each] for each in route.checks]
                # matchers that differ only in label or keep share an entry, which the first one removes
                remove_hit(self._types, _type_of(route), _steps(route, matcher, own, checks), handle)
                for check in checks:
                    self._checks.release(check)

    def lookup(self, event: Event) -> list[Hit[T]]:
        """The hits of an event: one for each subscription and key that it reaches, in any order."""
        attributes = event.attributes
        types = self._types
        typed, untyped = types.get(attributes.get("type")), types.get(None)
        if typed is None:
            if untyped is None:
                return []
            entries = [untyped]
        elif untyped is not None:
            entries = [typed, untyped]
        elif type(typed) is Hit:
            return [typed]
        else:
            entries = [typed]
        self._lookup_number += 1
        hits: list[Hit[T]] = []
        keys: dict[str | tuple[str, ...], str | None] = {}
        for entry in entries:  # entries are appended in the loop
            if isinstance(entry, Hit):
                hits.append(entry)
                continue
            if entry.exact is not None:
                exact = entry.exact
                # go over the shorter of the two: the tree may have far more attributes than the event
                for name in exact if len(exact) <= len(attributes) else attributes:
                    by_text = exact.get(name)
                    value = attributes.get(name)
                    if by_text is None or value is None:
                        continue
                    below = by_text.get(value)
                    if below is not None:
                        entries.append(below)
            if entry.affixes is not None:
                affixes = entry.affixes
                asked = affixes if len(affixes) <= len(attributes) else _ends(attributes)
                for name, backwards in asked:
                    texts = affixes.get((name, backwards))
                    value = attributes.get(name)
                    if texts is not None and value is not None:
                        entries += texts.find(value[::-1] if backwards else value)
            if entry.members is not None:
                for path, by_value in entry.members.items():
                    member = scalar_at(path, event)
                    below = None if member is None else by_value.get(member)
                    if below is not None:
                        entries.append(below)
            if entry.keys is not None:
                for by, by_key in entry.keys.items():
                    if by not in keys:
                        keys[by] = key_at(by, event)
                    key = keys[by]
                    if key is None:  # K20: no key, no match
                        continue
                    below = by_key.get(key)
                    if below is not None:
                        entries.append(below)
                    below = by_key.get(None)
                    if isinstance(below, Hit):
                        hits.append(Hit(below.handle, below.matchers, key))
                    elif below is not None:
                        hits += [Hit(hit.handle, hit.matchers, key) for hit in self._passed(below, event)]
            if entry.hits is not None or entry.checks is not None:
                hits += self._passed(entry, event)
        hits = hits if len(hits) < 2 else _merged(hits)
        return self._counted(hits, event) if self._distinct else hits

    def _counted(self, hits: list[Hit[T]], event: Event) -> list[Hit[T]]:
        """The hits with the event's values for count(distinct=); without matchers that do not count it."""
        found: list[Hit[T]] = []
        for hit in hits:
            distinct = self._distinct.get(hit.handle)
            if distinct is None:
                found.append(hit)
                continue
            numbers, values = counting_matchers(distinct, hit.matchers, event)
            if numbers:
                found.append(Hit(hit.handle, numbers, hit.key, values))
        return found

    def _passed(self, entry: Entry[T], event: Event) -> list[Hit[T]]:
        """The hits at an entry, and the hits below its checks that the event passes."""
        if isinstance(entry, Hit):
            return [entry]
        hits = [] if entry.hits is None else list(entry.hits.values())
        if entry.checks is not None:
            # checks are the last steps, after keys, because a check costs more than a look-up
            entries = [entry]
            for node in entries:  # entries are appended in the loop
                for check, below in (node.checks or {}).items():
                    if not check.passes(event, self._lookup_number):
                        continue
                    if isinstance(below, Hit):
                        hits.append(below)
                        continue
                    entries.append(below)
                    hits += (below.hits or {}).values()
        return hits


def _routes(condition: Condition) -> list[tuple[Route, ...]]:
    """The routes of each matcher."""
    return [routes_of(matcher) for matcher in condition.matchers]


def _ends(attributes: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    return ((name, backwards) for name in attributes for backwards in (False, True))


def _type_of(route: Route) -> str | None:
    return next((value for name, value in route.exact if name == "type"), None)


def _steps(route: Route, matcher: Matcher, own: str | None, checks: list[Check]) -> list[Step]:
    """The steps from the entry of the route's type to the entry of its subscriptions."""
    steps: list[Step] = []
    steps += [Step("exact", name, value) for name, value in route.exact if name != "type"]
    steps += [Step("affixes", (name, backwards), text) for name, backwards, text in route.affixes]
    steps += [Step("members", path, text) for path, text in route.members]
    if matcher.by is not None:  # a matcher without `by` beside keyed ones counts for the wait's key (K23)
        steps.append(Step("keys", matcher.by, own))
    steps += [Step("checks", None, check) for check in checks]
    return steps


def _merged(hits: list[Hit[T]]) -> list[Hit[T]]:
    """One hit for each subscription and key; an event may reach a subscription by several routes."""
    if len({hit.handle for hit in hits}) == len(hits):
        return hits
    found: dict[tuple[T, str], Hit[T]] = {}
    for hit in hits:
        at = (hit.handle, hit.key)
        other = found.get(at)
        found[at] = hit if other is None else united(other, hit)
    return list(found.values())
