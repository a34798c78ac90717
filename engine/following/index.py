"""The order of a bus's subscriptions, by DAG: a page begins anywhere without a look at those before it."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import neg
from typing import Final, NamedTuple

from ..records.registration import Kind
from ..registry.lazy import Listed
from .owner import owner_of

_KINDS: Final[tuple[Kind, ...]] = ("one-shot", "durable")


class _Of(NamedTuple):
    """What the subscriptions of one list have in common. dag_id: None for those without a DAG."""

    kind: Kind
    dag_id: str | None


class Index:
    """The offsets of listed registrations, by kind and DAG. Not thread-safe."""

    def __init__(self, deployment: str) -> None:
        self._deployment = deployment
        self._offsets: dict[_Of, list[int]] = {}

    def add(self, listed: Listed) -> None:
        """Add a registration. Most have the greatest offset so far."""
        offsets = self._offsets.setdefault(self._of(listed), [])
        if offsets and listed.offset < offsets[-1]:
            insort(offsets, listed.offset)
        else:
            offsets.append(listed.offset)

    def remove(self, listed: Listed) -> None:
        """Remove a registration that was added."""
        of = self._of(listed)
        offsets = self._offsets[of]
        del offsets[bisect_left(offsets, listed.offset)]
        if not offsets:
            del self._offsets[of]

    def _of(self, listed: Listed) -> _Of:
        kind: Kind = "one-shot" if listed.one_shot else "durable"
        return _Of(kind, owner_of(listed.subscription, kind, self._deployment).dag_id)

    def lists(
        self, kind: Kind | None, dag_id: str | None, dags: Collection[str] | None
    ) -> list[Sequence[int]]:
        """The lists with the offsets of the wanted registrations, each ascending. See `Rows`."""
        kinds = _KINDS if kind is None else (kind,)
        chosen: Iterable[_Of] = (of for of in self._offsets if of.kind in kinds)
        if dag_id is not None:
            dags = {dag_id} if dags is None or dag_id in dags else ()
        if dags is not None:
            chosen = (_Of(each, dag) for each in kinds for dag in dags)
        return [self._offsets[of] for of in chosen if of in self._offsets]


def merged(lists: Iterable[Sequence[int]], after: int | None, *, newest_first: bool) -> Iterator[int]:
    """The offsets of all lists behind `after`, in order. Looks at no offset before it."""
    if not newest_first:
        starts = ((each, 0 if after is None else bisect_left(each, after + 1)) for each in lists)
        return heapq.merge(*(map(each.__getitem__, range(start, len(each))) for each, start in starts))
    ends = ((each, len(each) if after is None else bisect_left(each, after)) for each in lists)
    return heapq.merge(*(map(each.__getitem__, range(end - 1, -1, -1)) for each, end in ends), key=neg)
