"""Turns for reading partitions: one that does not answer delays only deliveries that need it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

from ..errors import EngineError, FetchError, UnreachableError

T = TypeVar("T")


class PartitionTurns:
    """One read at a time of each partition. For the tasks of one event loop.

    A partition is *stalled* from a read that failed until one succeeds. A FetchError is no such failure: the
    partition has answered. What waits for a partition while its read fails gets the error of that read,
    instead of a read of its own that would take as long.
    """

    def __init__(self) -> None:
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stalled: dict[str, UnreachableError] = {}  # why, by partition; another object for each failure
        self._turn_of_stalled = asyncio.Lock()

    @asynccontextmanager
    async def admit(self, partitions: Collection[str]) -> AsyncIterator[None]:
        """Enter this before `read`, and before taking what others may wait for.

        It does not wait, unless one of these partitions is stalled: all stalled ones have one turn together,
        which ends when this is left. Raises UnreachableError if a read of one failed while it waited.
        """
        known = {each: self._stalled.get(each) for each in partitions}
        if any(known.values()):
            async with self._turn_of_stalled:
                for each, error in known.items():
                    self._raise_newer(each, error)
                if not self._stalled.keys().isdisjoint(partitions):
                    yield
                    return
        yield

    async def read(self, partition: str, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` returns, in the partition's turn. Raises its error.

        Raises UnreachableError without a read if another one failed while this one waited.
        """
        known = self._stalled.get(partition)
        async with self._turns[partition]:
            self._raise_newer(partition, known)
            try:
                found = await read()
            except FetchError:
                self._stalled.pop(partition, None)
                raise
            except EngineError as e:
                self._stalled[partition] = UnreachableError(str(e))  # not `e`, which holds what is being sent
                raise
            self._stalled.pop(partition, None)
            return found

    def _raise_newer(self, partition: str, known: UnreachableError | None) -> None:
        error = self._stalled.get(partition)
        if error is not None and error is not known:
            raise UnreachableError(str(error))
