"""Pages of subscriptions, and filters that look at each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from ..records.registration import Kind
from ..registry.lazy import LazyRegistry, Listed
from ..registry.registry import Registered

MOST_FILTERED: Final = 4  # filters whose rows are kept for further pages


@dataclass(frozen=True)
class Rows:
    """Which subscriptions are wanted, and in which order. All that is given must hold.

    dags: only subscriptions that belong to these DAGs (`owner.owner_of`); None: all, also those without one.
    search: a part of the name. key: of the registration, in its canonical form. event_type: a type that the
    condition names.
    """

    kind: Kind | None = None
    dag_id: str | None = None
    search: str = ""
    key: str | None = None
    event_type: str | None = None
    dags: Collection[str] | None = None
    newest_first: bool = True


class Page(NamedTuple):
    """Some of the rows. next: what `after` gives the rows behind these; None at the end. total: all rows."""

    rows: list[Registered]
    next: int | None
    total: int


class _Found(NamedTuple):
    version: int
    offsets: list[int]


class FilteredRows:
    """Finds registrations by name, key and event type. Keeps what the last filters found. Not thread-safe.

    Looks at the JSON of a registration, as Interlock writes it, and builds no condition.
    """

    def __init__(self, registry: LazyRegistry) -> None:
        self._registry = registry
        self._found: dict[Rows, _Found] = {}  # the one that was asked for last is the last one

    def offsets(self, wanted: Rows, lists: Iterable[Iterable[int]], version: int) -> list[int]:
        """The offsets in these lists that meet the filters, ascending. version: of the registry's content."""
        asked = replace(
            wanted, dags=None if wanted.dags is None else frozenset(wanted.dags), newest_first=True
        )
        found = self._found.pop(asked, None)
        if found is None or found.version != version:
            is_wanted, listed = self._filter(wanted), self._registry.listed
            offsets = sorted(offset for each in lists for offset in each if is_wanted(listed[offset]))
            found = _Found(version, offsets)
        self._found[asked] = found
        while len(self._found) > MOST_FILTERED:
            del self._found[next(iter(self._found))]
        return found.offsets

    def _filter(self, wanted: Rows) -> Callable[[Listed], bool]:
        search, key = wanted.search, f'"key":{_json(wanted.key)},'.encode()
        named, names = f'"type":{_json(wanted.event_type)}'.encode(), dict[bytes, bool]()

        def is_wanted(listed: Listed) -> bool:
            if search not in listed.subscription:
                return False
            if wanted.key is None and wanted.event_type is None:
                return True
            before, condition, after = self._registry.parts(listed)
            if wanted.key is not None and key not in before and key not in after:
                return False
            if wanted.event_type is None:
                return True
            found = names.get(condition)
            if found is None:
                found = names[condition] = named in condition
            return found

        return is_wanted


def _json(text: str | None) -> str:
    return msgspec.json.encode(text).decode()
