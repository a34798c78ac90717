"""The tree that an event follows: each step is a look-up, the last one leads to a route's subscriptions.

An entry with a single subscription and nothing below is that subscription's Hit, without a node around it.
Most entries are of this kind, and one object less saves a cache miss of the processor.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, Union

import msgspec

from ..filters.cel.reads import Scalar
from .checks import Check
from .prefix_map import PrefixMap

T = TypeVar("T", bound=Hashable)


class Hit(msgspec.Struct, Generic[T], frozen=True):
    """A subscription that an event reached: the numbers of the matchers that accepted it, ascending; the key.

    key: canonical; the subscription's own if it has one, else the event's; "" if no matcher has a `by`.
    values: {number of a matcher with `distinct`: the event's value}; None without one. Hits in the tree have
    none.
    """

    handle: T
    matchers: tuple[int, ...]
    key: str
    values: dict[int, str] | None = None


class DistinctHit(Hit[T], Generic[T], frozen=True):
    """In the tree, a hit whose subscription has a count(distinct=): the event's values must be added to it.

    It has a class of its own, so that look-ups have no extra check for all other hits.
    """


class Node(Generic[T]):
    """A node of the tree; fields that would be empty are None.

    hits: the subscriptions whose route ends here, by handle. exact: {attribute: {value: entry}}. affixes:
    {(attribute, backwards): {text: entry}}. members: {path in the data: {value: entry}}. keys: {`by`: {key:
    entry}}, with the subscriptions that have no key of their own under None.
    """

    __slots__ = ("affixes", "checks", "exact", "hits", "keys", "members")

    def __init__(self) -> None:
        self.hits: dict[T, Hit[T]] | None = None
        self.exact: dict[str, dict[str, Entry[T]]] | None = None
        self.affixes: dict[tuple[str, bool], PrefixMap[Entry[T]]] | None = None
        self.members: dict[tuple[str, ...], dict[Scalar, Entry[T]]] | None = None
        self.keys: dict[str | tuple[str, ...], dict[str | None, Entry[T]]] | None = None
        self.checks: dict[Check, Entry[T]] | None = None


Entry = Union[Hit[T], Node[T]]  # noqa: UP007  # a generic alias needs it before Python 3.12


class Step(NamedTuple):
    """A look-up. kind: the field of the node. of: the attribute or path, or None. at: the value sought."""

    kind: Literal["exact", "affixes", "members", "keys", "checks"]
    of: Hashable
    at: Any


class Entries(Protocol[T]):
    """The entries behind a step: a dict or a PrefixMap."""

    def get(self, at: Any, /) -> Entry[T] | None: ...
    def __setitem__(self, at: Any, entry: Entry[T], /) -> None: ...
    def __delitem__(self, at: Any, /) -> None: ...


def insert_hit(entries: Entries[T], at: object, steps: list[Step], hit: Hit[T]) -> None:
    """Put a hit at the end of the steps from `entries[at]`; merge it with a hit of the same handle."""
    entry = entries.get(at)
    for step in steps:
        node = _node(entries, at, entry)
        entries, at = _entries_or_new(node, step), step.at
        entry = entries.get(at)
    if entry is None:
        entries[at] = hit
    elif isinstance(entry, Hit) and entry.handle == hit.handle:
        entries[at] = united(entry, hit)
    else:
        node = _node(entries, at, entry)
        hits = node.hits = node.hits or {}
        other = hits.get(hit.handle)
        hits[hit.handle] = hit if other is None else united(other, hit)


def remove_hit(entries: Entries[T], at: object, steps: list[Step], handle: T) -> bool:
    """Remove the hit of a handle, and all that becomes empty. False if there is none."""
    trail: list[tuple[Entries[T], object, Node[T], Step]] = []
    for step in steps:
        entry = entries.get(at)
        if not isinstance(entry, Node):
            return False
        below = _entries(entry, step)
        if below is None:
            return False
        trail.append((entries, at, entry, step))
        entries, at = below, step.at
    entry = entries.get(at)
    if isinstance(entry, Node):
        if entry.hits is None or entry.hits.pop(handle, None) is None:
            return False
        _shrink(entries, at, entry)
    elif entry is not None and entry.handle == handle:
        del entries[at]
    else:
        return False
    for above, above_at, node, step in reversed(trail):
        if not entries:
            _drop(node, step)
        _shrink(above, above_at, node)
        entries = above
    return True


def united(one: Hit[T], other: Hit[T]) -> Hit[T]:
    """One hit for two of the same handle and key."""
    return type(one)(one.handle, tuple(sorted({*one.matchers, *other.matchers})), one.key)


def _node(entries: Entries[T], at: object, entry: Entry[T] | None) -> Node[T]:
    if isinstance(entry, Node):
        return entry
    node: Node[T] = Node()
    if entry is not None:
        node.hits = {entry.handle: entry}
    entries[at] = node
    return node


def _entries_or_new(node: Node[T], step: Step) -> Entries[T]:
    lookups: Any = getattr(node, step.kind)
    if lookups is None:
        lookups = {}
        setattr(node, step.kind, lookups)
    if step.kind == "checks":
        return lookups  # type: ignore[no-any-return]
    below = lookups.get(step.of)
    if below is None:
        below = lookups[step.of] = PrefixMap() if step.kind == "affixes" else {}
    return below  # type: ignore[no-any-return]


def _entries(node: Node[T], step: Step) -> Entries[T] | None:
    lookups: Any = getattr(node, step.kind)
    if lookups is not None and step.kind != "checks":
        lookups = lookups.get(step.of)
    return lookups  # type: ignore[no-any-return]


def _drop(node: Node[T], step: Step) -> None:
    lookups: Any = getattr(node, step.kind)
    if step.kind != "checks":
        del lookups[step.of]
    if not lookups:
        setattr(node, step.kind, None)


def _shrink(entries: Entries[T], at: object, node: Node[T]) -> None:
    """Replace a node by its last hit, or remove it, if nothing else is left."""
    if node.exact or node.affixes or node.members or node.keys or node.checks:
        node.hits = node.hits or None
    elif not node.hits:
        del entries[at]
    elif len(node.hits) == 1:
        entries[at] = next(iter(node.hits.values()))
