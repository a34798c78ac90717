"""The tree that an event goes down: every step is a look-up, and subscriptions lie where their route ends.

A place with a single subscription and nothing below is that subscription's Hit, without a node around it:
most are, and each object on the way is one more miss of the processor's cache.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, Union

import msgspec

from ..filters.cel.reads import Scalar
from .checks import Check
from .prefix_map import Texts

T = TypeVar("T", bound=Hashable)


class Hit(msgspec.Struct, Generic[T], frozen=True):
    """An event reached a subscription: the numbers of the matchers that accepted it, ascending, and the key.

    key: canonical; the subscription's own where it has one, else the event's; "" where matchers have no `by`.
    """

    handle: T
    matchers: tuple[int, ...]
    key: str


class Node(Generic[T]):
    """A place in the tree; what it has none of is None.

    hits: the subscriptions that lie here, by handle. exact: {attribute: {value: place}}. affixes:
    {(attribute, backwards): {text: place}}. members: {path in the data: {value: place}}. keys: {`by`: {key:
    place}}, and under the key None lie those that have none of their own.
    """

    __slots__ = ("affixes", "checks", "exact", "hits", "keys", "members")

    def __init__(self) -> None:
        self.hits: dict[T, Hit[T]] | None = None
        self.exact: dict[str, dict[str, Place[T]]] | None = None
        self.affixes: dict[tuple[str, bool], Texts[Place[T]]] | None = None
        self.members: dict[tuple[str, ...], dict[Scalar, Place[T]]] | None = None
        self.keys: dict[str | tuple[str, ...], dict[str | None, Place[T]]] | None = None
        self.checks: dict[Check, Place[T]] | None = None


Place = Union[Hit[T], Node[T]]  # noqa: UP007  # a generic alias needs it before Python 3.12


class Step(NamedTuple):
    """kind: where it leads on in a node. of: the attribute or path, None for checks. at: the value there."""

    kind: Literal["exact", "affixes", "members", "keys", "checks"]
    of: Hashable
    at: Any


class Places(Protocol[T]):
    """What lies behind one kind of step: a dict, or Texts."""

    def get(self, at: Any, /) -> Place[T] | None: ...
    def __setitem__(self, at: Any, place: Place[T], /) -> None: ...
    def __delitem__(self, at: Any, /) -> None: ...


def put(places: Places[T], at: object, steps: list[Step], hit: Hit[T]) -> None:
    """Lay a hit at the end of the steps from `places[at]`; where its handle has one, the two become one."""
    place = places.get(at)
    for step in steps:
        node = _node(places, at, place)
        places, at = _below(node, step), step.at
        place = places.get(at)
    if place is None:
        places[at] = hit
    elif isinstance(place, Hit) and place.handle == hit.handle:
        places[at] = united(place, hit)
    else:
        node = _node(places, at, place)
        hits = node.hits = node.hits or {}
        other = hits.get(hit.handle)
        hits[hit.handle] = hit if other is None else united(other, hit)


def take(places: Places[T], at: object, steps: list[Step], handle: T) -> bool:
    """Take the hit of a handle out, and free what is empty then. False if it is not there."""
    trail: list[tuple[Places[T], object, Node[T], Step]] = []
    for step in steps:
        place = places.get(at)
        if not isinstance(place, Node):
            return False
        below = _found(place, step)
        if below is None:
            return False
        trail.append((places, at, place, step))
        places, at = below, step.at
    place = places.get(at)
    if isinstance(place, Node):
        if place.hits is None or place.hits.pop(handle, None) is None:
            return False
        _shrink(places, at, place)
    elif place is not None and place.handle == handle:
        del places[at]
    else:
        return False
    for above, above_at, node, step in reversed(trail):
        if not places:
            _drop(node, step)
        _shrink(above, above_at, node)
        places = above
    return True


def united(one: Hit[T], other: Hit[T]) -> Hit[T]:
    """One hit for two of the same handle and key."""
    return Hit(one.handle, tuple(sorted({*one.matchers, *other.matchers})), one.key)


def _node(places: Places[T], at: object, place: Place[T] | None) -> Node[T]:
    if isinstance(place, Node):
        return place
    node: Node[T] = Node()
    if place is not None:
        node.hits = {place.handle: place}
    places[at] = node
    return node


def _below(node: Node[T], step: Step) -> Places[T]:
    kinds: Any = getattr(node, step.kind)
    if kinds is None:
        kinds = {}
        setattr(node, step.kind, kinds)
    if step.kind == "checks":
        return kinds  # type: ignore[no-any-return]
    below = kinds.get(step.of)
    if below is None:
        below = kinds[step.of] = Texts() if step.kind == "affixes" else {}
    return below  # type: ignore[no-any-return]


def _found(node: Node[T], step: Step) -> Places[T] | None:
    kinds: Any = getattr(node, step.kind)
    if kinds is not None and step.kind != "checks":
        kinds = kinds.get(step.of)
    return kinds  # type: ignore[no-any-return]


def _drop(node: Node[T], step: Step) -> None:
    kinds: Any = getattr(node, step.kind)
    if step.kind != "checks":
        del kinds[step.of]
    if not kinds:
        setattr(node, step.kind, None)


def _shrink(places: Places[T], at: object, node: Node[T]) -> None:
    """Put in the place of a node what is left of it."""
    if node.exact or node.affixes or node.members or node.keys or node.checks:
        node.hits = node.hits or None
    elif not node.hits:
        del places[at]
    elif len(node.hits) == 1:
        places[at] = next(iter(node.hits.values()))
