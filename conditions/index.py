"""The matcher index: which subscriptions an event reaches, in time that grows with those alone.

Every exact filter is a set of (attribute, value). Filters that name the same attributes lie in one dict under
their values, so an event finds all of them with one look-up, whatever their number; the dicts are grouped by
type first. Below a filter lie the `by` paths in use, each read once an event, and below a path the waits: all
those without a key of their own, and those with one under that key.
"""

from __future__ import annotations

from collections.abc import Hashable, Sized
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..events.event import Event
from .condition import Condition
from .errors import ConditionError
from .key import canonical_key
from .matcher import Matcher, key_at

T = TypeVar("T", bound=Hashable)

UNKEYED = ""
_ABSENT = ""  # no filter has an empty value

_Names = tuple[str, ...]
_Values = tuple[str, ...]


@dataclass(frozen=True)
class Hit(Generic[T]):
    """An event reached a subscription: the numbers of the matchers that accepted it, ascending, and the key.

    key: canonical; the subscription's own where it has one, else the event's; "" where matchers have no `by`.
    """

    handle: T
    matchers: tuple[int, ...]
    key: str


@dataclass
class _Waits(Generic[T]):
    """The subscriptions behind one (filter, by): {handle: numbers of its matchers}."""

    any_key: dict[T, list[int]] = field(default_factory=dict)
    by_key: dict[str, dict[T, list[int]]] = field(default_factory=dict)


_Paths = dict["str | None", _Waits[T]]
_Filters = dict[_Names, dict[_Values, _Paths[T]]]


class MatcherIndex(Generic[T]):
    """Finds the subscriptions that an event reaches. Not safe for threads; handles are hashable."""

    def __init__(self) -> None:
        self._types: dict[str | None, _Filters[T]] = {}
        self._subscriptions: dict[T, tuple[Condition, str | None]] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, handle: object) -> bool:
        return handle in self._subscriptions

    def add(self, handle: T, condition: Condition, key: str | None = None) -> None:
        """Subscribe `condition` under `handle`, for one key only if `key` is given (made canonical here).

        ConditionError if the handle is taken, or if the key and the condition do not go together.
        """
        if handle in self._subscriptions:
            raise ConditionError(f"subscription {handle!r} is in the index already: remove it first")
        condition.check_key(key is not None)
        own = canonical_key(key) if key is not None else None
        self._subscriptions[handle] = (condition, own)
        for number, matcher in enumerate(condition.matchers):
            waits = self._waits(matcher)
            # a matcher without `by` beside a keyed one passes on to the subscription's own key (K23)
            group = waits.any_key if own is None or matcher.by is None else waits.by_key.setdefault(own, {})
            group.setdefault(handle, []).append(number)

    def remove(self, handle: T) -> None:
        """Take a subscription out; one that is not there is no error. What it alone used is freed."""
        condition, own = self._subscriptions.pop(handle, (None, None))
        if condition is None:
            return
        for matcher in condition.matchers:
            self._discard(handle, matcher, own)

    def lookup(self, event: Event) -> list[Hit[T]]:
        """The hits of an event: one for each subscription and key that it reaches, in no promised order."""
        attributes = event.attributes
        found: dict[tuple[T, str], list[int]] = {}
        keys: dict[str, str | None] = {}
        for event_type in (attributes.get("type"), None):
            for names, filters in self._types.get(event_type, {}).items():
                paths = filters.get(tuple([attributes.get(name, _ABSENT) for name in names]))
                if paths is None:
                    continue
                for path, waits in paths.items():
                    if path is None:
                        self._collect(waits.any_key, UNKEYED, found)
                        continue
                    if path not in keys:
                        keys[path] = key_at(path, event)
                    key = keys[path]
                    if key is not None:  # K20: no key, no match
                        self._collect(waits.any_key, key, found)
                        self._collect(waits.by_key.get(key, {}), key, found)
        return [Hit(handle, tuple(sorted(numbers)), key) for (handle, key), numbers in found.items()]

    def _collect(
        self, group: dict[T, list[int]], event_key: str, found: dict[tuple[T, str], list[int]]
    ) -> None:
        for handle, numbers in group.items():
            own = self._subscriptions[handle][1]
            found.setdefault((handle, event_key if own is None else own), []).extend(numbers)

    def _waits(self, matcher: Matcher) -> _Waits[T]:
        names, values, event_type = _place(matcher)
        paths = self._types.setdefault(event_type, {}).setdefault(names, {}).setdefault(values, {})
        return paths.setdefault(matcher.by, _Waits())

    def _discard(self, handle: T, matcher: Matcher, own: str | None) -> None:
        names, values, event_type = _place(matcher)
        by_names = self._types.get(event_type, {})
        by_values = by_names.get(names, {})
        paths = by_values.get(values, {})
        waits = paths.get(matcher.by)
        if waits is None:
            return  # an equal matcher of this subscription was taken out before
        waits.any_key.pop(handle, None)
        if own is not None and own in waits.by_key:
            waits.by_key[own].pop(handle, None)
            if not waits.by_key[own]:
                del waits.by_key[own]
        if not waits.any_key and not waits.by_key:
            del paths[matcher.by]
            _prune(by_values, values)
            _prune(by_names, names)
            _prune(self._types, event_type)


def _place(matcher: Matcher) -> tuple[_Names, _Values, str | None]:
    """The attributes filtered, their values, and the type among them."""
    names, values = zip(*matcher.exact, strict=True)
    return names, values, dict(matcher.exact).get("type")


_K = TypeVar("_K")
_V = TypeVar("_V", bound=Sized)


def _prune(level: dict[_K, _V], entry: _K) -> None:
    if entry in level and not level[entry]:
        del level[entry]
