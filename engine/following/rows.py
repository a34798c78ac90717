"""Pages of subscriptions, and filters that look at each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from ..records.registration import Kind
from ..registry.lazy import LazyRegistry
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
            found = _Found(version, sorted(self._matching(wanted, chain.from_iterable(lists))))
        self._found[asked] = found
        while len(self._found) > MOST_FILTERED:
            del self._found[next(iter(self._found))]
        return found.offsets

    def newest(self, kind: Kind, event_type: str, limit: int, keys: Collection[str] | None) -> list[int]:
        """The greatest `limit` offsets of those that name the type; keys: so many of each of these keys.

        One look at each registration, of which there may be 100,000: so it is one loop without calls.
        """
        listed, parts = self._registry.listed, self._registry.parts
        one_shot, named = kind == "one-shot", _type_in(event_type)
        room = {b"": limit} if keys is None else {_key_in(key): limit for key in keys}
        found: list[int] = []
        last, is_named = b"", False
        for offset in sorted(listed, reverse=True):  # they are in order but for few
            each = listed[offset]
            if each.one_shot is not one_shot:
                continue
            form = each.form
            before, condition, after = form if isinstance(form, tuple) else parts(each)
            if condition is not last:  # many share one condition
                last, is_named = condition, named in condition
            if not is_named:
                continue
            for key in room:
                if key in after or key in before:
                    found.append(offset)
                    room[key] -= 1
                    if not room[key]:
                        del room[key]
                    break
            if not room:
                break
        return found

    def _matching(self, wanted: Rows, offsets: Iterable[int]) -> Iterator[int]:
        """Those of these offsets that meet the filters."""
        listed, parts = self._registry.listed, self._registry.parts
        search, key = wanted.search, None if wanted.key is None else _key_in(wanted.key)
        if search:
            offsets = (each for each in offsets if search in listed[each].subscription)
        if key is None and wanted.event_type is None:
            yield from offsets
            return
        named = None if wanted.event_type is None else _type_in(wanted.event_type)
        last, is_named = b"", named is None
        for offset in offsets:
            before, condition, after = parts(listed[offset])
            if condition is not last and named is not None:  # many share one condition
                last, is_named = condition, named in condition
            if is_named and (key is None or key in after or key in before):
                yield offset


def _type_in(event_type: str) -> bytes:
    """How the JSON of a condition that names this type has it."""
    return f'"type":{_json(event_type)}'.encode()


def _key_in(key: str) -> bytes:
    """How the JSON of a registration with this key has it."""
    return f'"key":{_json(key)},'.encode()


def _json(text: str | None) -> str:
    return msgspec.json.encode(text).decode()
