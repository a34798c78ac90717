"""The open firings that a scan found and could not hold, so that the next scan need not read to the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .window import Scope


class NotedFirings:
    """Open firings of one partition that are not in memory: their record keys and offsets.

    A scope is covered up to an offset if each of its open firings below that offset is held or noted, or left
    out with the other scope to which it belongs (the sink of a lane, or a lane of the sink), which then reads
    it. Call `remove` for each acknowledgement: what is noted counts as open.
    """

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._covered: dict[Scope, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has(self, key: bytes, offset: int) -> bool:
        """Whether the firing in the record at this offset is noted.

        A record before the noted one does not count: it was acknowledged. A record after it counts: if the
        firing was written twice, compaction may have removed the noted record.
        """
        noted = self._offsets.get(key)
        return noted is not None and noted <= offset

    def covered(self, scope: Scope) -> int:
        """Up to which offset the scope is covered; 0 if it is not."""
        return self._covered.get(scope, 0)

    def add(self, offsets: Mapping[bytes, int]) -> None:
        """Note these firings, {record key: offset}. Of two offsets of one firing the lower one counts."""
        noted = self._offsets
        for key, offset in offsets.items():
            noted[key] = min(offset, noted.get(key, offset))

    def cover(self, scopes: Iterable[Scope], offset: int) -> None:
        """From now on these scopes are covered up to `offset`."""
        self._covered.update(dict.fromkeys(scopes, offset))

    def uncover(self, scopes: Iterable[Scope]) -> None:
        """From now on these scopes are not covered."""
        for scope in scopes:
            self._covered.pop(scope, None)

    def uncover_all_but(self, left_out: Mapping[Scope, int]) -> None:
        """Keep covered scopes whose sink has something left out below the covered offset; forget the rest."""
        lowest: dict[str, int] = {}
        for (subscription, _), offset in left_out.items():
            lowest[subscription] = min(offset, lowest.get(subscription, offset))
        self._covered = {
            scope: at for scope, at in self._covered.items() if scope[0] in lowest and at > lowest[scope[0]]
        }

    def remove(self, key: bytes) -> bool:
        """Forget a firing. Returns whether it was noted."""
        return self._offsets.pop(key, None) is not None

    def forget(self, subscription: str) -> None:
        """Forget the firings of a sink, and what is covered of it."""
        prefix = subscription.encode() + b"\0"
        self._offsets = {key: at for key, at in self._offsets.items() if not key.startswith(prefix)}
        self.uncover([scope for scope in self._covered if scope[0] == subscription])
