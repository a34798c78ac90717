"""The targets of connections: looked up in threads, kept, and looked up again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from ..log import log
from .target import SinkTarget, TargetError

Lookup: TypeAlias = Callable[[str], SinkTarget]

FRESH_S: Final = 60.0  # then a connection is looked up again; the old target is used meanwhile
AGAIN_S: Final = 5.0  # the least time between lookups after a failure, or when a sink denies the credentials
LOOKUP_S: Final = 30.0  # a lookup that takes longer counts as failed
# Lookups of one connection at a time: the second one begins when the first one takes too long, since a
# connection that broke unnoticed never answers. More of them would take the threads of other connections.
MOST_LOOKUPS: Final = 2


class Resolved(NamedTuple):
    """A target, its TLS context (None without TLS), and when the files of that context were changed."""

    target: SinkTarget
    tls: ssl.SSLContext | None
    changed: tuple[int, ...]


@dataclass(eq=False)
class _Entry:
    """What is known of a connection: `found`, or `error`. looked_at: when a lookup last ended or failed.

    begun: how many lookups have begun; each has its number. running: how many of them have not ended. taken:
    the number of the newest one whose result was taken. task: waits for the newest one, while that may still
    end in time. warned: the last failure that was logged.
    """

    found: Resolved | None = None
    error: TargetError | None = None
    looked_at: float = float("-inf")
    begun: int = 0
    running: int = 0
    taken: int = 0
    task: asyncio.Task[None] | None = None
    warned: str = ""


class Targets:
    """Looks up targets for the tasks of one event loop. lookup: may block; called in `threads`.

    A lookup that raises TargetError says that the connection cannot be used: its deliveries wait. After any
    other error the old target is used. One that takes longer than `most_s` has failed as well; what it finds
    later counts, unless a newer one has ended by then.
    """

    def __init__(
        self,
        lookup: Lookup,
        threads: Executor,
        now: Callable[[], float] = monotonic,
        most_s: float = LOOKUP_S,
    ) -> None:
        self._lookup, self._threads, self._now, self._most_s = lookup, threads, now, most_s
        self._entries: dict[str, _Entry] = {}

    async def get(self, connection: str) -> Resolved:
        """The target, at once if it was looked up before. Raises TargetError."""
        entry = self._entries.get(connection)
        if entry is None:
            entry = self._entries[connection] = _Entry()
        is_usable = entry.found is not None and entry.error is None
        if self._now() - entry.looked_at >= (FRESH_S if is_usable else AGAIN_S):
            self._start(connection, entry)
        if not is_usable and entry.task is not None:
            await asyncio.shield(entry.task)
        if entry.error is not None:
            raise entry.error
        if entry.found is None:
            raise TargetError(f"Connection {connection!r} was not looked up yet.")
        return entry.found

    def doubt(self, connection: str) -> None:
        """Look a connection up again, because its sink denied the credentials: they may have been changed."""
        entry = self._entries.get(connection)
        if entry is not None and self._now() - entry.looked_at >= AGAIN_S:
            self._start(connection, entry)

    def _start(self, connection: str, entry: _Entry) -> None:
        if entry.task is None and entry.running < MOST_LOOKUPS:
            entry.task = asyncio.create_task(self._look_up(connection, entry))

    async def _look_up(self, connection: str, entry: _Entry) -> None:
        """Begin a lookup, and wait for it as long as it may take."""
        try:
            lookup = asyncio.get_running_loop().run_in_executor(
                self._threads, self._resolved, connection, entry.found
            )
            entry.begun, entry.running = entry.begun + 1, entry.running + 1
            lookup.add_done_callback(partial(self._take, connection, entry, entry.begun))
            await asyncio.wait([lookup], timeout=self._most_s)
            if not lookup.done():
                self._fail(connection, entry, f" within {self._most_s:g} s")
        except RuntimeError as e:  # no thread
            self._fail(connection, entry, f": {e}")
        finally:
            entry.looked_at = self._now()
            entry.task = None

    def _take(self, connection: str, entry: _Entry, number: int, lookup: asyncio.Future[Resolved]) -> None:
        """A lookup has ended, perhaps later than it may."""
        entry.running -= 1
        if lookup.cancelled() or number < entry.taken:
            return
        entry.taken = number
        error = lookup.exception()
        if error is None:
            entry.found, entry.error, entry.warned = lookup.result(), None, ""
        elif isinstance(error, TargetError):
            entry.error = error
        else:  # of any kind; its text may have the connection's URI
            self._fail(connection, entry, f": {type(error).__name__}")
        entry.looked_at = self._now()

    def _fail(self, connection: str, entry: _Entry, why: str) -> None:
        text = f"Connection {connection!r} could not be looked up{why}."
        if entry.found is None:
            entry.error = TargetError(text)
        elif entry.error is None and text != entry.warned:
            log.warning("%s Deliveries use the connection as it was last read.", text)
        entry.warned = text

    def _resolved(self, connection: str, before: Resolved | None) -> Resolved:
        try:
            target = self._lookup(connection)
        except CancelledError:  # it would cancel the tasks that wait, whose deliveries would never end
            raise TimeoutError from None
        changed = target.tls.changed()
        if before is not None and (before.target, before.changed) == (target, changed):
            return before
        return Resolved(target, target.tls.context() if target.needs_tls else None, changed)
